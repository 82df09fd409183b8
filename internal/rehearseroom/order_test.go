package rehearseroom_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// W5: of two visitors at any two of three processes, the one who was answered before the other asked is in front.
func TestNobodyOvertakes(t *testing.T) {
	t.Parallel()
	h := install(t, 3)
	h.room(`"capacity":1`)
	type visit struct {
		user           string
		sent, answered time.Time
		position       int64
	}
	visits := make([]visit, 400)
	next := make(chan int)
	var crowd sync.WaitGroup
	for range 40 {
		crowd.Go(func() {
			for i := range next {
				v := visit{user: fmt.Sprint("user-", i), sent: time.Now()}
				a := h.as(v.user, i, "POST", place, "")
				v.answered = time.Now()
				if a.Status != http.StatusCreated {
					t.Error(a)
					continue
				}
				var p seen
				a.Into(t, &p)
				v.position = p.Position
				visits[i] = v
			}
		})
	}
	for i := range visits {
		next <- i
	}
	close(next)
	crowd.Wait()
	apart := 0
	for _, first := range visits {
		for _, second := range visits {
			if !first.answered.Before(second.sent) {
				continue
			}
			apart++
			if first.position >= second.position {
				t.Errorf("%s was answered with position %d before %s asked, who has %d", first.user, first.position, second.user, second.position)
			}
		}
	}
	if apart < len(visits) {
		t.Errorf("only %d pairs came one after the other", apart)
	}
	slices.SortFunc(visits, func(a, b visit) int { return int(a.position - b.position) })
	for i, v := range visits {
		if v.position != int64(i+1) {
			t.Fatalf("%s has position %d, want %d: every position has one visitor", v.user, v.position, i+1)
		}
	}
}

// W2, P9: a place is the same after the process that gave it has ended, with its token alone, and with the user's name alone. No process writes
// the token to its log.
func TestAPlaceOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	h := install(t, 2)
	h.room(`"capacity":1`)
	h.join("ann", "bob")
	token := h.look("bob").Token
	before := h.look("bob")
	first := h.apis[0]
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	h.apis = h.apis[1:]
	h.startAPI()
	for i := range h.apis {
		for what, fields := range map[string][]string{"user": {"X-User-ID", "bob"}, "user and token": {"X-User-ID", "bob", "X-Place-Token", token}} {
			a := servetest.Call("GET", h.apis[i].URL("public")+place, "", fields...)
			var after seen
			if a.Into(t, &after); after.Number != before.Number || after.Position != before.Position || after.Token == "" {
				t.Errorf("by %s: %v, before %+v", what, a, before)
			}
		}
	}
	if a := h.as("bob", 1, "POST", place, ""); a.Status != http.StatusOK {
		t.Errorf("joining again: %v", a)
	}
	for _, api := range append(h.apis, first) {
		if strings.Contains(api.Output(), token) {
			t.Error("the token is in a log")
		}
	}
}

// W7, P27: a join and a claim whose answers are lost are repeated, and give the same place and the same pass.
func TestALostAnswer(t *testing.T) {
	t.Parallel()
	h := install(t, 2)
	h.room(`"capacity":1`)
	// send sends a request, and hangs up without reading.
	send := func(path string) {
		conn, err := net.Dial("tcp", h.apis[0].Addr("public"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: shop\r\nX-User-ID: ann\r\nContent-Length: 0\r\n\r\n", path)
		_ = conn.Close()
	}
	for range 20 {
		send(place)
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return h.as("ann", 1, "GET", place, "") }) // one of them arrived
	a := h.as("ann", 1, "POST", place, "")
	var p seen
	if a.Into(t, &p); a.Status != http.StatusOK || p.Number != 1 {
		t.Errorf("the same again: %v", a)
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return h.as("ann", 0, "GET", place+"?wait_ms=5000&while=waiting", "") })
	for range 20 {
		send(place + "/claim")
	}
	passes := make(map[string]bool)
	for i := range 4 {
		servetest.Until(t, http.StatusOK, func() servetest.Answer { return h.as("ann", i, "POST", place+"/claim", "") }).Into(t, &p)
		passes[p.Pass] = true
	}
	if len(passes) != 1 {
		t.Errorf("%d passes of one turn", len(passes))
	}
	h.join("bob")
	if p := h.look("bob"); p.Number != 2 {
		t.Errorf("the next has number %d", p.Number)
	}
}

// W6, P15: reads of places in every state, of the room and of its draw write no row.
func TestReadingWritesNothing(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now()) // so that no tick writes
	h.startAPI()
	h.startAPI()
	h.room(`"capacity":3`)
	h.join("ann", "bob", "cem", "dan", "eve")
	h.later(step)
	h.seenByAll()
	if status := h.claim("ann", 0); status != http.StatusOK {
		t.Fatal(status)
	}
	h.as("bob", 0, "DELETE", place, "")
	rows := func() (text string) {
		t.Helper()
		if err := h.db.QueryRowContext(t.Context(), `SELECT (SELECT string_agg(xmin::text || '/' || ctid::text, ' ' ORDER BY seq) FROM waiting_places)
			|| (SELECT xmin::text || ctid::text FROM waiting_rooms) || (SELECT xmin::text || ctid::text FROM waiting_tails)`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := rows()
	token := h.look("eve").Token
	var readers sync.WaitGroup
	for range 10 {
		readers.Go(func() {
			for i := range 30 {
				for _, user := range []string{"ann", "bob", "cem", "eve", "nobody"} {
					if a := h.as(user, i, "GET", place, ""); a.Status != http.StatusOK && user != "nobody" {
						t.Error(a)
					}
				}
				url := h.apis[i%2].URL("public")
				servetest.Call("GET", url+place, "", "X-User-ID", "eve", "X-Place-Token", token)
				servetest.Call("HEAD", url+room, "")
				servetest.Call("GET", url+room, "")
				servetest.Call("GET", url+room+"/draw.csv", "")
			}
		})
	}
	readers.Wait()
	if after := rows(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// W16, P13: another rate, capacity, window and message leave the order as it is, also of the turns; another mode is refused.
func TestChangesKeepTheOrder(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.room(`"capacity":1`)
	users := people(12)
	h.join(users...)
	h.later(step)
	h.seenByAll()
	put := func(status int, mode, more string) {
		t.Helper()
		h.operate(status, "PUT", room, fmt.Sprintf(`{"mode":%q,"gather_at":%q,"starts_at":%q%s}`, mode, h.started, h.started, more))
	}
	turns := 1
	for _, change := range []struct {
		what  string
		apply func()
		more  int // turns then
	}{
		{"a capacity of 4", func() { put(http.StatusOK, "fifo", `,"capacity":4`) }, 3},
		{"a rate beside it", func() { h.operate(http.StatusOK, "POST", room+"/rate", `{"rate_per_min":6000}`) }, 0},
		{"a smaller capacity", func() { put(http.StatusOK, "fifo", `,"capacity":1,"rate_per_min":600,"claim_ms":5000`) }, 0},
		{"another mode", func() {
			h.operate(http.StatusConflict, "PUT", room, fmt.Sprintf(`{"mode":"draw","gather_at":%q,"starts_at":%q,"capacity":9}`, h.at.Add(-time.Hour).UTC().Format(time.RFC3339), h.started))
		}, 0},
		{"a message", func() { h.operate(http.StatusOK, "POST", room+"/message", `{"message":"soon"}`) }, 0},
		{"a capacity of 9", func() { put(http.StatusOK, "fifo", `,"capacity":9`) }, 5},
	} {
		change.apply()
		h.later(step)
		h.seenByAll()
		turns += change.more
		for i, user := range users {
			want := "waiting"
			if i < turns {
				want = "turn"
			}
			if p := h.look(user); p.Position != int64(i+1) || p.State != want {
				t.Errorf("after %s: %s is %+v, want position %d, %s", change.what, user, p, i+1, want)
			}
		}
	}
}

// W23, P25: those who read when they are told to get their turns in the order of their positions, and lose none; those who read all the time
// get theirs no earlier. The times to read are spread.
func TestPollingGainsNothing(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.room(`"rate_per_min":30,"claim_ms":8000`)
	users := people(20)
	h.join(users...)
	due, turns := make([]time.Time, len(users)), make([]time.Time, len(users))
	admitted := 0
	pauses := make(map[int64]bool)
	for end := h.at.Add(3 * time.Minute); admitted < len(users) && h.at.Before(end); {
		h.later(step)
		h.seenByAll()
		for i, user := range users {
			if !turns[i].IsZero() || i%2 == 0 && h.at.Before(due[i]) {
				continue
			}
			p := h.look(user)
			due[i] = h.at.Add(time.Duration(p.PollAfterMS) * time.Millisecond)
			pauses[p.PollAfterMS] = true
			switch p.State {
			case "waiting":
			case "turn":
				if status := h.claim(user, i); status == http.StatusOK {
					turns[i] = p.TurnUntil
					admitted++
				} else if status != http.StatusServiceUnavailable {
					t.Errorf("%s: %d", user, status)
				}
			default:
				t.Fatalf("%s is %+v", user, p)
			}
		}
	}
	if admitted != len(users) {
		t.Errorf("%d of %d were admitted", admitted, len(users))
	}
	if !slices.IsSortedFunc(turns, time.Time.Compare) {
		t.Errorf("the turns of the positions ended at %v", turns)
	}
	if len(pauses) < 20 {
		t.Errorf("poll_after_ms was one of %v", pauses)
	}
}

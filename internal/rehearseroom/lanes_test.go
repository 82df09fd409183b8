package rehearseroom_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// W3, W4, W5: over two processes, each lane of a room has its own order, in which nobody's position or number of people ahead rises, and its share
// of the turns, until it is empty and the other has all of them. Nobody of another tier gets into a lane.
func TestLanesOfARoom(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.room(`"rate_per_min":600,"lanes":[{"lane":"members","share":30,"tier":"member"},{"lane":"all","share":70}]`)
	if a := h.as("eve", 0, "POST", place, `{"lane":"members"}`); a.Status != http.StatusForbidden {
		t.Errorf("somebody who is no member: %v", a)
	}
	lane := make(map[string]string)
	next := make(map[string]int64)
	last := make(map[string]seen)
	users := people(200)
	for i, user := range users {
		lane[user], next["all"] = "all", next["all"]+1
		tier, body := "", ""
		if i%4 == 0 {
			lane[user], next["all"], next["members"] = "members", next["all"]-1, next["members"]+1
			tier, body = "member", `{"lane":"members"}`
		}
		var p seen
		a := servetest.Call("POST", h.apis[i%2].URL("public")+place, body, "X-User-ID", user, "X-User-Tier", tier)
		if a.Into(t, &p); a.Status != http.StatusCreated || p.Position != next[lane[user]] {
			t.Fatalf("%s in %s: %v", user, lane[user], a)
		}
		last[user] = p
	}
	var doc struct {
		Served int64
		Lanes  []struct{ Served, Joined, Waiting int64 }
	}
	for end := h.at.Add(2 * time.Minute); doc.Served < 200; {
		if h.at.After(end) {
			t.Fatalf("%+v", doc)
		}
		h.later(step)
		h.seenByAll()
		if err := json.Unmarshal(servetest.Call("GET", h.apis[1].URL("public")+room, "").Body, &doc); err != nil {
			t.Fatal(err)
		}
		members, all := doc.Lanes[0], doc.Lanes[1]
		if members.Served+all.Served != doc.Served || members.Joined != 50 || all.Joined != 150 {
			t.Errorf("%+v", doc)
		}
		if off := 10*members.Served - 3*doc.Served; members.Waiting > 0 && all.Waiting > 0 && (off > 10 || off < -10) {
			t.Errorf("members have had %d of %d turns", members.Served, doc.Served)
		}
		for i := 0; i < len(users); i += 7 {
			var p seen
			h.as(users[i], i, "GET", place, "").Into(t, &p)
			if before := last[users[i]]; p.Position != before.Position || p.Ahead > before.Ahead {
				t.Errorf("%s was %+v, and is %+v", users[i], before, p)
			}
			last[users[i]] = p
		}
	}
	if state := last[users[0]].State; state != "turn" && state != "lapsed" {
		t.Errorf("at the end the first is %s", state)
	}
	taken := make(map[string]bool)
	for i, user := range users {
		var p struct {
			Lane     string
			Position int64
		}
		h.as(user, i, "GET", place, "").Into(t, &p)
		if at := fmt.Sprint(p.Lane, p.Position); p.Lane != lane[user] || taken[at] {
			t.Errorf("%s: %+v", user, p)
		} else {
			taken[at] = true
		}
	}
	h.verify()
}

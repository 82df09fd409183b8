package rehearseroom_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/waitingroom/draw"
)

// draws makes a room that draws at, without a sale.
func (h *house) draws(name string, at time.Time) {
	h.Helper()
	h.operate(http.StatusCreated, "PUT", "/v1/rooms/"+name, fmt.Sprintf(`{"mode":"draw","capacity":1,"gather_at":%q,"starts_at":%q}`,
		h.at.Add(-time.Minute).UTC().Format(time.RFC3339Nano), at.UTC().Format(time.RFC3339Nano)))
	for _, api := range h.apis {
		servetest.Until(h.T, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", api.URL("public")+"/v1/rooms/"+name, "") })
	}
}

// drawOf is what is published of a draw.
type drawOf struct{ Commitment, Root, Seed, Secret string }

// drawn returns what an API publishes of a room's draw.
func (h *house) drawn(api int, name string) drawOf {
	h.Helper()
	var doc struct{ Draw drawOf }
	a := servetest.Call("GET", h.apis[api%len(h.apis)].URL("public")+"/v1/rooms/"+name, "")
	if a.Status == http.StatusOK {
		a.Into(h.T, &doc)
	}
	return doc.Draw
}

// list waits until a room has drawn, and returns the position of each who took part, in the order of joining.
func (h *house) list(name string) (positions []int, text []byte) {
	h.Helper()
	text = servetest.Until(h.T, http.StatusOK, func() servetest.Answer {
		return servetest.Call("GET", h.apis[0].URL("public")+"/v1/rooms/"+name+"/draw.csv", "")
	}).Body
	if _, err := draw.Verify(bytes.NewReader(text)); err != nil {
		h.Errorf("the draw of %s: %v", name, err)
	}
	for line := range strings.Lines(string(text)) {
		var index, position int
		if cells := strings.Split(strings.TrimSpace(line), ","); len(cells) == 4 && cells[0] != "index" {
			if _, err := fmt.Sscan(cells[0]+" "+cells[3], &index, &position); err != nil || index != len(positions) {
				h.Fatalf("%s: %q: %v", name, line, err)
			}
			positions = append(positions, position)
		}
	}
	return positions, text
}

// W27, P18: over 20 draws of 80 visitors, positions do not depend on the order of joining: χ² of deciles and rank correlation have p > 0.001.
// Secrets, salts and the clock are those of the test, so the result is always the same.
func TestPositionsDoNotDependOnTheTime(t *testing.T) {
	t.Parallel()
	const draws, visitors, parts = 20, 80, 10
	h := prepare(t)
	h.ownClock(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	h.startAPI()
	start := h.at.Add(time.Minute)
	var crowd sync.WaitGroup
	for i := range draws {
		name := fmt.Sprint("fair-", i)
		h.draws(name, start)
		secret := sha256.Sum256([]byte(name))
		commitment := sha256.Sum256(secret[:])
		h.exec(`UPDATE waiting_rooms SET secret = $2, commitment = $3, salt = $1 WHERE room = $1`, name, hex.EncodeToString(secret[:]), hex.EncodeToString(commitment[:]))
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			if h.drawn(0, name).Commitment != hex.EncodeToString(commitment[:]) {
				return servetest.Answer{}
			}
			return servetest.Answer{Status: http.StatusOK}
		})
		crowd.Go(func() {
			for _, user := range people(visitors) {
				if a := h.as(user, 0, "POST", "/v1/rooms/"+name+"/place", ""); a.Status != http.StatusCreated {
					t.Error(a)
				}
			}
		})
	}
	crowd.Wait()
	h.later(start.Sub(h.at) + step)
	var cells [parts][parts]float64
	z := 0.0
	for i := range draws {
		positions, _ := h.list(fmt.Sprint("fair-", i))
		if len(positions) != visitors {
			t.Fatalf("%d took part", len(positions))
		}
		apart := 0.0
		for index, position := range positions {
			cells[index*parts/visitors][(position-1)*parts/visitors]++
			apart += math.Pow(float64(index-position+1), 2)
		}
		const n = float64(visitors)
		z += (1 - 6*apart/(n*(n*n-1))) * math.Sqrt(n-1) // Spearman's correlation, with variance 1
	}
	z /= math.Sqrt(draws)
	chi, freedom := 0.0, float64((parts-1)*(parts-1))
	for _, row := range cells {
		for _, n := range row {
			const expected = float64(draws*visitors) / parts / parts
			chi += (n - expected) * (n - expected) / expected
		}
	}
	// Wilson and Hilferty: the cube root of χ² over its degrees of freedom is about normal.
	zChi := (math.Cbrt(chi/freedom) - (1 - 2/(9*freedom))) / math.Sqrt(2/(9*freedom))
	pRank, pChi := math.Erfc(math.Abs(z)/math.Sqrt2), math.Erfc(zChi/math.Sqrt2)/2
	t.Logf("rank correlation: z %.2f, p %.4f; χ² %.1f, p %.4f", z, pRank, chi, pChi)
	if pRank < 0.001 || pChi < 0.001 {
		t.Error("the position depends on the time of joining")
	}
}

// W26, P17: before the draw the commitment is published and the seed is not; every receipt is signed, and its leaf is in the list that is drawn.
func TestReceiptsAreInTheList(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	h.draws("draw", h.at.Add(time.Minute))
	before := h.drawn(0, "draw")
	if before.Commitment == "" || before.Root+before.Seed+before.Secret != "" {
		t.Errorf("before the draw: %+v", before)
	}
	leaves := make(map[string]bool)
	for i, user := range people(20) {
		var p struct{ Receipt string }
		h.as(user, i, "POST", "/v1/rooms/draw/place", "").Into(t, &p)
		parts := strings.Split(p.Receipt, ".")
		text, err := base64.RawURLEncoding.DecodeString(parts[1])
		var claims struct{ Leaf, Aud string }
		if err != nil || json.Unmarshal(text, &claims) != nil || claims.Aud != "draw/receipt" {
			t.Fatalf("%q: %v", p.Receipt, err)
		}
		leaves[claims.Leaf] = true
	}
	h.later(time.Minute + step)
	_, text := h.list("draw")
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(strings.TrimSpace(line), ","); len(cells) == 4 && cells[0] != "index" {
			leaf := sha256.Sum256([]byte("\x00" + "draw\n" + strings.Join(cells[:3], "\n")))
			delete(leaves, hex.EncodeToString(leaf[:]))
		}
	}
	if len(leaves) != 0 {
		t.Errorf("receipts that are not in the list: %v", slices.Collect(maps.Keys(leaves)))
	}
	after := h.drawn(1, "draw")
	secret, err := hex.DecodeString(after.Secret)
	if sum := sha256.Sum256(secret); err != nil || after.Commitment != before.Commitment || hex.EncodeToString(sum[:]) != before.Commitment {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// W28: the connection of whoever draws is cut at each of its writes in turn. No process ever publishes an order that is not the one of the end.
func TestADrawThatBreaksOff(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	h.ownClock(time.Now())
	h.startAPI()
	h.startAPI()
	// The sequence counts writes, also those of transactions that are lost; break is the number at which the connection ends.
	h.exec(`CREATE SEQUENCE clock.writes`)
	h.exec(`CREATE TABLE clock.breaks AS SELECT 0::bigint AS at`)
	h.exec(`CREATE FUNCTION clock.cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('clock.writes') = (SELECT at FROM clock.breaks) THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
		RETURN NULL;
	END $$`)
	for _, table := range []string{"waiting_rooms", "waiting_tails", "waiting_places"} {
		h.exec(`CREATE TRIGGER cut AFTER UPDATE ON ` + table + ` EXECUTE FUNCTION clock.cut()`)
	}
	h.exec(`CREATE CONSTRAINT TRIGGER cut_at_commit AFTER UPDATE ON waiting_tails DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION clock.cut()`)
	const writes = 5 // of a draw: the room and the end of its queue are locked, a turn is given, the room is written, the commit
	for n := 1; n <= writes; n++ {
		name := fmt.Sprint("draw-", n)
		h.draws(name, h.at.Add(step))
		for i, user := range people(15) {
			if a := h.as(user, i, "POST", "/v1/rooms/"+name+"/place", ""); a.Status != http.StatusCreated {
				t.Fatal(a)
			}
		}
		published := make(map[drawOf]bool)
		over := make(chan struct{})
		var mu sync.Mutex
		var readers sync.WaitGroup
		for api := range h.apis {
			readers.Go(func() {
				for done := false; !done; {
					select {
					case <-over:
						done = true // after one more look
					default:
					}
					if d := h.drawn(api, name); d.Root != "" {
						mu.Lock()
						published[d] = true
						mu.Unlock()
					}
				}
			})
		}
		h.exec(`UPDATE clock.breaks SET at = $1`, n)
		h.exec(`ALTER SEQUENCE clock.writes RESTART`)
		h.later(step)
		h.list(name)
		for api := range h.apis {
			servetest.Until(t, http.StatusOK, func() servetest.Answer {
				if h.drawn(api, name).Root == "" {
					return servetest.Answer{}
				}
				return servetest.Answer{Status: http.StatusOK}
			})
		}
		close(over)
		readers.Wait()
		if len(published) != 1 {
			t.Errorf("cut at write %d: %d orders were published: %v", n, len(published), published)
		}
		h.until("the connection was cut", `SELECT last_value > at FROM clock.writes, clock.breaks`)
		// The room is closed, so that the next one alone writes.
		h.exec(`UPDATE clock.breaks SET at = 0`)
		h.operate(http.StatusOK, "POST", "/v1/rooms/"+name+"/close", "")
	}
}

package waitingroom_test

import (
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/memory"
)

// pausing is what a statement that calls the function pausing() of SQLite waits for; nil: nothing.
var pausing atomic.Pointer[chan struct{}]

func init() {
	sqlite.MustRegisterScalarFunction("pausing", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		if c := pausing.Load(); c != nil {
			*c <- struct{}{} // it has begun
			<-*c
		}
		return int64(0), nil
	})
}

// While a verification reads all places of a room, people join, turns are given and claimed.
func TestVerifyStopsNobody(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.standAlone(2)
		h.join("ann")
		h.later(time.Second)
		h.crowd(h.few(50_000), "left_at", 1)
		var began, resume func()
		if m, ok := h.store.(*inMemory); ok {
			c := make(chan struct{})
			around := func(op memory.Op, do func() error) error {
				if op == "TakeCensus" {
					c <- struct{}{}
					<-c
				}
				return do()
			}
			m.around.Store(&around)
			began, resume = func() { <-c }, func() { c <- struct{}{} }
		} else if _, ok := h.db.Driver().(*sqlite.Driver); ok {
			c := make(chan struct{})
			pausing.Store(&c)
			defer pausing.Store(nil)
			h.rooms.Replace("coalesce(min(p.seq), 1)", "coalesce(min(p.seq), 1) + pausing()")
			began, resume = func() { <-c }, func() { c <- struct{}{} }
		} else {
			lock, err := h.db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if _, err := lock.ExecContext(t.Context(), `SELECT pg_advisory_lock(7)`); err != nil {
				t.Fatal(err)
			}
			h.rooms.Replace("coalesce(min(p.seq), 1)", "coalesce(min(p.seq), 1) + (SELECT count(*) * 0 FROM (SELECT pg_advisory_xact_lock_shared(7)) AS w)")
			began = func() {
				for waiting := 0; waiting == 0; {
					if err := h.db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted`).Scan(&waiting); err != nil {
						t.Fatal(err)
					}
				}
			}
			resume = func() {
				if _, err := lock.ExecContext(t.Context(), `SELECT pg_advisory_unlock(7)`); err != nil {
					t.Error(err)
				}
			}
		}
		verified := make(chan []waitingroom.Check, 1)
		go func() {
			checks, err := h.rooms.Verify(t.Context(), name)
			if err != nil {
				t.Error(err)
			}
			verified <- checks
		}()
		began()
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			if p, err := outcome(h.rooms.Join(t.Context(), name, user("bob"), 1)); err != nil || !p.Created {
				t.Errorf("join: %+v, %v", p, err)
			}
			if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
				t.Errorf("claim: %v", err)
			}
			if err := h.rooms.Tick(t.Context(), name); err != nil {
				t.Errorf("tick: %v", err)
			}
		}()
		select {
		case <-answered:
		case <-verified:
			t.Error("the verification did not wait")
		case <-time.After(20 * time.Second):
			t.Error("people wait for the verification")
		}
		resume()
		for _, c := range <-verified {
			if !c.OK {
				t.Errorf("%+v", c)
			}
		}
		<-answered
	})
}

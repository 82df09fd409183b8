package semaphore_test

import (
	"context"
	"testing"

	"github.com/tidegate/tidegate/semaphore"
)

// A watched context reports when its end is waited for.
type watched struct {
	context.Context
	waited chan struct{}
}

func (w watched) Done() <-chan struct{} {
	select {
	case w.waited <- struct{}{}:
	default:
	}
	return w.Context.Done()
}

// One of two waiters with the same id gives up: the other keeps the place.
func TestResentRequestGivenUpOnce(t *testing.T) {
	for _, c := range []struct {
		name     string
		oneHouse bool // both wait in one process
		givesUp  int
	}{
		{"the first of one process", true, 0},
		{"the second of one process", true, 1},
		{"the first of two processes", false, 0},
		{"the second of two processes", false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachRedis(t, func(t *testing.T, h *house) {
				s := h.defined("report", 1, long)
				p := acquire(t, s, semaphore.Request{})
				set1, way1 := h.setOnWay()
				set2, way2 := set1, way1
				if !c.oneHouse {
					set2, way2 = h.setOnWay()
				}
				var callers [2]*caller
				var cancels [2]context.CancelFunc
				for i, set := range []*semaphore.Set{set1, set2} {
					ctx, cancel := context.WithCancel(soon(t))
					defer cancel()
					waits := watched{ctx, make(chan struct{}, 1)}
					heard := way2.answered("acquire")
					callers[i], cancels[i] = call(waits, t, of(t, set, "report"), semaphore.Request{ID: "order 17"}), cancel
					<-waits.waited
					if i == 0 {
						await(t, s, func(st semaphore.Status) bool { return st.Waiting == 1 })
					} else {
						<-heard
					}
				}
				last := queue(t, s, semaphore.Request{}, 2)
				gone := []*way{way1, way2}[c.givesUp].answered("release")
				cancels[c.givesUp]()
				callers[c.givesUp].refused()
				if !c.oneHouse {
					<-gone
				}
				if st := status(t, s); st.Waiting != 2 || st.Totals.TimedOut != 0 {
					t.Errorf("%+v", st)
				}
				release(t, p)
				if q := callers[1-c.givesUp].got(); !last.waits() {
					t.Errorf("the last one got a permit beside %d", q.Token())
				}
			})
		})
	}
}

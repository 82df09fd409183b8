package semaphore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

// A thousand callers in four processes get their permits in the order in which Redis had put them into the queue.
func TestGrantsInOrderOfArrival(t *testing.T) {
	for _, limit := range []int{1, 7} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			h := newHouse(t, testenv.Redis(t))
			s := h.defined("report", limit, 15*time.Second)
			p := acquire(t, s, semaphore.Request{Weight: limit})
			const each = 250
			var children []*child
			for i := range processes {
				children = append(children, spawn(t, job{
					Addr: h.addr, Namespace: h.namespace, Name: "report", Label: fmt.Sprint(i, "/"), Workers: each, Once: true,
					Definition: semaphore.Definition{Limit: limit, Lease: 15 * time.Second},
				}))
			}
			st := await(t, s, func(st semaphore.Status) bool { return st.Waiting == processes*each })
			if !slices.IsSortedFunc(st.Waiters, func(a, b semaphore.Waiter) int { return a.Since.Compare(b.Since) }) {
				t.Error("the queue is not in the order of time")
			}
			release(t, p)
			type grant struct {
				token int64
				who   string
			}
			var grants []grant
			for i, c := range children {
				c.until(func(events []event) bool { return count(events, released) == each })
				for _, e := range c.said() {
					if e.What == acquired {
						grants = append(grants, grant{e.Token, fmt.Sprint(i, "/", e.Worker)})
					}
				}
				c.end()
			}
			slices.SortFunc(grants, func(a, b grant) int { return int(a.token - b.token) })
			exceptions := []string{}
			for i, g := range grants {
				if g.who != st.Waiters[i].Holder {
					exceptions = append(exceptions, fmt.Sprintf("%d: %s instead of %s", i, g.who, st.Waiters[i].Holder))
				}
			}
			t.Logf("%d waiters in %d processes, %d grants, exceptions: %v", len(st.Waiters), processes, len(grants), exceptions)
			if len(exceptions) > 0 || len(grants) != processes*each {
				t.Error("another order")
			}
		})
	}
}

// All holders die, and the five processes whose waiters are first in the queue: the next one gets its permit.
func TestCrashOfHoldersAndOfTheFirstWaiters(t *testing.T) {
	t.Parallel()
	for where, addr := range map[string]string{"redis": testenv.Redis(t), "cluster": strings.Join(testenv.RedisCluster(t), ",")} {
		for _, limit := range []int{1, 3} {
			t.Run(fmt.Sprint(where, ", limit ", limit), func(t *testing.T) {
				t.Parallel()
				const lease = 2 * time.Second
				h := newHouse(t, addr)
				s := h.defined("report", limit, lease)
				j := job{
					Addr: h.addr, Namespace: h.namespace, Name: "report", Workers: limit, Keep: limit,
					Definition: semaphore.Definition{Limit: limit, Lease: lease},
				}
				victims := []*child{spawn(t, j)}
				victims[0].until(func(events []event) bool { return count(events, renewed) > limit })
				j.Workers = 1
				for i := range 5 {
					victims = append(victims, spawn(t, j))
					await(t, s, func(st semaphore.Status) bool { return st.Waiting == i+1 })
				}
				next := queue(t, s, semaphore.Request{}, 6)
				for _, c := range victims {
					c.kill()
				}
				dead := time.Now()
				p := next.got()
				after := time.Since(dead)
				t.Logf("the lease is %v; the sixth waiter got its permit %v after the crash of %d holders and of five waiters before it", lease, after, limit)
				if after > lease+3*time.Second {
					t.Errorf("%v is more than the lease and 3 s", after)
				}
				for _, e := range victims[0].said() {
					if e.Token >= p.Token() {
						t.Errorf("the dead had the token %d, the next has %d", e.Token, p.Token())
					}
				}
				release(t, p)
				if st := await(t, s, func(st semaphore.Status) bool { return st.InUse == 0 && st.Waiting == 0 }); st.Totals.Lost < int64(limit) {
					t.Errorf("%+v", st.Totals)
				}
			})
		}
	}
}

package loadshed

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRunQueueIsFair: at most slots requests run at once, first come, first served.
func TestRunQueueIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewRunQueue()
		var mu sync.Mutex
		var order []int
		running, most := 0, 0
		for i := range 10 * q.slots {
			go func() {
				slot, ok := q.Enter()
				if !ok {
					t.Error("refused")
				}
				mu.Lock()
				order = append(order, i/q.slots) // those that begin together run in any order
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				running--
				mu.Unlock()
				slot.Leave()
				slot.Leave() // changes nothing
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if most != q.slots || len(order) != 10*q.slots || !slices.IsSorted(order) {
			t.Errorf("%d at once, want %d; in the order %v", most, q.slots, order)
		}
	})
}

// TestRunQueueRefusesWhoWaitedTooLong: requests that waited too long are refused, one at a time, and block no others.
func TestRunQueueRefusesWhoWaitedTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewRunQueue()
		held := make([]Slot, q.slots)
		for i := range held {
			held[i], _ = q.Enter()
		}
		const late = 20 // and as many that are not late
		var mu sync.Mutex
		running, refusing, refused, ran := 0, 0, 0, 0
		wait := func() {
			slot, ok := q.Enter()
			defer slot.Leave()
			now, done, most, took := &refusing, &refused, 1, time.Millisecond
			if ok {
				now, done, most, took = &running, &ran, q.slots, 10*time.Millisecond
			}
			mu.Lock()
			if *now++; *now > most {
				t.Errorf("%d at once, want %d (run: %t)", *now, most, ok)
			}
			mu.Unlock()
			time.Sleep(took)
			mu.Lock()
			*now--
			*done++
			mu.Unlock()
		}
		for range late {
			go wait()
		}
		time.Sleep(QueueTimeout + time.Millisecond)
		for range late {
			go wait()
		}
		synctest.Wait()
		for i := range held {
			held[i].Leave()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if ran != late || refused != late {
			t.Errorf("%d ran and %d were refused, want %d of each", ran, refused, late)
		}
		if q.running != 0 || q.refusing || q.waiting.Len()+q.late.Len() != 0 {
			t.Errorf("%d still run, %t, %d and %d wait", q.running, q.refusing, q.waiting.Len(), q.late.Len())
		}
	})
}

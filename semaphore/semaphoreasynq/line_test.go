package semaphoreasynq

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tidegate/tidegate/semaphore"
)

func queued(position int, wait time.Duration) *semaphore.CapacityError {
	return &semaphore.CapacityError{Position: position, Wait: wait}
}

// between fails unless d is least to half as long again.
func between(t *testing.T, what string, d, least time.Duration) {
	t.Helper()
	if d < least || d > least+least/2 {
		t.Errorf("%s: away for %v, should be %v to %v", what, d, least, least+least/2)
	}
}

func TestAwayUntilItsTurn(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	l := newLine()
	for place := range 5 { // each permit is held for 20 s, and there are two
		between(t, strconv.Itoa(place), l.join(taskID{"q", strconv.Itoa(place)}, queued(1, 10*time.Second), now), time.Duration(1+place)*10*time.Second)
	}
	between(t, "three others queue", l.join(taskID{"q", "5"}, queued(4, 40*time.Second), now), 90*time.Second)
	between(t, "it keeps its place", l.join(taskID{"q", "1"}, queued(1, 10*time.Second), now), 20*time.Second)
	l.leave(taskID{"q", "0"})
	between(t, "one is served", l.join(taskID{"q", "1"}, queued(1, 10*time.Second), now), 10*time.Second)
	between(t, "sooner than Asynq can count", l.join(taskID{"q", "1"}, queued(1, time.Millisecond), now), soonest)
	between(t, "a long time", l.join(taskID{"q", "1"}, queued(1, time.Hour), now), latest)
}

// Before the first release the holding time is unknown.
func TestAwayForLongerAndLonger(t *testing.T) {
	now, l := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), newLine()
	for tries := range 12 {
		between(t, strconv.Itoa(tries), l.join(taskID{"q", "1"}, queued(1, 0), now), min(time.Second<<tries, latest))
	}
	between(t, "who is new does not wait for them", l.join(taskID{"q", "2"}, queued(1, 0), now), time.Second)
}

// Tasks that do not return have arrived at other processes, and do not block the line.
func TestMissingTasksAreForgotten(t *testing.T) {
	now, l := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), newLine()
	for i := range 10 {
		l.join(taskID{"q", strconv.Itoa(i)}, queued(1, time.Second), now)
	}
	now = now.Add(30 * time.Second)
	between(t, "they should have come", l.join(taskID{"q", "new"}, queued(1, 10*time.Second), now), 10*time.Second)
	if l.len() == 1 {
		t.Error("they were forgotten too early")
	}
	l.join(taskID{"q", "new"}, queued(1, 10*time.Second), now.Add(forgotten))
	if l.len() != 1 || l.came(taskID{"q", "3"}) || !l.came(taskID{"q", "new"}) {
		t.Errorf("%d are remembered", l.len())
	}
}

func TestLineIsBounded(t *testing.T) {
	now, l := time.Now(), newLine()
	l.order.Init()
	for i := range lineRoom {
		id := taskID{"q", strconv.Itoa(i)}
		l.tasks[id] = l.order.PushBack(&away{id: id, back: now})
	}
	if d := l.join(taskID{"q", "one more"}, queued(1, time.Second), now); d < latest || l.len() != lineRoom {
		t.Errorf("away for %v, %d in line", d, l.len())
	}
}

func TestWhoIsWoken(t *testing.T) {
	now, l := time.Now(), newLine()
	for _, id := range []taskID{{"q", "a"}, {"q", "b"}, {"other", "c"}, {"q", "d"}} {
		l.join(id, queued(1, time.Second), now)
	}
	want := func(what string, now time.Time, ids ...string) {
		t.Helper()
		var got []string
		for _, id := range l.next(10, now) {
			got = append(got, id.id)
		}
		if !slices.Equal(got, ids) {
			t.Errorf("%s: %v, want %v", what, got, ids)
		}
	}
	want("of one queue", now, "a", "b", "d")
	l.wake(taskID{"q", "a"}, now)
	want("a is on its way", now, "b", "d")
	want("a does not come", now.Add(onItsWay), "a", "b", "d")
	l.came(taskID{"q", "a"})
	l.join(taskID{"q", "a"}, queued(1, time.Second), now)
	want("a came in vain", now, "a", "b", "d")
	for _, id := range []string{"a", "b", "d"} {
		l.leave(taskID{"q", id})
	}
	want("the other queue", now, "c")
	if ids := l.next(0, now); ids != nil {
		t.Errorf("%v of none", ids)
	}
}

package semaphoreasynq

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tidegate/tidegate/semaphore"
)

func queued(position int, wait time.Duration) *semaphore.Refusal {
	return &semaphore.Refusal{Position: position, Wait: wait}
}

// between fails unless d is least to half as long again.
func between(t *testing.T, what string, d, least time.Duration) {
	t.Helper()
	if d < least || d > least+least/2 {
		t.Errorf("%s: delayed for %v, should be %v to %v", what, d, least, least+least/2)
	}
}

func TestDelayCoversTheQueueAhead(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	b := newBacklog()
	for place := range 5 { // each permit is held for 20 s, and there are two
		between(t, strconv.Itoa(place), b.add(taskID{"q", strconv.Itoa(place)}, queued(1, 10*time.Second), now), time.Duration(1+place)*10*time.Second)
	}
	between(t, "three others queue", b.add(taskID{"q", "5"}, queued(4, 40*time.Second), now), 90*time.Second)
	between(t, "it keeps its place", b.add(taskID{"q", "1"}, queued(1, 10*time.Second), now), 20*time.Second)
	b.drop(taskID{"q", "0"})
	between(t, "one is served", b.add(taskID{"q", "1"}, queued(1, 10*time.Second), now), 10*time.Second)
	between(t, "sooner than Asynq can count", b.add(taskID{"q", "1"}, queued(1, time.Millisecond), now), minDelay)
	between(t, "a long time", b.add(taskID{"q", "1"}, queued(1, time.Hour), now), maxDelay)
}

// Before the first release the holding time is unknown.
func TestDelayGrowsWhileHoldingTimeIsUnknown(t *testing.T) {
	now, b := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), newBacklog()
	for tries := range 12 {
		between(t, strconv.Itoa(tries), b.add(taskID{"q", "1"}, queued(1, 0), now), min(time.Second<<tries, maxDelay))
	}
	between(t, "who is new does not wait for them", b.add(taskID{"q", "2"}, queued(1, 0), now), time.Second)
}

// Tasks that do not return have arrived at other processes, and do not block the backlog.
func TestMissingTasksAreForgotten(t *testing.T) {
	now, b := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), newBacklog()
	for i := range 10 {
		b.add(taskID{"q", strconv.Itoa(i)}, queued(1, time.Second), now)
	}
	now = now.Add(30 * time.Second)
	between(t, "they should have come", b.add(taskID{"q", "new"}, queued(1, 10*time.Second), now), 10*time.Second)
	if b.len() == 1 {
		t.Error("they were forgotten too early")
	}
	b.add(taskID{"q", "new"}, queued(1, 10*time.Second), now.Add(forgetAfter))
	if b.len() != 1 || b.returned(taskID{"q", "3"}) || !b.returned(taskID{"q", "new"}) {
		t.Errorf("%d are remembered", b.len())
	}
}

func TestBacklogIsBounded(t *testing.T) {
	now, b := time.Now(), newBacklog()
	b.order.Init()
	for i := range maxBacklog {
		id := taskID{"q", strconv.Itoa(i)}
		b.tasks[id] = b.order.PushBack(&delayed{id: id, back: now})
	}
	if d := b.add(taskID{"q", "one more"}, queued(1, time.Second), now); d < maxDelay || b.len() != maxBacklog {
		t.Errorf("delayed for %v, %d in the backlog", d, b.len())
	}
}

func TestWhoIsWoken(t *testing.T) {
	now, b := time.Now(), newBacklog()
	for _, id := range []taskID{{"q", "a"}, {"q", "b"}, {"other", "c"}, {"q", "d"}} {
		b.add(id, queued(1, time.Second), now)
	}
	want := func(what string, now time.Time, ids ...string) {
		t.Helper()
		var got []string
		for _, id := range b.longest(10, now) {
			got = append(got, id.id)
		}
		if !slices.Equal(got, ids) {
			t.Errorf("%s: %v, want %v", what, got, ids)
		}
	}
	want("of one queue", now, "a", "b", "d")
	b.woken(taskID{"q", "a"}, now)
	want("a is on its way", now, "b", "d")
	want("a does not come", now.Add(wakeWithin), "a", "b", "d")
	b.returned(taskID{"q", "a"})
	b.add(taskID{"q", "a"}, queued(1, time.Second), now)
	want("a came in vain", now, "a", "b", "d")
	for _, id := range []string{"a", "b", "d"} {
		b.drop(taskID{"q", id})
	}
	want("the other queue", now, "c")
	if ids := b.longest(0, now); ids != nil {
		t.Errorf("%v of none", ids)
	}
}

package redisstore

import (
	"cmp"
	"context"
	"sync"

	"github.com/tidegate/tidegate/admission/store"
)

// A slot holds the tallies of one request whose keys are in the same cluster slot, and their positions in the request.
type slot struct {
	tallies []store.Tally
	places  []int
	known   []bool // tallies answered from a record; nil: none
}

// slotsOf groups tallies by subject, in the order in which subjects first occur.
func slotsOf(tallies []store.Tally) []slot {
	var slots []slot
	bySubject := map[string]int{}
	for place, t := range tallies {
		at, ok := bySubject[t.Subject]
		if !ok {
			at = len(slots)
			bySubject[t.Subject] = at
			slots = append(slots, slot{})
		}
		slots[at].tallies = append(slots[at].tallies, t)
		slots[at].places = append(slots[at].places, place)
	}
	return slots
}

// decideBySlot sends a charge to the slots one after the other. After one refuses, the others only count refusals. Other calls go to all
// slots at the same time; with an error, there are also the counts of the slots that answered.
func (s *Store) decideBySlot(ctx context.Context, call store.Call) ([]store.Count, error) {
	counts := make([]store.Count, len(call.Tallies))
	slots := slotsOf(call.Tallies)
	if call.Mode != store.Charge {
		errs := make([]error, len(slots))
		var all sync.WaitGroup
		for i := range slots {
			all.Go(func() { _, errs[i] = s.decideIn(ctx, &slots[i], call, counts) })
		}
		all.Wait()
		return counts, cmp.Or(errs...)
	}
	for i := range slots {
		here, err := s.decideIn(ctx, &slots[i], call, counts)
		if err != nil {
			return nil, err // counts in earlier slots stay: too much may be counted, never too little
		}
		if call.Mode == store.Charge && !store.Fits(slots[i].tallies, here) {
			for j := range slots[:i] {
				if err := s.takeBack(ctx, call.Request, &slots[j], counts); err != nil {
					return nil, err
				}
			}
			call.Mode = refuse
		}
	}
	return counts, nil
}

// decideIn decides the part of a call that is in a slot, and also writes the counts to their positions in counts.
func (s *Store) decideIn(ctx context.Context, sl *slot, call store.Call, counts []store.Count) ([]store.Count, error) {
	call.Tallies = sl.tallies
	a := s.one(ctx, call)
	if a.Err != nil {
		return nil, a.Err
	}
	sl.known = a.Out.known
	for i, place := range sl.places {
		counts[place] = a.Out.counts[i]
	}
	return a.Out.counts, nil
}

// takeBack converts a slot's admission into a refusal, and writes the resulting counts into counts. Tallies answered from a record stay
// unchanged, because this call did not decide them. It publishes nothing, because the charge was not published either.
func (s *Store) takeBack(ctx context.Context, request string, sl *slot, counts []store.Count) error {
	back := store.Call{Mode: undo, Request: request}
	var places []int
	for i, place := range sl.places {
		t := sl.tallies[i]
		t.Stamp = counts[place].Stamp
		if (t.Stamp != 0 || t.CountRejected) && (sl.known == nil || !sl.known[i]) {
			back.Tallies, places = append(back.Tallies, t), append(places, place)
		}
	}
	if len(places) == 0 {
		return nil
	}
	a := s.one(ctx, back)
	if a.Err != nil {
		return a.Err
	}
	for i, place := range places {
		counts[place] = a.Out.counts[i]
	}
	return nil
}

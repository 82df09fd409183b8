package admission

import "context"

// A slot is the tallies of one request whose keys one server of a cluster holds, and their places in the request.
type slot struct {
	tallies []Tally
	places  []int
	known   []bool // tallies that were answered from a record; nil: none
}

// slotsOf divides tallies by subject, in the order in which subjects first come.
func slotsOf(tallies []Tally) []slot {
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

// decideBySlot puts a call to one slot after the other. From the one that refuses on, a charge only counts what counts refusals.
func (s *RedisStore) decideBySlot(ctx context.Context, call Call) ([]Count, error) {
	counts := make([]Count, len(call.Tallies))
	slots := slotsOf(call.Tallies)
	for i := range slots {
		sl := &slots[i]
		here := call
		here.Tallies = sl.tallies
		a := s.one(ctx, here)
		if a.Err != nil {
			return nil, a.Err // what earlier slots counted stays: too much, never too little
		}
		sl.known = a.Out.known
		for j, place := range sl.places {
			counts[place] = a.Out.counts[j]
		}
		if call.Mode == Charge && !fits(sl.tallies, a.Out.counts) {
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

// takeBack makes a slot that let the request in one that refused it, and puts its counts as they are then into counts. What was
// answered from a record stays as it was, for it was not decided now. Nobody is told, as nobody was told of the charge.
func (s *RedisStore) takeBack(ctx context.Context, request string, sl *slot, counts []Count) error {
	back := Call{Mode: undo, Request: request}
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

package admission

import "context"

// A slot is the tallies of one request whose keys one server of a cluster holds, and their places in the request.
type slot struct {
	tallies []Tally
	places  []int
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
	for i, sl := range slots {
		here := call
		here.Tallies = sl.tallies
		answers, err := s.one(ctx, here)
		if err != nil {
			return nil, err // what earlier slots counted stays: too much, never too little
		}
		for j, place := range sl.places {
			counts[place] = answers[j]
		}
		if call.Mode == Charge && !fits(sl.tallies, answers) {
			for _, earlier := range slots[:i] {
				if err := s.takeBack(ctx, call.Request, earlier, counts); err != nil {
					return nil, err
				}
			}
			call.Mode = refuse
		}
	}
	return counts, nil
}

// takeBack refunds a slot that was charged, and puts its counts as they are then into counts. What counts refusals stays: charged
// or rejected, it is the same. Nobody is told, as nobody was told of the charge.
func (s *RedisStore) takeBack(ctx context.Context, request string, sl slot, counts []Count) error {
	var charged slot
	for i, place := range sl.places {
		t := sl.tallies[i]
		if t.Stamp = counts[place].Stamp; t.Stamp != 0 && !t.CountRejected {
			charged.tallies = append(charged.tallies, t)
			charged.places = append(charged.places, place)
		}
		counts[place].Stamp = 0
	}
	if len(charged.tallies) == 0 {
		return nil
	}
	answers, err := s.one(ctx, Call{Mode: Refund, Request: request, Tallies: charged.tallies})
	if err != nil {
		return err
	}
	for i, place := range charged.places {
		answers[i].Stamp = 0
		counts[place] = answers[i]
	}
	return nil
}

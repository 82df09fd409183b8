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

func (s *RedisStore) decideBySlot(ctx context.Context, mode Mode, tallies []Tally) ([]Count, error) {
	counts := make([]Count, len(tallies))
	slots := slotsOf(tallies)
	for i, sl := range slots {
		answers, err := s.run(ctx, mode, sl.tallies)
		if err != nil {
			return nil, err // what earlier slots counted stays: too much, never too little
		}
		for j, place := range sl.places {
			counts[place] = answers[j]
		}
		if mode == Charge && !fits(sl.tallies, answers) {
			for _, earlier := range slots[:i] {
				if err := s.takeBack(ctx, earlier, counts); err != nil {
					return nil, err
				}
			}
			mode = Check // the slots that follow, so that every rule which refuses is named
		}
	}
	return counts, nil
}

// takeBack refunds a slot that was charged, and puts its counts as they are then into counts. Shadow tallies that were full
// had not been charged.
func (s *RedisStore) takeBack(ctx context.Context, sl slot, counts []Count) error {
	var charged slot
	for i, place := range sl.places {
		if counts[place].Reason == "" {
			t := sl.tallies[i]
			t.Stamp = counts[place].Stamp
			charged.tallies = append(charged.tallies, t)
			charged.places = append(charged.places, place)
		}
	}
	if len(charged.tallies) == 0 {
		return nil
	}
	answers, err := s.run(ctx, Refund, charged.tallies)
	if err != nil {
		return err
	}
	for i, place := range charged.places {
		counts[place] = answers[i]
	}
	return nil
}

package waitingroom

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Turns returns the places of a lane that have had their turn at the positions from after + 1 to upTo, in the order of the positions. Positions that this
// process has not seen pass yet are left out. The places have no tokens.
func (s *Service) Turns(ctx context.Context, name, lane string, after, upTo int64) ([]Place, error) {
	v, err := s.view(ctx, name)
	if err != nil {
		return nil, err
	}
	i := v.laneIndex(lane)
	if i < 0 {
		return nil, fmt.Errorf("%w: room %s has no lane %s", ErrInvalid, name, lane)
	}
	var numbers []int64
	v.mu.Lock()
	for position := max(after, 0); position < min(upTo, v.lanes[i].Served); position++ {
		numbers = append(numbers, v.orders[i].number(position))
	}
	v.mu.Unlock()
	if len(numbers) == 0 {
		return nil, nil
	}
	found, err := s.store.find(ctx, s.store.db, ofLaneNumbers, name, encode(numbers), lane)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(p *place) bool { return p.turnRT == 0 }) // left or barred before
	slices.SortFunc(found, func(a, b *place) int { return cmp.Compare(a.position, b.position) })
	all := make([]Place, len(found))
	for i, p := range found {
		all[i] = s.placeWithToken(v, p)
		all[i].Token = ""
	}
	return all, nil
}

package audit

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

const (
	minSlots = 1 << 10
	maxSlots = 1 << 20 // 9 MB, if all pages exist
	// pageSlots is how many sums are allocated together, when one of them is first needed: few units of a large stock may have been sold.
	pageSlots = 1 << 6
	// maxRows is about how many elements are compared one by one.
	maxRows = 1 << 13
)

// slots finds the differences between two sets of any size in bounded memory. Each element belongs to a slot, by a hash. The
// first comparison keeps one number for each slot: the sum of the hashes of the elements of one set minus that of the other. It
// is 0 if the sets are equal there, and otherwise with a probability of 2^-64. The later comparisons are of the rows only: the
// elements of the slots that differed, which the caller keeps and compares one by one.
type slots struct {
	seed   maphash.Seed
	sums   []*[pageSlots]uint64 // by page, each nil until one of its sums is needed; nil after the first comparison
	rows   []bool               // by slot: its elements are rows; nil while none has any
	mask   int
	capped int // how many slots become rows at most
}

// newSlots returns slots for sets of about count elements.
func newSlots(count int) *slots {
	n := min(max(1<<bits.Len(uint(count)), minSlots), maxSlots)
	return &slots{seed: maphash.MakeSeed(), sums: make([]*[pageSlots]uint64, n/pageSlots), mask: n - 1, capped: max(1, maxRows*n/max(n, count))}
}

func slotHash[T comparable](s *slots, element T) uint64 { return maphash.Comparable(s.seed, element) }

// of returns the slot of a hash.
func (s *slots) of(hash uint64) int { return int(hash) & s.mask }

// isRow reports whether the elements of a slot are rows.
func (s *slots) isRow(slot int) bool { return s.rows != nil && s.rows[slot] }

// addRow makes the elements of a slot rows.
func (s *slots) addRow(slot int) {
	if s.rows == nil {
		s.rows = make([]bool, s.mask+1)
	}
	s.rows[slot] = true
}

// add adds the hash of an element of one set, or subtracts that of the other with a factor of -1.
func (s *slots) add(slot int, hash uint64) {
	if s.sums == nil {
		return
	}
	page := slot / pageSlots
	if s.sums[page] == nil {
		s.sums[page] = new([pageSlots]uint64)
	}
	s.sums[page][slot%pageSlots] += hash
}

// differ makes a slot differ, whatever its elements are.
func (s *slots) differ(slot int) { s.add(slot, rand.Uint64()) }

// clear forgets the sums of a comparison that failed.
func (s *slots) clear() {
	for _, page := range s.sums {
		if page != nil {
			*page = [pageSlots]uint64{}
		}
	}
}

// choose ends the first comparison, and returns whether any slots differ. They are rows from now on, or as many as are allowed at random:
// if orders in flight make more than those differ, the next verification chooses others.
func (s *slots) choose() bool {
	var differing []int
	for p, page := range s.sums {
		if page == nil {
			continue
		}
		for i, sum := range page {
			if slot := p*pageSlots + i; sum != 0 && !s.isRow(slot) {
				differing = append(differing, slot)
			}
		}
	}
	s.sums = nil
	rand.Shuffle(len(differing), func(i, j int) { differing[i], differing[j] = differing[j], differing[i] })
	for _, slot := range differing[:min(len(differing), s.capped)] {
		s.addRow(slot)
	}
	return len(differing) > 0
}

// sieve has the slots of a sale: what Redis and the database have of each unit, and of each buyer's orders.
type sieve struct{ units, buyers *slots }

func (s *sieve) clear() {
	s.units.clear()
	s.buyers.clear()
}

// choose ends the first comparison of both.
func (s *sieve) choose() bool {
	units, buyers := s.units.choose(), s.buyers.choose()
	return units || buyers
}

package memorystore

import "math/bits"

// A table is a hash table of counters with open addressing. The counters are stored in the slots, so that a lookup costs one cache miss.
// A pointer to a counter is valid until the next add or remove. The zero value is empty.
type table struct {
	slots []counter // free if id is 0
	count int
}

const fewest = 8 // slots of a non-empty table

// home returns the slot where the search for id begins. The low bits of an id select the shard, so it uses others.
func (t *table) home(id counterID) int {
	high, _ := bits.Mul64(uint64(id), uint64(len(t.slots)))
	return int(high)
}

// after returns the slot that is probed after slot i.
func (t *table) after(i int) int {
	if i++; i < len(t.slots) {
		return i
	}
	return 0
}

// slot returns the slot of id, or the free slot where it belongs.
func (t *table) slot(id counterID) int {
	i := t.home(id)
	for t.slots[i].id != id && t.slots[i].id != 0 {
		i = t.after(i)
	}
	return i
}

// find returns the counter with this id, or nil.
func (t *table) find(id counterID) *counter {
	if t.count == 0 {
		return nil
	}
	if c := &t.slots[t.slot(id)]; c.id != 0 {
		return c
	}
	return nil
}

// add returns a new counter with this id, which must not exist yet.
func (t *table) add(id counterID) *counter {
	if 4*t.count >= 3*len(t.slots) {
		t.resize(max(fewest, len(t.slots)*3/2))
	}
	t.count++
	c := &t.slots[t.slot(id)]
	c.id = id
	return c
}

// remove deletes the counter with this id, which must exist. Later entries of the probe sequence move up to fill the gap.
func (t *table) remove(id counterID) {
	t.count--
	free := t.slot(id)
	for i := t.after(free); t.slots[i].id != 0; i = t.after(i) {
		if t.distance(t.home(t.slots[i].id), i) >= t.distance(free, i) {
			t.slots[free] = t.slots[i]
			free = i
		}
	}
	t.slots[free] = counter{}
	switch {
	case t.count == 0:
		t.slots = nil
	case t.count < len(t.slots)/8:
		t.resize(max(fewest, len(t.slots)/4))
	}
}

// distance returns how many slots after from i is.
func (t *table) distance(from, i int) int {
	if i < from {
		i += len(t.slots)
	}
	return i - from
}

func (t *table) resize(n int) {
	old := t.slots
	t.slots = make([]counter, n)
	for i := range old {
		if id := old[i].id; id != 0 {
			t.slots[t.slot(id)] = old[i]
		}
	}
}

package admission

import "math/bits"

// A table holds counters by open addressing: the counter itself is in its slot, so that finding it and looking at it is one wait for
// memory. A pointer to a counter is good until the next add or remove. The zero value is empty.
type table struct {
	slots []counter // where id is 0: free
	count int
}

const fewest = 8 // slots of a table that is not empty

// home is where the search for id begins. The low bits of an id have chosen the shard.
func (t *table) home(id counterID) int {
	high, _ := bits.Mul64(uint64(id), uint64(len(t.slots)))
	return int(high)
}

// after is the slot that is looked at after slot i.
func (t *table) after(i int) int {
	if i++; i < len(t.slots) {
		return i
	}
	return 0
}

// slot returns where id is, or the free slot where it would be.
func (t *table) slot(id counterID) int {
	i := t.home(id)
	for t.slots[i].id != id && t.slots[i].id != 0 {
		i = t.after(i)
	}
	return i
}

// find returns the counter id, or nil.
func (t *table) find(id counterID) *counter {
	if t.count == 0 {
		return nil
	}
	if c := &t.slots[t.slot(id)]; c.id != 0 {
		return c
	}
	return nil
}

// add returns a new counter id, of which there is none.
func (t *table) add(id counterID) *counter {
	if 4*t.count >= 3*len(t.slots) {
		t.resize(max(fewest, len(t.slots)*3/2))
	}
	t.count++
	c := &t.slots[t.slot(id)]
	c.id = id
	return c
}

// remove forgets the counter id, of which there is one. What lies behind it moves up, as if it had never been.
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

// distance is how many slots i is behind from.
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

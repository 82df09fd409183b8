package login

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// A kind is what a state counts for. The script uses the same numbers.
type kind int

const (
	byName kind = iota
	byPair      // name and address
	byIP
	byNetwork
	byDevice
	kinds
)

var kindOf = map[Count]kind{
	CountName: byName, CountNameIP: byPair, CountIP: byIP, CountNamesPerIP: byIP, CountNetwork: byNetwork, CountDevice: byDevice,
}

// Durations in µs, like all times here and in the script.
const (
	second = int64(time.Second / time.Microsecond)
	hour   = 60 * 60 * second
	day    = 24 * hour

	settleWithin = 30 * second // a reserved attempt that is not settled by then has failed
	holdFor      = second      // delay for attempts that wait for pending ones
	pairMemory   = day         // how long failures of an address at a delayed name are remembered
	// pending or failed units of an IPv6 network, from which on none of its addresses counts as new to a name: addresses in it are free
	networkTries = 8
	// attempts of an address at a name before the name's delay applies to it: one typing error does not delay the owner
	ownTries = 2
	// maximum for which consecutive failures are remembered: an hour for each, because most are of names that do not exist
	streakMemory = 30 * day
	maxRuleData  = 100          // per state; above it, data of rules that are unknown here is dropped
	recordLife   = 60 * second  // of the recorded answer to an attempt with an id
	settledLife  = 120 * second // of the recorded answer to a settlement; later ones are too late anyway
	lapseWithin  = 2 * second   // see ruleSet.lapses
)

// An action is what happens to an attempt: in order of strength, numbered as in the script. An active ban or revocation takes
// effect elsewhere.
type action int

const (
	allow action = iota
	challenge
	delay
	deny
	ban
	revoke
)

var actionOf = map[Action]action{Challenge: challenge, Delay: delay, Deny: deny, Ban: ban, Revoke: revoke}

// A rule is a Step in the numeric form for the script.
type rule struct {
	Step

	name                   string
	id                     uint32 // derived from what the rule counts and does, so that its data survives a changed limit, window or length
	kind                   kind
	action                 action
	distinct               bool
	window, length, atMost int64
}

// memory returns how long after its end a penalty makes the next one longer.
func (r *rule) memory(times int64) int64 {
	switch {
	case r.action == revoke && times >= int64(r.Limit):
		return r.atMost
	case r.Consecutive:
		return min(times*hour, streakMemory)
	case r.Growing:
		return max(r.window, r.atMost)
	}
	return 0
}

// lasts returns the length of the times-th penalty in a row.
func (r *rule) lasts(times int64) int64 {
	length := r.length
	for ; r.Growing && times > 1 && length < r.atMost; times-- {
		length *= 2
	}
	if r.Growing {
		return min(length, r.atMost)
	}
	return length
}

// A ruleSet is the login rules of one file in executable form. It is immutable.
type ruleSet struct {
	rules   []rule
	horizon [kinds]int64    // age at which units expire
	keep    [kinds]int64    // how long after its newest pending unit a state is kept: until the failure that it may become has no effect
	room    [kinds]int      // maximum failed units in a state
	flight  [kinds]int      // maximum pending units in a state
	least   [kinds]int      // no rule acts below this many units
	packed  string          // for prelude.lua
	welcome string          // for welcome.lua
	lives   [byDevice]int64 // for welcome.lua: ms to live of a state whose newest unit is from now

	// lapses makes pending attempts expire after two seconds. It is set in a process that counts by itself: most of its attempts are
	// settled in other processes, and it is not notified.
	lapses bool
}

// Minimum room of a state, whatever the rules.
const (
	leastRoom   = 16
	leastRoomIP = 64
)

// newRuleSet compiles steps. A revoked device stays revoked for the lifetime of a token.
func newRuleSet(steps []Step, deviceLife time.Duration) *ruleSet {
	rs := &ruleSet{}
	for k := range kinds {
		rs.horizon[k], rs.room[k] = settleWithin, leastRoom
	}
	rs.room[byIP] = leastRoomIP
	rs.least = rs.room // beyond it units must be dropped
	var longest [kinds]int64
	for _, lr := range steps {
		r := rule{
			Step: lr, name: lr.Name(), id: rs.idFor(&lr), kind: kindOf[lr.Count], action: actionOf[lr.Then], distinct: lr.Count == CountNamesPerIP,
			window: lr.Window.Microseconds(), length: lr.For.Microseconds(), atMost: lr.AtMost.Microseconds(),
		}
		if r.action == revoke {
			r.atMost = deviceLife.Microseconds()
		}
		rs.rules = append(rs.rules, r)
		rs.horizon[r.kind] = max(rs.horizon[r.kind], r.window)
		if r.kind == byPair { // the address keeps unsettled attempts for the pair
			rs.horizon[byIP] = max(rs.horizon[byIP], r.window)
		}
		effect := r.length
		if r.Consecutive { // each failure is kept
			effect += r.memory(1)
		}
		longest[r.kind] = max(longest[r.kind], effect)
		if r.kind == byPair {
			longest[byIP] = max(longest[byIP], effect)
		}
		rs.least[r.kind] = min(rs.least[r.kind], lr.Limit)
		room := lr.Limit
		if r.distinct {
			room *= 4 // repeats of one name must not displace others
		}
		rs.flight[r.kind] = max(rs.flight[r.kind], room)
		if !r.Consecutive {
			rs.room[r.kind] = max(rs.room[r.kind], room)
		}
	}
	for k := range kinds {
		rs.flight[k] = max(rs.flight[k], rs.room[k])
		rs.keep[k] = settleWithin + rs.horizon[k] + longest[k]
	}
	rs.pack()
	return rs
}

// halved returns the rules for a process that counts alone while the store is unavailable: with half the limits, because others count
// too.
func halved(full *ruleSet, steps []Step, deviceLife time.Duration) *ruleSet {
	half := make([]Step, len(steps))
	for i, r := range steps {
		r.Limit = (r.Limit + 1) / 2
		half[i] = r
	}
	rs := newRuleSet(half, deviceLife)
	rs.lapses = true
	for i := range rs.rules { // keep the ids of rules that became equal distinct
		rs.rules[i].name, rs.rules[i].id = full.rules[i].name, full.rules[i].id
	}
	return rs
}

// idFor returns the id of the next rule. Rules that count and do the same get the same ids in the same order in every file.
func (rs *ruleSet) idFor(next *Step) uint32 {
	before := 0
	for i := range rs.rules {
		if r := &rs.rules[i]; r.Count == next.Count && r.Then == next.Then && r.Consecutive == next.Consecutive {
			before++
		}
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %s %t %d", next.Count, next.Then, next.Consecutive, before)
	id := h.Sum32()
	for id == triesRule || rs.index(id) >= 0 { // practically never
		id++
	}
	return id
}

// index returns the index of the rule with that id, or -1.
func (rs *ruleSet) index(id uint32) int {
	return slices.IndexFunc(rs.rules, func(r rule) bool { return r.id == id })
}

// indexOf returns the index in rs of rule i of other, possibly older, rules, or -1.
func (rs *ruleSet) indexOf(other *ruleSet, i int) int {
	if i < 0 || rs == other {
		return i
	}
	return rs.index(other.rules[i].id)
}

// pack encodes the rules for the scripts; prelude.lua and welcome.lua decode it.
func (rs *ruleSet) pack() {
	be := binary.BigEndian
	var b []byte
	for k := range kinds {
		b = be.AppendUint64(b, uint64(rs.horizon[k]))
		b = be.AppendUint64(b, uint64(rs.keep[k]))
		b = be.AppendUint32(b, uint32(rs.room[k]))
		b = be.AppendUint32(b, uint32(rs.flight[k]))
	}
	head := be.AppendUint64(nil, uint64(settleWithin))
	for k := byName; k <= byNetwork; k++ {
		head = be.AppendUint32(head, uint32(rs.least[k]))
		head = be.AppendUint64(head, uint64(rs.horizon[k]))
		rs.lives[k] = (rs.keep[k]+999)/1000 + 1000
	}
	rs.welcome = string(head)
	b = append(b, byte(len(rs.rules)))
	for i := range rs.rules {
		r := &rs.rules[i]
		flags := byte(0)
		for bit, is := range [...]bool{r.distinct, r.Consecutive, r.Growing, r.Shadow} {
			if is {
				flags |= 1 << bit
			}
		}
		b = append(b, byte(r.kind), byte(r.action), flags)
		b = be.AppendUint32(b, r.id)
		b = be.AppendUint32(b, uint32(r.Limit))
		b = be.AppendUint64(b, uint64(r.window))
		b = be.AppendUint64(b, uint64(r.length))
		b = be.AppendUint64(b, uint64(r.atMost))
	}
	rs.packed = string(b)
}

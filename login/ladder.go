package login

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/tidegate/tidegate/admission"
)

// A kind is what a state counts for. The numbers stand in the script as well.
type kind int

const (
	byName kind = iota
	byPair      // of a name and an address
	byIP
	byNetwork
	byDevice
	kinds
)

var kindOf = map[admission.LoginCount]kind{
	admission.CountName: byName, admission.CountNameIP: byPair, admission.CountIP: byIP, admission.CountNamesPerIP: byIP,
	admission.CountNetwork: byNetwork, admission.CountDevice: byDevice,
}

// Durations in µs, as all times here and in the script.
const (
	second = int64(time.Second / time.Microsecond)
	hour   = 60 * 60 * second
	day    = 24 * hour

	settleWithin = 30 * second  // an attempt that nobody has settled by then has failed
	holdFor      = second       // until those who wait for attempts under way may ask again
	pairMemory   = day          // how long an address that failed at a name which is delayed is told from one that is new to it
	networkTries = 8            // under way or failed lately, at whatever names, by which a network of IPv6 is new to nobody: its addresses cost nothing
	ownTries     = 2            // of an address at a name before it has to wait for those that guess the name: who mistypes once gets in
	streakMemory = 30 * day     // for which failures in a row are remembered at most: an hour for each, since most are of names that nobody has
	mostMarks    = 100          // of a state, from which on those of rules that others have in force are dropped
	recordLife   = 60 * second  // of the answer to an attempt with an id
	settledLife  = 120 * second // of the answer to a settlement; what comes later comes too late anyway
	lapseWithin  = 2 * second   // see ladder.lapses
)

// The actions in the order of their strength, as the script numbers them. What is active of a ban or a revocation acts elsewhere.
type action int

const (
	allow action = iota
	challenge
	delay
	deny
	ban
	revoke
)

var actionOf = map[admission.LoginAction]action{
	admission.LoginChallenge: challenge, admission.LoginDelay: delay, admission.LoginDeny: deny, admission.LoginBan: ban, admission.LoginRevoke: revoke,
}

// A rule is an admission.LoginRule in the numbers that the script gets.
type rule struct {
	admission.LoginRule

	name                   string
	id                     uint32 // in states: of what it counts and does, so that its marks outlive another limit, window or length
	kind                   kind
	action                 action
	distinct               bool
	window, length, atMost int64
}

// memory is how long after its end a penalty makes the next one longer.
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

// lasts is the length of the times-th penalty in a row.
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

// A ladder is the login rules of one file, ready for use. It never changes.
type ladder struct {
	rules   []rule
	horizon [kinds]int64    // units that are older mean nothing
	keep    [kinds]int64    // how long after its newest unit a state may still mean something
	room    [kinds]int      // units of a state that have failed
	flight  [kinds]int      // units of a state that are under way
	least   [kinds]int      // no rule acts below so many units
	packed  string          // for begin.lua
	welcome string          // for welcome.lua
	lives   [byDevice]int64 // for welcome.lua: ms that a state lives whose newest unit is of now

	// lapses makes attempts mean nothing that nobody has settled after two seconds. It is for a process that counts by itself: most of its attempts
	// are settled in other processes, of which it hears nothing, and rightly so.
	lapses bool
}

// What a state holds at least of either, whatever the rules.
const (
	leastRoom   = 16
	leastRoomIP = 64
)

// newLadder makes a ladder of rules. A device that is revoked stays it for as long as a token lives.
func newLadder(rules []admission.LoginRule, deviceLife time.Duration) *ladder {
	l := &ladder{}
	for k := range kinds {
		l.horizon[k], l.room[k] = settleWithin, leastRoom
	}
	l.room[byIP] = leastRoomIP
	l.least = l.room // where it is time to drop what there is no room for
	var longest [kinds]int64
	for _, lr := range rules {
		r := rule{
			LoginRule: lr, name: lr.Name(), id: l.idFor(&lr), kind: kindOf[lr.Count], action: actionOf[lr.Then], distinct: lr.Count == admission.CountNamesPerIP,
			window: lr.Window.Microseconds(), length: lr.For.Microseconds(), atMost: lr.AtMost.Microseconds(),
		}
		if r.action == revoke {
			r.atMost = deviceLife.Microseconds()
		}
		l.rules = append(l.rules, r)
		l.horizon[r.kind] = max(l.horizon[r.kind], r.window)
		if r.kind == byPair { // an address remembers for the pair what nobody settles
			l.horizon[byIP] = max(l.horizon[byIP], r.window)
		}
		longest[r.kind] = max(longest[r.kind], r.length)
		l.least[r.kind] = min(l.least[r.kind], lr.Limit)
		room := lr.Limit
		if r.distinct {
			room *= 4 // the same name again must not push others out
		}
		l.flight[r.kind] = max(l.flight[r.kind], room)
		if !r.Consecutive {
			l.room[r.kind] = max(l.room[r.kind], room)
		}
	}
	for k := range kinds {
		l.flight[k] = max(l.flight[k], l.room[k])
		l.keep[k] = settleWithin + l.horizon[k] + longest[k]
	}
	l.pack()
	return l
}

// halved is the ladder of a process that counts alone because the store is away: others count as well.
func halved(full *ladder, rules []admission.LoginRule, deviceLife time.Duration) *ladder {
	half := make([]admission.LoginRule, len(rules))
	for i, r := range rules {
		r.Limit = (r.Limit + 1) / 2
		half[i] = r
	}
	l := newLadder(half, deviceLife)
	l.lapses = true
	for i := range l.rules { // two that become the same stay two
		l.rules[i].name, l.rules[i].id = full.rules[i].name, full.rules[i].id
	}
	return l
}

// idFor is the id of the next rule. Of those that count and do the same, the first of one file is the first of another.
func (l *ladder) idFor(next *admission.LoginRule) uint32 {
	before := 0
	for i := range l.rules {
		if r := &l.rules[i]; r.Count == next.Count && r.Then == next.Then && r.Consecutive == next.Consecutive {
			before++
		}
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %s %t %d", next.Count, next.Then, next.Consecutive, before)
	id := h.Sum32()
	for id == triesMark || l.index(id) >= 0 { // as good as never
		id++
	}
	return id
}

// index returns where the rule with that id stands; -1: nowhere.
func (l *ladder) index(id uint32) int {
	return slices.IndexFunc(l.rules, func(r rule) bool { return r.id == id })
}

// indexOf returns where rule i of another ladder, maybe of older rules, stands in l; -1: nowhere.
func (l *ladder) indexOf(other *ladder, i int) int {
	if i < 0 || l == other {
		return i
	}
	return l.index(other.rules[i].id)
}

// pack writes the ladder for the scripts, which read it in begin.lua and welcome.lua.
func (l *ladder) pack() {
	be := binary.BigEndian
	var b []byte
	for k := range kinds {
		b = be.AppendUint64(b, uint64(l.horizon[k]))
		b = be.AppendUint64(b, uint64(l.keep[k]))
		b = be.AppendUint32(b, uint32(l.room[k]))
		b = be.AppendUint32(b, uint32(l.flight[k]))
	}
	head := be.AppendUint64(nil, uint64(settleWithin))
	for k := byName; k <= byNetwork; k++ {
		head = be.AppendUint32(head, uint32(l.least[k]))
		head = be.AppendUint64(head, uint64(l.horizon[k]))
		l.lives[k] = (l.keep[k]+999)/1000 + 1000
	}
	l.welcome = string(head)
	b = append(b, byte(len(l.rules)))
	for i := range l.rules {
		r := &l.rules[i]
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
	l.packed = string(b)
}

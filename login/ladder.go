package login

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/tidegate/tidegate/admission"
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

var kindOf = map[admission.LoginCount]kind{
	admission.CountName: byName, admission.CountNameIP: byPair, admission.CountIP: byIP, admission.CountNamesPerIP: byIP,
	admission.CountNetwork: byNetwork, admission.CountDevice: byDevice,
}

// Durations in µs, like all times here and in the script.
const (
	second = int64(time.Second / time.Microsecond)
	hour   = 60 * 60 * second
	day    = 24 * hour

	settleWithin = 30 * second  // a reserved attempt that is not settled by then has failed
	holdFor      = second       // delay for attempts that wait for pending ones
	pairMemory   = day          // how long failures of an address at a delayed name are remembered
	networkTries = 8            // pending or failed units of an IPv6 network, from which on none of its addresses counts as new to a name: addresses in it are free
	ownTries     = 2            // attempts of an address at a name before the name's delay applies to it: one typing error does not delay the owner
	streakMemory = 30 * day     // maximum for which consecutive failures are remembered: an hour for each, because most are of names that do not exist
	mostMarks    = 100          // per state; above it, marks of rules that are unknown here are dropped
	recordLife   = 60 * second  // of the recorded answer to an attempt with an id
	settledLife  = 120 * second // of the recorded answer to a settlement; later ones are too late anyway
	lapseWithin  = 2 * second   // see ladder.lapses
)

// An action is what happens to an attempt: in order of strength, numbered as in the script. An active ban or revocation takes effect elsewhere.
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

// A rule is an admission.LoginRule in the numeric form for the script.
type rule struct {
	admission.LoginRule

	name                   string
	id                     uint32 // derived from what the rule counts and does, so that its marks survive a changed limit, window or length
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

// A ladder is the login rules of one file in executable form. It is immutable.
type ladder struct {
	rules   []rule
	horizon [kinds]int64    // age at which units expire
	keep    [kinds]int64    // how long after its newest unit a state is kept
	room    [kinds]int      // maximum failed units in a state
	flight  [kinds]int      // maximum pending units in a state
	least   [kinds]int      // no rule acts below this many units
	packed  string          // for begin.lua
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

// newLadder converts rules to a ladder. A revoked device stays revoked for the lifetime of a token.
func newLadder(rules []admission.LoginRule, deviceLife time.Duration) *ladder {
	l := &ladder{}
	for k := range kinds {
		l.horizon[k], l.room[k] = settleWithin, leastRoom
	}
	l.room[byIP] = leastRoomIP
	l.least = l.room // beyond it units must be dropped
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
		if r.kind == byPair { // the address keeps unsettled attempts for the pair
			l.horizon[byIP] = max(l.horizon[byIP], r.window)
		}
		longest[r.kind] = max(longest[r.kind], r.length)
		l.least[r.kind] = min(l.least[r.kind], lr.Limit)
		room := lr.Limit
		if r.distinct {
			room *= 4 // repeats of one name must not displace others
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

// halved returns the ladder for a process that counts alone while the store is unavailable: with half the limits, because others count
// too.
func halved(full *ladder, rules []admission.LoginRule, deviceLife time.Duration) *ladder {
	half := make([]admission.LoginRule, len(rules))
	for i, r := range rules {
		r.Limit = (r.Limit + 1) / 2
		half[i] = r
	}
	l := newLadder(half, deviceLife)
	l.lapses = true
	for i := range l.rules { // keep the ids of rules that became equal distinct
		l.rules[i].name, l.rules[i].id = full.rules[i].name, full.rules[i].id
	}
	return l
}

// idFor returns the id of the next rule. Rules that count and do the same get the same ids in the same order in every file.
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
	for id == triesMark || l.index(id) >= 0 { // practically never
		id++
	}
	return id
}

// index returns the index of the rule with that id, or -1.
func (l *ladder) index(id uint32) int {
	return slices.IndexFunc(l.rules, func(r rule) bool { return r.id == id })
}

// indexOf returns the index in l of rule i of another ladder, possibly of older rules, or -1.
func (l *ladder) indexOf(other *ladder, i int) int {
	if i < 0 || l == other {
		return i
	}
	return l.index(other.rules[i].id)
}

// pack encodes the ladder for the scripts; begin.lua and welcome.lua decode it.
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

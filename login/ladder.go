package login

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
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
	id                     uint32 // of the name, in states: other rules of the file do not matter
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
	horizon [kinds]int64 // units that are older mean nothing
	keep    [kinds]int64 // how long after its newest unit a state may still mean something
	room    [kinds]int   // units of a state that have failed
	flight  [kinds]int   // units of a state that are under way
	least   [kinds]int   // no rule acts below so many units
	packed  string       // for the script

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
		h := fnv.New32a()
		h.Write([]byte(lr.Name()))
		r := rule{
			LoginRule: lr, name: lr.Name(), id: h.Sum32(), kind: kindOf[lr.Count], action: actionOf[lr.Then], distinct: lr.Count == admission.CountNamesPerIP,
			window: lr.Window.Microseconds(), length: lr.For.Microseconds(), atMost: lr.AtMost.Microseconds(),
		}
		if r.action == revoke {
			r.atMost = deviceLife.Microseconds()
		}
		for r.id == triesMark || l.index(r.id) >= 0 { // as good as never
			r.id++
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

// pack writes the ladder for the script, which reads it in begin.lua.
func (l *ladder) pack() {
	be := binary.BigEndian
	var b []byte
	for k := range kinds {
		b = be.AppendUint64(b, uint64(l.horizon[k]))
		b = be.AppendUint64(b, uint64(l.keep[k]))
		b = be.AppendUint32(b, uint32(l.room[k]))
		b = be.AppendUint32(b, uint32(l.flight[k]))
		b = be.AppendUint32(b, uint32(l.least[k]))
	}
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

// A unit is an attempt that failed, or is under way.
type unit struct {
	at      int64
	pending bool

	// Of a state byIP. An attempt under way is not written to the state of its pair, which spares a third of the writes: it is found here. It
	// owes until the pair has been told how it ended.
	name nameTag
	owes bool
}

// A nameTag tells the names that were tried from an address from each other.
type nameTag [6]byte

// A mark is what a rule remembers of a state besides units.
type mark struct {
	rule  uint32
	until int64 // end of the penalty; of failures in a row without one the last of them
	times int64 // penalties in a row, or failures
}

// A board is the states that an attempt counts in. A nil state is not counted.
type board struct {
	of  [kinds]*state
	tag nameTag // of the name
}

// inFlight returns how many attempts of the pair are under way that began after since.
func (b *board) inFlight(since int64) (n int64) {
	for _, u := range b.of[byIP].units {
		if u.owes && u.pending && u.name == b.tag && u.at > since {
			n++
		}
	}
	return n
}

// newToName reports whether hardly anything is known of the pair.
func (b *board) newToName() bool {
	if n := b.of[byNetwork]; b.of[byPair] == nil || n != nil && len(n.units) >= networkTries {
		return false
	}
	tries := max(len(b.of[byPair].units), int(b.of[byPair].mark(&rule{id: triesMark}).times))
	for _, u := range b.of[byIP].units {
		if u.owes && u.name == b.tag {
			tries++
		}
	}
	return tries < ownTries
}

// triesMark is the mark of a pair that counts its failures while the name is delayed; no rule has this id.
const triesMark = 0

// delayed reports whether a rule has been holding back those that guess the name.
func (l *ladder) delayed(b *board) bool {
	return b.of[byName] != nil && slices.ContainsFunc(l.rules, func(r rule) bool {
		return r.kind == byName && r.action == delay && b.of[byName].mark(&r).times > 0
	})
}

// remember makes the pair, which has just failed, known to the name for a day. It does so only for names that are guessed: else a key would
// be kept a day for every name that somebody makes up.
func (l *ladder) remember(b *board, t int64) {
	if l.delayed(b) {
		m := b.of[byPair].mark(&rule{id: triesMark})
		m.times++
		m.until = t + pairMemory
		b.of[byPair].setMark(m)
	}
}

// adopt tells the pair of what nobody settled in time.
func (l *ladder) adopt(b *board) (trips []trip) {
	if b.of[byPair] == nil {
		return nil
	}
	for i := range b.of[byIP].units {
		if u := &b.of[byIP].units[i]; u.owes && !u.pending && u.name == b.tag {
			u.owes = false
			b.of[byPair].units = append(b.of[byPair].units, unit{at: u.at})
			trips = append(trips, l.fail(byPair, b.of[byPair], u.at+settleWithin)...)
			l.remember(b, u.at+settleWithin)
		}
	}
	return trips
}

// A state is what is known of one name, pair, address, network or device. The zero state knows nothing.
type state struct {
	units []unit // oldest first
	marks []mark
}

func (s *state) empty() bool { return len(s.units) == 0 && len(s.marks) == 0 }

// pending is how many attempts are under way.
func (s *state) pending() (n int) {
	for _, u := range s.units {
		if u.pending {
			n++
		}
	}
	return n
}

func (s *state) mark(r *rule) mark {
	for _, m := range s.marks {
		if m.rule == r.id {
			return m
		}
	}
	return mark{rule: r.id}
}

func (s *state) setMark(m mark) {
	for i := range s.marks {
		if s.marks[i].rule == m.rule {
			s.marks[i] = m
			return
		}
	}
	s.marks = append(s.marks, m)
}

// count returns how much of s counts for r at t: what has failed, and that with what is under way.
func (s *state) count(r *rule, t int64) (failed, all int64) {
	if r.Consecutive {
		failed = s.mark(r).times
		return failed, failed + int64(s.pending())
	}
	var names map[nameTag]bool // whether it has failed
	if r.distinct {
		names = map[nameTag]bool{}
	}
	for _, u := range s.units {
		switch {
		case u.at <= t-r.window:
		case r.distinct:
			names[u.name] = names[u.name] || !u.pending
		default:
			all++
			if !u.pending {
				failed++
			}
		}
	}
	for _, hasFailed := range names {
		all++
		if hasFailed {
			failed++
		}
	}
	return failed, all
}

// A trip is a penalty as it begins.
type trip struct {
	rule  int
	until int64 // 0: as long as the failures stand
	times int64 // 0: it goes on
}

// fail draws the consequences of a failure at t that stands among the units already.
func (l *ladder) fail(k kind, s *state, t int64) (trips []trip) {
	for i := range l.rules {
		r := &l.rules[i]
		if r.kind != k {
			continue
		}
		m := s.mark(r)
		fresh := t >= m.until
		if r.Consecutive {
			m.times++
			m.until = t + r.length
			s.setMark(m)
			fresh = fresh && m.times >= int64(r.Limit)
			if r.length == 0 {
				fresh = m.times == int64(r.Limit)
			}
		} else {
			failed, _ := s.count(r, t)
			switch {
			case failed < int64(r.Limit):
				continue
			case r.length == 0:
				fresh = failed == int64(r.Limit)
			case r.action == deny && t < m.until: // it does not feed itself
				continue
			default:
				if t > m.until+r.memory(m.times) {
					m.times = 0
				}
				m.times++
				m.until = t + r.lasts(m.times)
				s.setMark(m)
			}
		}
		if fresh || r.action == ban && !r.Shadow {
			until := m.until
			if r.length == 0 {
				until = 0
			}
			if !fresh { // the ban is made again, lest it was not made; nobody need hear of it
				m.times = 0
			}
			trips = append(trips, trip{i, until, m.times})
		}
	}
	return trips
}

// age brings all states of b to now.
func (l *ladder) age(b *board, now int64) (trips []trip) {
	for k, s := range b.of {
		if s != nil {
			trips = append(trips, l.ageOne(kind(k), s, now)...)
		}
	}
	return append(trips, l.adopt(b)...)
}

// ageOne makes failures of what nobody has settled in time, and drops what means nothing any more.
func (l *ladder) ageOne(k kind, s *state, now int64) (trips []trip) {
	if l.lapses {
		s.units = slices.DeleteFunc(s.units, func(u unit) bool { return u.pending && now >= u.at+lapseWithin })
	}
	for i := range s.units {
		u := &s.units[i]
		if u.at > now+settleWithin { // the clock has stepped back, as after a failover
			u.at = now
		}
		if u.pending && now >= u.at+settleWithin {
			u.pending = false
			trips = append(trips, l.fail(k, s, u.at+settleWithin)...)
		}
	}
	pending := s.pending()
	failed := len(s.units) - pending - l.room[k] // that are too many, and pending as well: neither pushes the other out
	pending -= l.flight[k]
	kept := s.units[:0]
	for _, u := range s.units {
		surplus := &failed
		if u.pending {
			surplus = &pending
		}
		if *surplus--; *surplus < 0 && u.at > now-l.horizon[k] {
			kept = append(kept, u)
		}
	}
	s.units = kept
	s.marks = slices.DeleteFunc(s.marks, func(m mark) bool { return now > l.ends(k, m) })
	return trips
}

// ends is when m means nothing any more.
func (l *ladder) ends(k kind, m mark) int64 {
	if m.rule == triesMark {
		return m.until
	}
	if i := l.index(m.rule); i >= 0 && l.rules[i].kind == k {
		return m.until + l.rules[i].memory(m.times)
	}
	return math.MinInt64
}

// expires is when s, with something in it, means nothing any more.
func (l *ladder) expires(k kind, s *state) int64 {
	at := int64(math.MinInt64)
	for _, u := range s.units {
		at = max(at, u.at+l.keep[k])
	}
	for _, m := range s.marks {
		at = max(at, l.ends(k, m))
	}
	return at
}

// count is that of the state which r counts.
func (b *board) count(r *rule, now int64) (failed, all int64) {
	failed, all = b.of[r.kind].count(r, now)
	switch {
	case r.kind == byPair && r.Consecutive:
		all += b.inFlight(math.MinInt64)
	case r.kind == byPair:
		all += b.inFlight(now - r.window)
	}
	return failed, all
}

// standing is what r says at now: that its penalty is in force and for how much longer, or that too much is under way.
func (b *board) standing(r *rule, now int64) (active bool, left int64, held bool) {
	failed, all := b.count(r, now)
	limit := int64(r.Limit)
	m := b.of[r.kind].mark(r)
	switch {
	case r.length > 0:
		active, left = now < m.until && (!r.Consecutive || failed >= limit), m.until-now
	default:
		active = failed >= limit
	}
	return active, left, all > failed && all >= limit
}

// A verdict is what the ladder says to an attempt.
type verdict struct {
	action action
	rule   int   // that decided; -1: none
	left   int64 // until asking again may help; 0 where nobody knows
	held   bool  // only for what is under way
	shadow int   // the strongest rule in shadow that would have acted; -1: none
}

// in reports whether k counts in the lane.
func in(device bool, k kind) bool {
	switch k {
	case byName, byPair:
		return !device
	case byDevice:
		return device
	}
	return true
}

// says returns what r says to an attempt, or false if that is nothing.
func (b *board) says(r *rule, device, solved, newToName bool, now int64) (verdict, bool) {
	switch {
	case device && r.kind != byDevice && r.action != ban: // the device's own counter is enough
		return verdict{}, false
	case r.kind == byName && r.action == delay && newToName: // who is new to a name need not wait for those that guess it
		return verdict{}, false
	case r.action == challenge && solved:
		return verdict{}, false
	}
	active, left, held := b.standing(r, now)
	switch {
	case active && r.action < ban && r.length == 0:
		return verdict{action: r.action, shadow: -1}, true
	case active && r.action < ban:
		return verdict{action: r.action, left: left, shadow: -1}, true
	case held:
		return verdict{action: delay, left: holdFor, held: true, shadow: -1}, true
	}
	return verdict{}, false
}

// judge decides an attempt by its states at now.
func (l *ladder) judge(b *board, device, solved bool, now int64) verdict {
	v := verdict{rule: -1, shadow: -1}
	best := verdict{} // of those in shadow
	newToName := b.newToName()
	for k, s := range b.of {
		if s == nil || !in(device, kind(k)) {
			continue
		}
		for i := range l.rules {
			r := &l.rules[i]
			if r.kind != kind(k) {
				continue
			}
			found, ok := b.says(r, device, solved, newToName, now)
			into := &v
			if r.Shadow {
				into = &best
			}
			if ok && cmp.Or(cmp.Compare(found.action, into.action), cmp.Compare(found.left, into.left)) > 0 {
				found.rule = i
				*into = found
			}
		}
	}
	// What is under way from an address is all that is known of its pairs, so none of it may be dropped for want of room.
	if ip := b.of[byIP]; ip != nil && v.action < delay && ip.pending() >= l.flight[byIP] {
		v = verdict{action: delay, rule: -1, left: holdFor, held: true, shadow: -1}
	}
	if best.action != allow {
		v.shadow = best.rule
	}
	return v
}

// revoked reports whether the device has failed too often.
func (l *ladder) revoked(b *board, now int64) bool {
	for i := range l.rules {
		if r := &l.rules[i]; r.kind == byDevice && r.action == revoke && !r.Shadow {
			if active, _, _ := b.standing(r, now); active {
				return true
			}
		}
	}
	return false
}

// failures is how often has failed lately what the states stand for, at most.
func (l *ladder) failures(b *board) (most int64) {
	for _, k := range [...]kind{byName, byIP} {
		s := b.of[k]
		if s == nil {
			continue
		}
		failed := int64(0)
		for _, u := range s.units {
			if !u.pending {
				failed++
			}
		}
		most = max(most, failed)
		for i := range l.rules {
			if r := &l.rules[i]; r.kind == k && r.Consecutive {
				most = max(most, s.mark(r).times)
			}
		}
	}
	return most
}

package bans

import (
	"cmp"
	"container/list"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/pubsub"
)

// A MemoryStore keeps bans in this process. Make it with NewMemoryStore. It is safe for concurrent use.
type MemoryStore struct {
	now  func() int64 // µs
	hub  pubsub.Hub
	most int // targets under one key; 0 means Max

	mu     sync.Mutex
	tables map[string]*storedBans // guarded by mu
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns an empty store. now is its clock; nil means real time.
func NewMemoryStore(now func() time.Time) *MemoryStore {
	if now == nil {
		now = time.Now
	}
	return &MemoryStore{now: func() int64 { return now().UnixMicro() }, tables: map[string]*storedBans{}}
}

// storedBans are the bans of one key, as bans.lua keeps them in Redis. They are not safe for concurrent use.
type storedBans struct {
	origin string
	last   int64 // number of the last change
	seen   int64 // µs: time of the last message
	most   int
	known  map[Target]*list.Element
	order  *list.List // of *storedBan, by change
	events []Event    // not yet logged, the oldest first
	alive  map[string]int64
}

// A storedBan is a ban with the state that determines the length of the next one.
type storedBan struct {
	Ban
	ends   int64 // µs: of the ban, however it ended
	memory int64 // µs after ends for which the ban is remembered
}

func newStoredBans(most int) *storedBans {
	return &storedBans{
		origin: rand.Text(), most: cmp.Or(most, maxBans), known: map[Target]*list.Element{}, order: list.New(), alive: map[string]int64{},
	}
}

// Exchange implements Store. It never fails.
func (s *MemoryStore) Exchange(_ context.Context, key string, news News) (State, error) {
	s.mu.Lock()
	b := s.tables[key]
	if b == nil {
		b = newStoredBans(s.most)
		s.tables[key] = b
	}
	before := b.last
	state := b.exchange(s.now(), &news)
	changed := b.last != before
	s.mu.Unlock()
	if changed {
		s.hub.Publish(key, fmt.Sprint(state.Cursor))
	}
	return state, nil
}

// Listen implements Store. It never fails.
func (s *MemoryStore) Listen(ctx context.Context, key string, changed func(string)) error {
	return s.hub.Listen(ctx, key, changed)
}

// exchange does what bans.lua does.
func (b *storedBans) exchange(now int64, news *News) State {
	if b.seen > now+step {
		b.cut(now)
	}
	b.seen = now
	b.tidy(now)
	for i := range news.Put {
		b.put(now, &news.Put[i])
	}
	lifted := 0
	for _, t := range news.Lift {
		if b.lift(now, t) {
			lifted++
		}
	}
	for i := range news.Restore {
		r := &news.Restore[i]
		ends := r.Until.UnixMicro()
		if ends > now && b.known[r.Target] == nil && b.room(now) {
			restored := &storedBan{*r, ends, memoryOfBans.Microseconds()}
			restored.Since = time.UnixMicro(min(r.Since.UnixMicro(), now))
			b.write(now, restored)
		}
	}
	b.events = slices.DeleteFunc(b.events, func(e Event) bool { return slices.Contains(news.Logged, e.ID) })
	if news.Process != "" {
		b.alive[news.Process] = now
	}
	state := State{
		At: time.UnixMicro(now), Origin: b.origin, Cursor: b.last, Processes: max(1, len(b.alive)), Lifted: lifted,
		Bans: b.since(now, news),
	}
	if news.History {
		state.Events = slices.Clone(b.events[:min(len(b.events), eventsPage)])
	}
	return state
}

// cut makes bans from the future begin now, and those that were lifted in the future end now, after the clock was set back.
func (b *storedBans) cut(now int64) {
	var future []storedBan
	for e := b.order.Back(); e != nil && e.Value.(*storedBan).Change > now; e = e.Prev() {
		future = append(future, *e.Value.(*storedBan))
	}
	for _, ban := range slices.Backward(future) {
		ahead := max(0, ban.Since.UnixMicro()-now)
		if ban.Lifted() {
			ahead = max(ahead, ban.ends-now)
			ban.ends = min(ban.ends, now)
		} else {
			ban.ends -= ahead
		}
		if ahead > 0 {
			length := ban.Until.Sub(ban.Since)
			ban.Since = time.UnixMicro(min(ban.Since.UnixMicro(), now))
			ban.Until = ban.Since.Add(length)
			b.write(now, &ban)
		}
	}
}

func (b *storedBans) find(t Target) *storedBan {
	if e := b.known[t]; e != nil {
		return e.Value.(*storedBan)
	}
	return nil
}

func (b *storedBans) put(now int64, o *Order) {
	before, times := b.find(o.Target), 1
	running := before != nil && before.ends > now
	switch {
	case running:
		times = before.Times
	case before != nil && now-before.ends < o.remembered().Microseconds():
		times = before.Times + 1
	}
	ends := now + o.length(times).Microseconds()
	// A rule never shortens a ban, and refusals during a ban do not extend it: a banned caller is always refused.
	stands := running && o.Rule != "" && (before.Rule == o.Rule || before.ends >= ends)
	if stands || before == nil && !b.room(now) {
		return
	}
	ban := &storedBan{ends: ends, memory: o.remembered().Microseconds()}
	ban.Ban = Ban{
		Target: o.Target, Reason: o.Reason, Rule: o.Rule, Since: time.UnixMicro(now), Until: time.UnixMicro(ends), Times: times,
	}
	b.write(now, ban)
	b.log(now, ban, false)
}

func (b *storedBans) lift(now int64, t Target) bool {
	ban := b.find(t)
	if ban == nil && b.room(now) { // as in Redis, so that it is not restored
		at := time.UnixMicro(now)
		b.write(now, &storedBan{Ban{Target: t, Since: at, Until: at}, now, memoryOfBans.Microseconds()})
	}
	if ban == nil || ban.ends <= now {
		return false
	}
	ended := *ban
	ended.ends, ended.Until = now, ban.Since
	b.write(now, &ended)
	ended.Until = ban.Until
	b.log(now, &ended, true)
	ended.Until = ban.Since
	return true
}

// write stores ban as the latest change.
func (b *storedBans) write(now int64, ban *storedBan) {
	b.last = max(b.last+1, now)
	ban.Change = b.last
	b.forget(ban.Target)
	b.known[ban.Target] = b.order.PushBack(ban)
}

func (b *storedBans) forget(t Target) {
	if e := b.known[t]; e != nil {
		b.order.Remove(e)
		delete(b.known, t)
	}
}

func (b *storedBans) log(now int64, ban *storedBan, lifted bool) {
	e := Event{ID: fmt.Sprintf("%s-%d", b.origin, ban.Change), At: time.UnixMicro(now), Ban: ban.Ban, Lifted: lifted}
	e.Change = 0
	if b.events = append(b.events, e); len(b.events) > maxEvents {
		b.events = b.events[1:]
	}
}

// tidy drops some of the expired bans and processes. Map iteration is random, so every entry is checked eventually.
func (b *storedBans) tidy(now int64) {
	looked := 0
	for t, e := range b.known {
		if ban := e.Value.(*storedBan); ban.ends+ban.memory <= now {
			b.forget(t)
		}
		if looked++; looked == 100 {
			break
		}
	}
	for process, at := range b.alive {
		if max(now-at, at-now) >= aliveFor.Microseconds() {
			delete(b.alive, process)
		}
	}
}

// room reports whether another target can be stored. It drops expired bans to make room.
func (b *storedBans) room(now int64) bool {
	if len(b.known) < b.most {
		return true
	}
	for e := b.order.Front(); e != nil; e = e.Next() {
		if ban := e.Value.(*storedBan); ban.ends <= now {
			b.forget(ban.Target)
			return true
		}
	}
	return false
}

// since returns the bans that changed after news.Since, oldest first, followed by those that news asked for.
func (b *storedBans) since(now int64, news *News) []Ban {
	var bans []Ban
	for e := b.order.Back(); e != nil; e = e.Prev() {
		ban := e.Value.(*storedBan)
		if ban.Change <= news.Since {
			break
		}
		if news.Since > 0 || ban.ends > now || ban.Lifted() {
			bans = append(bans, ban.Ban)
		}
	}
	slices.Reverse(bans)
	for i := range news.Put {
		if ban := b.find(news.Put[i].Target); ban != nil {
			bans = append(bans, ban.Ban)
		}
	}
	for _, t := range slices.Concat(news.Lift, news.Ask) {
		if ban := b.find(t); ban != nil {
			bans = append(bans, ban.Ban)
		}
	}
	return bans
}

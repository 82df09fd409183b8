package admission

import (
	"cmp"
	"container/list"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"
)

// banBooks are the bans in a MemoryStore, by key. The zero value is empty. It is safe for concurrent use.
type banBooks struct {
	mu    sync.Mutex
	books map[string]*banBook // guarded by mu
	most  int                 // targets in one book; 0 means MaxBans
}

// A banBook is the bans of one key, as lua/bans.lua keeps them in Redis. It is not safe for concurrent use.
type banBook struct {
	origin string
	last   int64 // number of the last change
	most   int
	known  map[BanTarget]*list.Element
	order  *list.List // of *bookedBan, by change
	events []BanEvent // not yet logged, the oldest first
	alive  map[string]int64
}

// A bookedBan is a ban with the state that determines the length of the next one.
type bookedBan struct {
	Ban
	ends   int64 // µs: of the ban, however it ended
	memory int64 // µs after ends for which the ban is remembered
}

func newBanBook(most int) *banBook {
	return &banBook{
		origin: rand.Text(), most: cmp.Or(most, MaxBans), known: map[BanTarget]*list.Element{}, order: list.New(), alive: map[string]int64{},
	}
}

// Exchange implements Store. It never fails.
func (s *MemoryStore) Exchange(_ context.Context, key string, news BanNews) (BanState, error) {
	s.bans.mu.Lock()
	b := s.bans.books[key]
	if b == nil {
		if s.bans.books == nil {
			s.bans.books = map[string]*banBook{}
		}
		b = newBanBook(s.bans.most)
		s.bans.books[key] = b
	}
	before := b.last
	state := b.exchange(s.now(), &news)
	changed := b.last != before
	s.bans.mu.Unlock()
	if changed {
		s.tell(key, fmt.Sprint(state.Cursor))
	}
	return state, nil
}

// exchange does what lua/bans.lua does.
func (b *banBook) exchange(now int64, news *BanNews) BanState {
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
		if ends > now && b.known[r.BanTarget] == nil && b.room(now) {
			b.write(now, &bookedBan{*r, ends, banMemory.Microseconds()})
		}
	}
	b.events = slices.DeleteFunc(b.events, func(e BanEvent) bool { return slices.Contains(news.Logged, e.ID) })
	if news.Process != "" {
		b.alive[news.Process] = now
	}
	state := BanState{
		At: time.UnixMicro(now), Origin: b.origin, Cursor: b.last, Processes: max(1, len(b.alive)), Lifted: lifted,
		Bans: b.since(now, news),
	}
	if news.History {
		state.Events = slices.Clone(b.events[:min(len(b.events), banEventsPage)])
	}
	return state
}

func (b *banBook) find(t BanTarget) *bookedBan {
	if e := b.known[t]; e != nil {
		return e.Value.(*bookedBan)
	}
	return nil
}

func (b *banBook) put(now int64, o *BanOrder) {
	before, times := b.find(o.BanTarget), 1
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
	ban := &bookedBan{ends: ends, memory: o.remembered().Microseconds()}
	ban.Ban = Ban{
		BanTarget: o.BanTarget, Reason: o.Reason, Rule: o.Rule, Since: time.UnixMicro(now), Until: time.UnixMicro(ends), Times: times,
	}
	b.write(now, ban)
	b.tell(now, ban, false)
}

func (b *banBook) lift(now int64, t BanTarget) bool {
	ban := b.find(t)
	if ban == nil && b.room(now) { // as in Redis, so that it is not restored
		at := time.UnixMicro(now)
		b.write(now, &bookedBan{Ban{BanTarget: t, Since: at, Until: at}, now, banMemory.Microseconds()})
	}
	if ban == nil || ban.ends <= now {
		return false
	}
	ended := *ban
	ended.ends, ended.Until = now, ban.Since
	b.write(now, &ended)
	ended.Until = ban.Until
	b.tell(now, &ended, true)
	ended.Until = ban.Since
	return true
}

// write stores ban as the latest change.
func (b *banBook) write(now int64, ban *bookedBan) {
	b.last = max(b.last+1, now)
	ban.Change = b.last
	b.forget(ban.BanTarget)
	b.known[ban.BanTarget] = b.order.PushBack(ban)
}

func (b *banBook) forget(t BanTarget) {
	if e := b.known[t]; e != nil {
		b.order.Remove(e)
		delete(b.known, t)
	}
}

func (b *banBook) tell(now int64, ban *bookedBan, lifted bool) {
	e := BanEvent{ID: fmt.Sprintf("%s-%d", b.origin, ban.Change), At: time.UnixMicro(now), Ban: ban.Ban, Lifted: lifted}
	e.Change = 0
	if b.events = append(b.events, e); len(b.events) > maxBanEvents {
		b.events = b.events[1:]
	}
}

// tidy drops some of the expired bans and processes. Map iteration is random, so every entry is checked eventually.
func (b *banBook) tidy(now int64) {
	looked := 0
	for t, e := range b.known {
		if ban := e.Value.(*bookedBan); ban.ends+ban.memory <= now {
			b.forget(t)
		}
		if looked++; looked == 100 {
			break
		}
	}
	for process, at := range b.alive {
		if now-at >= aliveFor.Microseconds() {
			delete(b.alive, process)
		}
	}
}

// room reports whether another target can be stored. It drops expired bans to make room.
func (b *banBook) room(now int64) bool {
	if len(b.known) < b.most {
		return true
	}
	for e := b.order.Front(); e != nil; e = e.Next() {
		if ban := e.Value.(*bookedBan); ban.ends <= now {
			b.forget(ban.BanTarget)
			return true
		}
	}
	return false
}

// since returns the bans that changed after news.Since, oldest first, followed by those that news asked for.
func (b *banBook) since(now int64, news *BanNews) []Ban {
	var bans []Ban
	for e := b.order.Back(); e != nil; e = e.Prev() {
		ban := e.Value.(*bookedBan)
		if ban.Change <= news.Since {
			break
		}
		if news.Since > 0 || ban.ends > now || ban.lifted() {
			bans = append(bans, ban.Ban)
		}
	}
	slices.Reverse(bans)
	for i := range news.Put {
		if ban := b.find(news.Put[i].BanTarget); ban != nil {
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

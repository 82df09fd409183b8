package simulation

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// kind is a kind of fault.
type kind struct {
	name   string
	copies bool // it destroys one of the two copies of orders that are not committed: Redis' or a process's
	inject func(*World) error
}

// kinds are the faults that a world may have. A new one needs an entry here only.
var kinds []kind

const clockJumps = "the clock of the database jumps"

func init() { // they use World.inject's table
	kinds = []kind{
		{"kill an API", true, func(w *World) error { return w.replace(&w.apis, "api", true) }},
		{"kill a worker", false, func(w *World) error { return w.replace(&w.workers, "worker", false) }},
		{"Redis is emptied", true, func(w *World) error { w.anyRedis().FlushAll(); w.forgets(); return nil }},
		{"Redis restarts empty", true, func(w *World) error {
			r := w.anyRedis()
			r.FlushAll()
			w.forgets()
			return w.restart(r)
		}},
		{"Redis restarts with an older copy", true, func(w *World) error { return w.goBack(true) }},
		{"Redis becomes an older copy of itself", true, func(w *World) error { return w.goBack(false) }},
		{"Redis restarts with all it has", false, func(w *World) error { return w.restart(w.anyRedis()) }},
		{"Redis loses a key", true, func(w *World) error {
			r := w.anyRedis()
			if keys := r.Keys(); len(keys) > 0 {
				key := keys[w.chance.between(0, len(keys)-1)]
				w.trace("it is %s", key)
				r.Del(key)
				w.forgets()
			}
			return nil
		}},
		{"a key is damaged", true, func(w *World) error { return w.damage() }},
		{"Redis refuses scripts", false, func(w *World) error {
			r := w.anyRedis()
			r.failIn.Store(int64(w.chance.between(1, 5)))
			w.later(w.chance.upTo(4*time.Second), func() { r.failIn.Store(0) })
			return nil
		}},
		{"all links are cut", false, func(w *World) error { w.each(func(p *process) { p.links.cut() }); return nil }},
		{"the links of a process are cut", false, func(w *World) error { w.any().links.cut(); return nil }},
		{"a process cannot reach Redis", false, func(w *World) error {
			p := w.any()
			p.links.down.Store(true)
			p.links.cut()
			w.later(w.chance.upTo(5*time.Second), func() { p.links.down.Store(p.dead.Load()) })
			return nil
		}},
		{"a process is paused", false, func(w *World) error {
			w.any().links.hold(w.chance.upTo(5 * time.Second))
			return nil
		}},
		{"the database fails", false, func(w *World) error {
			w.each(func(p *process) { p.failsIn.Store(1) })
			w.later(w.chance.upTo(5*time.Second), func() {
				w.each(func(p *process) { p.failsIn.Store(int64(w.shape.DatabaseFailsIn)) })
			})
			return nil
		}},
		{"the database restarts", false, func(w *World) error { w.db.Restart(); return nil }},
		{clockJumps, false, func(w *World) error {
			w.offset.Store(int64(w.chance.upTo(40*time.Second) - 20*time.Second))
			w.later(w.chance.upTo(5*time.Second), func() { w.offset.Store(0) })
			return nil
		}},
		{"the queue loses its tasks", false, func(w *World) error { w.queue.Drop(); return nil }},
		{"the sale is paused", false, func(w *World) error {
			w.later(0, func() {
				w.operate(func(ctx context.Context, p *process) error {
					_, err := p.service.SetSwitch(ctx, sale, orders.SwitchPaused)
					return err
				})
				time.Sleep(w.chance.upTo(3 * time.Second))
				w.operate(func(ctx context.Context, p *process) error {
					_, err := p.service.SetSwitch(ctx, sale, orders.SwitchOpen)
					return err
				})
			})
			return nil
		}},
		{"the stock grows", false, func(w *World) error {
			w.later(0, func() {
				w.mu.Lock()
				w.stock += w.chance.between(1, 3)
				stock := w.stock
				w.mu.Unlock()
				w.operate(func(ctx context.Context, p *process) error {
					_, _, err := p.service.PutSale(ctx, w.definition(stock))
					if errors.Is(err, orders.ErrConflict) { // another has made it grow by more
						return nil
					}
					return err
				})
			})
			return nil
		}},
		{"the sale is rebuilt", true, func(w *World) error {
			w.rebuilds.Add(1)
			w.later(0, func() {
				defer w.rebuilds.Add(-1)
				w.operate(func(ctx context.Context, p *process) error {
					_, err := p.service.RebuildSale(ctx, sale)
					return err
				})
			})
			return nil
		}},
	}
}

// inject injects a fault. Before one that destroys a copy of orders, it waits until the orders that lost their other copy are committed.
func (w *World) inject(name string) error {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		panic("simulation: no fault " + name)
	}
	if kinds[i].copies && !w.safe() {
		w.trace("no fault: %s", name)
		return nil
	}
	w.trace("fault: %s", name)
	if err := kinds[i].inject(w); err != nil {
		return err
	}
	if kinds[i].copies {
		w.mu.Lock()
		w.atRisk = w.promised()
		w.mu.Unlock()
	}
	return nil
}

// safe waits until no operator is about to rebuild the sale, and until the orders are committed that lost a copy, and those accepted before
// the sale came out of its recovery.
func (w *World) safe() bool {
	if w.atRisk == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
	defer cancel()
	for open := false; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		w.mu.Lock()
		apis := slices.Clone(w.apis)
		if !open {
			w.atRisk = w.promised()
		}
		atRisk := w.atRisk
		w.mu.Unlock()
		if !open {
			open = w.rebuilds.Load() == 0 && !slices.ContainsFunc(apis, func(p *process) bool {
				status, err := p.service.Sale(ctx, sale)
				return err != nil || status.State == orders.StateRecovering
			})
		}
		rows, err := w.db.Committed(ctx, atRisk)
		if err == nil && open && len(rows) == len(atRisk) {
			return true
		}
	}
	return false
}

// later does something after a while, before the faults are over.
func (w *World) later(d time.Duration, fn func()) {
	w.faults.Go(func() {
		time.Sleep(d)
		fn()
	})
}

// operate is an operator's call, repeated until it succeeds.
func (w *World) operate(call func(context.Context, *process) error) {
	for w.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		_, p := w.api()
		err := call(ctx, p)
		cancel()
		if err == nil {
			return
		}
		w.trace("operator: %v", err)
		time.Sleep(500 * time.Millisecond)
	}
}

// anyRedis returns Redis, or any master of its cluster.
func (w *World) anyRedis() *redisServer { return w.redis[w.chance.between(0, len(w.redis)-1)] }

func (w *World) restart(r *redisServer) error {
	r.run.Add(1)
	w.each(func(p *process) { p.links.cutFrom(r) })
	return r.forgetScripts()
}

// compared is after what time every process has noticed that Redis became an older copy of itself. Until then, another process than the one
// that wrote what is missing may accept an order once more, or above the quota: docs/recovery.md describes it.
const compared = 2 * time.Second

// mayRepeat waits until a buyer who has an order can expect that no process accepts it once more.
func (w *World) mayRepeat() {
	for time.Now().UnixNano() < w.repeatFrom.Load() && w.ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
}

// goBack has Redis lose what was written within the last moments.
func (w *World) goBack(restarts bool) error {
	r := w.anyRedis()
	db, err := r.copy()
	if err != nil {
		return err
	}
	w.repeatFrom.Store(math.MaxInt64)
	time.Sleep(time.Second + w.chance.upTo(3*time.Second)) // calls that were under way are over
	r.follow(db)
	w.repeatFrom.Store(time.Now().Add(compared).UnixNano())
	w.forgets()
	if restarts {
		return w.restart(r)
	}
	w.each(func(p *process) { p.links.cutFrom(r) })
	return nil
}

// damage makes a key of the sale something else, or loses or garbles the number of an item's next unit.
func (w *World) damage() error {
	r := w.anyRedis()
	keys := slices.DeleteFunc(r.Keys(), func(key string) bool { return !strings.Contains(key, "{"+sale) })
	if len(keys) == 0 {
		return nil
	}
	key := keys[w.chance.between(0, len(keys)-1)]
	w.trace("it is %s", key)
	const next = "next"
	if r.HGet(key, next) == "" || w.chance.oneIn(2) {
		r.Del(key)
		return r.Set(key, "damaged")
	}
	if w.chance.oneIn(2) {
		r.HDel(key, next)
	} else {
		r.HSet(key, next, "many")
	}
	return nil
}

// replace kills a process, and starts another a moment later.
func (w *World) replace(list *[]*process, kind string, acceptOnly bool) error {
	w.mu.Lock()
	i := w.chance.between(0, len(*list)-1)
	p := (*list)[i]
	w.mu.Unlock()
	if p.dead.Load() { // its successor has not started yet
		return nil
	}
	w.trace("it is %s", p.name)
	p.kill()
	if err := p.close(); err != nil {
		return err
	}
	w.later(w.chance.upTo(2*time.Second), func() {
		next, err := w.start(kind, acceptOnly)
		if err != nil {
			w.breach("run", "%v", err)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range *list {
			if (*list)[i] == p {
				(*list)[i] = next
			}
		}
	})
	return nil
}

package simulation

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/memory"
	rooms "github.com/tidegate/tidegate/waitingroom/memory"
)

const sale = "spring"

// World is an installation and those who use it.
type World struct {
	shape  Shape
	chance *chance
	ctx    context.Context
	log    slog.Handler
	out    io.Writer
	began  time.Time
	redis  []*redisServer // one, or the masters of a cluster
	db     *memory.Store  // as the judges see it
	rooms  *rooms.Store
	queue  *memory.Queue
	offset atomic.Int64 // of the database's clock, in nanoseconds

	rebuilds   atomic.Int32 // that an operator is about to do
	repeatFrom atomic.Int64 // from when buyers who have an order may order again, in nanoseconds since 1970

	mu       sync.Mutex
	apis     []*process     // guarded by mu
	workers  []*process     // guarded by mu
	started  int            // processes; guarded by mu
	settled  bool           // guarded by mu
	history  judge.History  // guarded by mu
	stock    int            // of an item; guarded by mu
	breaches []string       // guarded by mu
	admitted [2][]time.Time // calls of each caller, by Redis' clock; guarded by mu
	refused  [2][]time.Time // the same; guarded by mu
	unknown  [2][]time.Time // when calls ended without an answer; guarded by mu
	uses     []use          // of permits; guarded by mu
	tries    []try          // to log in; guarded by mu
	forgot   []time.Time    // when Redis lost what it counted; guarded by mu

	atRisk []orders.ID // accepted before a copy of the orders was last destroyed

	faults, buyers sync.WaitGroup
}

// Result is what became of a world.
type Result struct {
	Number   uint64
	Shape    Shape
	Breaches []string // each begins with the name of an invariant
	Promised int      // orders that buyers were given
	Took     time.Duration
}

// Run runs a world, and writes its trace to out. It returns when everything has ended.
func Run(ctx context.Context, number uint64, shape Shape, out io.Writer) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chance := newChance(number)
	servers, err := startRedis(shape.Masters, chance)
	if err != nil {
		return Result{}, err
	}
	defer func() {
		for _, r := range servers {
			r.Close()
		}
	}()
	w := &World{
		shape: shape, chance: chance, ctx: ctx, out: out, began: time.Now(), redis: servers, stock: shape.Stock,
		queue: memory.NewQueue(memory.QueueOptions{
			Rand: rand.New(rand.NewPCG(number, 3)), LateIn: shape.QueueLateIn, TwiceIn: shape.QueueTwiceIn,
		}),
	}
	w.db = memory.New(memory.Options{
		Rand: rand.New(rand.NewPCG(number, 2)),
		Now:  func() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) },
	})
	w.rooms = rooms.New(rooms.Options{Now: func() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }})
	w.history.Head = judge.Head{Prefix: "buyer-", Sale: sale, Seed: number}
	w.log = slog.NewTextHandler(traced{w}, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: withoutTime})
	if err := w.live(); err != nil {
		return Result{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return Result{Number: number, Shape: shape, Breaches: w.breaches, Promised: len(w.promised()), Took: time.Since(w.began)}, nil
}

// promised returns the orders that buyers were given. It is called with mu locked.
func (w *World) promised() (ids []orders.ID) {
	known := make(map[string]bool)
	for _, c := range w.history.Calls {
		if c.Outcome == judge.Admitted && !known[c.OrderID] {
			known[c.OrderID] = true
			if id, err := orders.ParseID(c.OrderID); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// trace writes a line of what happens.
func (w *World) trace(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, "%10.6f "+format+"\n", append([]any{time.Since(w.began).Seconds()}, args...)...)
}

func (w *World) breach(invariant, format string, args ...any) {
	text := invariant + " " + fmt.Sprintf(format, args...)
	w.trace("BREACH %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breaches = append(w.breaches, text)
}

// withoutTime leaves the time to the trace.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// traced writes the logs of processes into the trace.
type traced struct{ w *World }

func (t traced) Write(b []byte) (int, error) {
	t.w.trace("%s", b[:len(b)-1])
	return len(b), nil
}

// live starts the processes, opens a sale, lets buyers and faults come, heals everything, and judges.
func (w *World) live() error {
	for range w.shape.APIs {
		if err := w.add(&w.apis, "api", true); err != nil {
			return err
		}
	}
	for range w.shape.Workers {
		if err := w.add(&w.workers, "worker", false); err != nil {
			return err
		}
	}
	if err := w.open(); err != nil {
		return err
	}
	opened := time.Now()
	w.mu.Lock()
	w.history.StartedAt = opened
	w.history.Planned = w.shape.Buyers // visitors come if the room lets them
	w.mu.Unlock()
	w.each((*process).unsettle)
	for n := range w.shape.Buyers {
		w.buyers.Go(func() { w.buy(n) })
	}
	for n := range w.shape.Visitors {
		w.buyers.Go(func() { w.visit(n) })
	}
	for n := range w.shape.Callers {
		w.buyers.Go(func() { w.call(n) })
	}
	for n := range w.shape.Users {
		w.buyers.Go(func() { w.logIn(n) })
		w.buyers.Go(func() { w.guess(n) })
	}
	for _, f := range w.shape.Faults {
		time.Sleep(time.Until(opened.Add(f.At)))
		if err := w.inject(f.Kind); err != nil {
			return err
		}
	}
	time.Sleep(time.Until(opened.Add(w.shape.Sells)))
	w.settle()
	w.faults.Wait()
	w.settle() // what ended faults put back
	w.buyers.Wait()
	w.judge()
	w.mu.Lock()
	all := w.processes()
	w.mu.Unlock()
	for _, p := range all {
		if err := p.close(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// open opens the sale, and waits until every API has it: one that has not answers that there is no such sale.
func (w *World) open() error {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	w.mu.Lock()
	apis := slices.Clone(w.apis)
	w.mu.Unlock()
	_, first := w.api()
	if err := first.service.WaitReady(ctx); err != nil {
		return err
	}
	if err := until(ctx, 200*time.Millisecond, func() error { // links may be slow
		if _, _, err := first.service.PutSale(ctx, w.definition(w.shape.Stock)); err != nil {
			return err
		}
		_, err := first.service.SetSwitch(ctx, sale, orders.SwitchOpen)
		return err
	}); err != nil {
		return err
	}
	for _, p := range apis {
		if err := until(ctx, 200*time.Millisecond, func() error {
			now, err := p.service.SaleState(sale)
			if err == nil && now.Switch != orders.SwitchOpen {
				err = fmt.Errorf("%s has the sale as %s", p.name, now.Switch)
			}
			return err
		}); err != nil {
			return err
		}
	}
	if w.shape.Visitors == 0 {
		return nil
	}
	return w.openRoom(ctx, first)
}

func (w *World) definition(stock int) orders.Definition {
	d := orders.Definition{ID: sale, StartsAt: w.began.Add(-time.Minute), EndsAt: w.began.Add(time.Hour), Hold: w.shape.Hold}
	if d.Hold == 0 {
		d.Hold = orders.NoHold
	}
	for n := range w.shape.Items {
		d.Items = append(d.Items, orders.ItemDefinition{ID: itemName(n), Stock: stock, QuotaPerBuyer: w.shape.Quota})
	}
	if w.shape.Visitors > 0 {
		d.Items = append(d.Items, orders.ItemDefinition{ID: inRoom, Stock: w.shape.Stock, Final: true})
	}
	return d
}

func itemName(n int) string { return fmt.Sprintf("item-%d", n) }

// api returns a random API, and its place in the list, which its successor takes.
func (w *World) api() (int, *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.chance.between(0, len(w.apis)-1)
	return i, w.apis[i]
}

// processes returns the APIs and the workers. It is called with mu locked.
func (w *World) processes() []*process { return slices.Concat(w.apis, w.workers) }

// any returns a random process.
func (w *World) any() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.processes()
	return all[w.chance.between(0, len(all)-1)]
}

// add starts one more process.
func (w *World) add(to *[]*process, kind string, acceptOnly bool) error {
	p, err := w.start(kind, acceptOnly)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	*to = append(*to, p)
	return nil
}

// settle ends all faults.
func (w *World) settle() {
	w.trace("healed")
	w.mu.Lock()
	w.settled = true
	w.mu.Unlock()
	w.offset.Store(0)
	for _, r := range w.redis {
		r.failIn.Store(0)
	}
	w.each((*process).settle)
}

func (w *World) each(fn func(*process)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.processes() {
		fn(p)
	}
}

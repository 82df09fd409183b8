package shop_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// hooked is a store whose calls a test can stop or answer itself.
type hooked struct {
	storage.Store
	lead atomic.Pointer[func() (bool, error)]
	// unaware: the leader does not notice that its lock is lost.
	unaware atomic.Bool
	attempt atomic.Pointer[leadAttempt] // the latest
	before  atomic.Pointer[hook]
	after   atomic.Pointer[hook]
	asked   atomic.Int64 // sales that were read
}

// hook is called for each call, and may delay it or make it fail.
type hook func(ctx context.Context, call string) error

func (h *hooked) Ping(ctx context.Context) error {
	return h.do(ctx, "ping", func() error { return h.Store.Ping(ctx) })
}

func (h *hooked) Installation(ctx context.Context) (found storage.Installation, err error) {
	err = h.do(ctx, "installation", func() error { found, err = h.Store.Installation(ctx); return err })
	return found, err
}

func (h *hooked) Expire(ctx context.Context, limit int) (list []storage.Return, err error) {
	err = h.do(ctx, "expire", func() error { list, err = h.Store.Expire(ctx, limit); return err })
	return list, err
}

func (h *hooked) Returns(ctx context.Context, sale string, limit int) (list []storage.Return, err error) {
	err = h.do(ctx, "returns", func() error { list, err = h.Store.Returns(ctx, sale, limit); return err })
	return list, err
}

func (h *hooked) Holdings(ctx context.Context, sale string, fn func(storage.Holding) error) error {
	return h.do(ctx, "holdings", func() error { return h.Store.Holdings(ctx, sale, fn) })
}

func (h *hooked) Lead(ctx context.Context, sale string, fn func(context.Context) error) (led bool, err error) {
	if lead := h.lead.Load(); lead != nil {
		return (*lead)()
	}
	err = h.do(ctx, "lead", func() error {
		led, err = h.Store.Lead(ctx, sale, func(ctx context.Context) error {
			a := &leadAttempt{ctx: ctx, over: make(chan struct{})}
			h.attempt.Store(a)
			defer close(a.over)
			if h.unaware.Load() {
				ctx = context.WithoutCancel(ctx)
			}
			return fn(ctx)
		})
		return err
	})
	return led, err
}

// leadAttempt is one period in which a process leads.
type leadAttempt struct {
	ctx  context.Context // ends when the process may have lost its lock
	over chan struct{}   // closed when it no longer leads
}

// do makes a call between the hooks.
func (h *hooked) do(ctx context.Context, call string, fn func() error) error {
	if before := h.before.Load(); before != nil {
		if err := (*before)(ctx, call); err != nil {
			return err
		}
	}
	err := fn()
	if after := h.after.Load(); err == nil && after != nil {
		err = (*after)(ctx, call)
	}
	return err
}

func (h *hooked) Latest(ctx context.Context, sale, item string, buyers []string) (found map[string]orders.Order, err error) {
	err = h.do(ctx, "latest", func() error { found, err = h.Store.Latest(ctx, sale, item, buyers); return err })
	return found, err
}

func (h *hooked) Differing(ctx context.Context, known *storage.KnownSales) (names []string, err error) {
	err = h.do(ctx, "sales", func() error { names, err = h.Store.Differing(ctx, known); return err })
	return names, err
}

func (h *hooked) Sales(ctx context.Context, names []string) (list []orders.Sale, err error) {
	h.asked.Add(int64(len(names)))
	err = h.do(ctx, "sales", func() error { list, err = h.Store.Sales(ctx, names); return err })
	return list, err
}

// sale returns a sale as it is in the database.
func (h *hooked) sale(ctx context.Context, name string) (orders.Sale, error) {
	found, err := h.Store.Sales(ctx, []string{name})
	if err != nil || len(found) == 0 {
		return orders.Sale{}, cmp.Or(err, orders.ErrUnknownSale)
	}
	return found[0], nil
}

func (h *hooked) PutSale(ctx context.Context, def orders.Sale) (sale orders.Sale, created bool, added []string, err error) {
	err = h.do(ctx, "put sale", func() error { sale, created, added, err = h.Store.PutSale(ctx, def); return err })
	return sale, created, added, err
}

func (h *hooked) RaiseEpoch(ctx context.Context, seen int64, lead storage.Lead) error {
	return h.do(ctx, "raise epoch", func() error { return h.Store.RaiseEpoch(ctx, seen, lead) })
}

func (h *hooked) EndHandOver(ctx context.Context, lead storage.Lead, silent []liveness.Member) error {
	return h.do(ctx, "end hand-over", func() error { return h.Store.EndHandOver(ctx, lead, silent) })
}

func (h *hooked) Heartbeat(ctx context.Context, self liveness.Self) (list liveness.ProcessList, err error) {
	err = h.do(ctx, "beat", func() error { list, err = h.Store.Heartbeat(ctx, self); return err })
	return list, err
}

func (h *hooked) HandOver(ctx context.Context, lead storage.Lead) (list liveness.ProcessList, err error) {
	err = h.do(ctx, "hand-over", func() error { list, err = h.Store.HandOver(ctx, lead); return err })
	return list, err
}

func (h *hooked) Acknowledge(ctx context.Context, sale string, epoch int64, process string, late []orders.Reservation) error {
	return h.do(ctx, "acknowledge", func() error { return h.Store.Acknowledge(ctx, sale, epoch, process, late) })
}

func (h *hooked) Newest(ctx context.Context, seen storage.LastEvent) (newest storage.LastEvent, there bool, err error) {
	err = h.do(ctx, "newest", func() error { newest, there, err = h.Store.Newest(ctx, seen); return err })
	return newest, there, err
}

func (h *hooked) Commit(ctx context.Context, batch []orders.Reservation) (verdicts []storage.Verdict, err error) {
	err = h.do(ctx, "commit", func() error { verdicts, err = h.Store.Commit(ctx, batch); return err })
	return verdicts, err
}

func (h *hooked) Statuses(ctx context.Context, ids []orders.ID) (found map[orders.ID]orders.Status, err error) {
	err = h.do(ctx, "statuses", func() error { found, err = h.Store.Statuses(ctx, ids); return err })
	return found, err
}

func (h *hooked) Committed(ctx context.Context, ids []orders.ID) (found map[orders.ID]orders.Order, err error) {
	err = h.do(ctx, "committed", func() error { found, err = h.Store.Committed(ctx, ids); return err })
	return found, err
}

func (h *hooked) Pay(ctx context.Context, references map[orders.ID]string) (paid []orders.ID, err error) {
	err = h.do(ctx, "pay", func() error { paid, err = h.Store.Pay(ctx, references); return err })
	return paid, err
}

func (h *hooked) Cancel(ctx context.Context, ids []orders.ID) (ended []storage.Return, err error) {
	err = h.do(ctx, "cancel", func() error { ended, err = h.Store.Cancel(ctx, ids); return err })
	return ended, err
}

func (h *hooked) Returned(ctx context.Context, ids []orders.ID) error {
	return h.do(ctx, "returned", func() error { return h.Store.Returned(ctx, ids) })
}

// fails makes the named calls, or all, fail as if the database were down.
func (h *hooked) fails(calls ...string) {
	h.before.Store(new(hook(func(_ context.Context, call string) error {
		if len(calls) == 0 {
			return fmt.Errorf("%w: a dead process asks for %s", orders.ErrUnavailable, call)
		}
		for _, c := range calls {
			if c == call {
				return fmt.Errorf("%w: %s", orders.ErrUnavailable, call)
			}
		}
		return nil
	})))
}

// heals ends the effect of fails and holds.
func (h *hooked) heals() {
	h.before.Store(nil)
	h.after.Store(nil)
}

// holds blocks the named calls, or all, until goOn is called. reached is closed when the first call is blocked.
func holds(at *atomic.Pointer[hook], calls ...string) (reached <-chan struct{}, goOn func()) {
	arrived, released := make(chan struct{}), make(chan struct{})
	arrive := sync.OnceFunc(func() { close(arrived) })
	at.Store(new(hook(func(ctx context.Context, call string) error {
		for _, c := range calls {
			if c != call {
				continue
			}
			arrive()
			<-released // a stopped process ignores deadlines
			return ctx.Err()
		}
		return nil
	})))
	return arrived, sync.OnceFunc(func() { at.Store(nil); close(released) })
}

// everyCall is the calls that a process makes to the database.
var everyCall = []string{"sales", "put sale", "lead", "raise epoch", "end hand-over", "beat", "hand-over", "acknowledge", "newest", "commit", "statuses", "committed", "pay", "cancel", "returned", "holdings"}

// freeze stops the process: to the others, which only see the database, it is a machine that does nothing any more. thaw
// resumes it.
func (in *installation) freeze(p *process) (thaw func()) {
	in.t.Helper()
	_, thaw = holds(&p.store.before, everyCall...)
	in.t.Cleanup(thaw)
	return thaw
}

// follows prevents a process from leading.
func (p *process) follows() {
	follow := func() (bool, error) { return false, nil }
	p.store.lead.Store(&follow)
}

func (p *process) mayLead() { p.store.lead.Store(nil) }

// around runs its functions before and after commands that contain a given word.
type around struct {
	word          string
	before, after func()
}

func (a around) says(cmds ...redis.Cmder) bool {
	for _, cmd := range cmds {
		for _, arg := range cmd.Args() {
			if arg == a.word {
				return true
			}
		}
	}
	return false
}

func (a around) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a.run([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (a around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a.run(cmds, func() error { return next(ctx, cmds) })
	}
}

func (a around) run(cmds []redis.Cmder, next func() error) error {
	says := a.says(cmds...)
	if says && a.before != nil {
		a.before()
	}
	err := next()
	if says && a.after != nil {
		a.after()
	}
	return err
}

// told counts the log records with a given message.
type told struct {
	slog.Handler
	message string
	times   atomic.Int64
}

// tells returns a log that counts the records with this message.
func tells(message string) *told { return &told{Handler: slog.DiscardHandler, message: message} }

func (l *told) Enabled(context.Context, slog.Level) bool { return true }

func (l *told) Handle(_ context.Context, r slog.Record) error {
	if r.Message == l.message {
		l.times.Add(1)
	}
	return nil
}

// opened waits until the sale's recovery has reached an epoch and opened it.
func (in *installation) opened(p *process, sale string, epoch int64) {
	in.t.Helper()
	eventually(in.t, fmt.Sprintf("epoch %d is open", epoch), func() bool {
		status, err := p.Sale(in.t.Context(), sale)
		return err == nil && status.Sale.Epoch >= epoch && status.State == orders.StateOpen
	})
}

// arrives waits until a channel is closed.
func arrives(t testing.TB, what string, reached <-chan struct{}) {
	t.Helper()
	select {
	case <-reached:
	case <-time.After(20 * time.Second):
		t.Fatalf("not within 20 s: %s", what)
	}
}

// fails makes commands of this name fail as they do without an answer.
type fails struct{ name string }

func (f fails) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f fails) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == f.name {
			cmd.SetErr(os.ErrDeadlineExceeded)
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

func (f fails) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

package shop_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// A schedule is a point of a recovery at which the leader is stopped and loses its lock, and what has happened when it resumes.
type schedule struct {
	step  string // a call of the store, or a script
	after bool   // the leader stops after the step
	told  bool   // its context is cancelled by then
	half  bool   // the next leader is stopped too, just before it opens
}

func (s schedule) String() string {
	return strings.Join([]string{
		map[bool]string{false: "before", true: "after"}[s.after], s.step,
		map[bool]string{false: "unaware,", true: "told,"}[s.told],
		"the next leader is", map[bool]string{false: "done", true: "about to open"}[s.half],
	}, " ")
}

// reopens reports whether the sale is open when the leader is stopped there, so that Redis has to lose its data once more for
// another one to lead.
func (s schedule) reopens() bool { return s.step == "drop" || s.step == "open" && s.after }

// TestALeaderThatLostItsLockUndoesNothing runs every schedule: the leader is stopped before and after each step, loses its
// lock, and resumes when another one has recovered the sale and sold units, or is about to open it.
func TestALeaderThatLostItsLockUndoesNothing(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"raise epoch", "lead", "seal", "hand-over", "end hand-over", "holdings", "load", "open", "drop"} {
		for i := range 8 {
			s := schedule{step, i&1 > 0, i&2 > 0, i&4 > 0}
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel()
				loseLock(t, s)
			})
		}
	}
}

func loseLock(t *testing.T, s schedule) {
	const stock = 30
	server := testenv.StartRedis(t, "--appendfsync", "always") // so that a restart keeps the keys
	in := installOn(t, server.URL())
	loads := make(epochLoads)
	other, zombie := in.start(), in.start()
	for _, p := range in.processes {
		p.rdb.AddHook(&loadHook{loads: loads})
	}
	other.follows()
	if !s.told {
		zombie.store.unaware.Store(true)
	}
	sale := in.sale(zombie, func(s *orders.Sale) { s.Items[0].Stock = stock })
	placed := in.accept(other, sale.ID, "early", 4)
	placed = append(placed, in.accept(zombie, sale.ID, "early-too", 4)...)

	reached, goOn := holdsStep(zombie, s.step, s.after)
	t.Cleanup(goOn)
	// Keys of an earlier epoch remain only if Redis was replaced by one with its data.
	if s.step == "seal" || s.step == "drop" {
		server.Kill()
		server.Restart()
	} else {
		must(t, in.rdb.FlushAll(t.Context()).Err())
	}
	arrives(t, "the leader comes to the step", reached)
	attempt := zombie.store.attempt.Load()
	in.endLead()
	if s.told {
		arrives(t, "the leader is cancelled", attempt.ctx.Done())
	}
	opening, open := make(<-chan struct{}), func() {}
	if s.half {
		opening, open = holdsStep(other, "open", false)
		t.Cleanup(open)
	}
	if s.reopens() {
		must(t, in.rdb.FlushAll(t.Context()).Err())
	}
	other.mayLead()
	in.work(other)
	if s.half {
		arrives(t, "the next leader is about to open", opening)
		goOn()
		arrives(t, "the leader has given up", attempt.over)
		open()
	}
	lost := time.Now()
	in.opened(other, sale.ID, 2)
	if took := time.Since(lost); took > 10*time.Second {
		t.Errorf("the sale was closed for %v", took)
	}
	placed = append(placed, in.accept(other, sale.ID, "between", 4)...)
	goOn()
	arrives(t, "the leader has given up", attempt.over)
	placed = append(placed, in.sellOut(zombie, sale.ID, "late")...)
	if confirmed, late := in.outcomes(other, placed); confirmed != stock || late != 0 {
		t.Errorf("%d confirmed and %d too late of %d units and %d orders", confirmed, late, stock, len(placed))
	}
	in.balanced(other, sale.ID)
	in.everyKeyExpires()
	if sold := in.count(`SELECT count(*) FROM order_units`); sold != stock {
		t.Errorf("%d units sold of %d", sold, stock)
	}
	if over := in.count(`SELECT count(*) FROM (SELECT buyer FROM orders WHERE status = 'confirmed' GROUP BY buyer HAVING sum(quantity) > 1) AS b`); over != 0 {
		t.Errorf("%d buyers above their quota of 1", over)
	}
	loads.once(t)
}

// endLead ends the session of the leader, as a network failure would.
func (in *installation) endLead() {
	in.t.Helper()
	if n := in.count(`
		SELECT count(pg_terminate_backend(pid)) FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n != 1 {
		in.t.Fatalf("%d leaders", n)
	}
}

// holdsStep stops a process before or after a step of the recoveries that it leads.
func holdsStep(p *process, step string, after bool) (reached <-chan struct{}, goOn func()) {
	if script, ok := shop.Scripts[step]; ok {
		arrived, released := make(chan struct{}), make(chan struct{})
		wait := sync.OnceFunc(func() { close(arrived); <-released })
		hook := around{word: script.Hash(), before: wait}
		if after {
			hook.before, hook.after = nil, wait
		}
		p.rdb.AddHook(hook)
		return arrived, sync.OnceFunc(func() { close(released) })
	}
	at := &p.store.before
	if after {
		at = &p.store.after
	}
	return holds(at, step)
}

// epochLoads counts the loads of each epoch of each item by token.
type epochLoads map[string]map[string]int

var loadsMu sync.Mutex

// loadHook records each call of lead.lua that got the item.
type loadHook struct {
	loads epochLoads
}

func (h *loadHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *loadHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			h.note(cmd)
		}
		return err
	}
}

func (h *loadHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.note(cmd)
		return err
	}
}

// note expects evalsha, hash, 8, eight keys, epoch, token: see lead.lua.
func (h *loadHook) note(cmd redis.Cmder) {
	args := cmd.Args()
	reply, ok := cmd.(*redis.Cmd)
	if !ok || len(args) < 13 || args[1] != shop.Scripts["lead"].Hash() && !strings.Contains(fmt.Sprint(args[1]), "-- orders lead\n") {
		return // neither by its hash nor, the first time, as source
	}
	if n, err := reply.Int(); err != nil || n != 1 {
		return
	}
	loadsMu.Lock()
	defer loadsMu.Unlock()
	epoch := fmt.Sprint(args[3])
	if h.loads[epoch] == nil {
		h.loads[epoch] = make(map[string]int)
	}
	h.loads[epoch][fmt.Sprint(args[12])]++
}

// once fails the test if two leaders loaded an epoch, or one leader loaded it twice.
func (l epochLoads) once(t *testing.T) {
	t.Helper()
	loadsMu.Lock()
	defer loadsMu.Unlock()
	if len(l) == 0 {
		t.Error("no epoch was loaded")
	}
	for item, tokens := range l {
		for token, times := range tokens {
			if len(tokens) > 1 || times > 1 {
				t.Errorf("I19: %s was loaded %d times by leader %s of %d", item, times, token, len(tokens))
			}
		}
	}
}

// TestAnItemThatIsStoredLateIsNotEmptied stops the operator's process after it has stored a new item. Another one recovers the
// sale and sells the item.
func TestAnItemThatIsStoredLateIsNotEmptied(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	slow, other := in.start(), in.start()
	sale := in.sale(slow)
	slow.store.unaware.Store(true)
	reached, goOn := holds(&slow.store.after, "put sale")
	t.Cleanup(goOn)
	sale.Items = append(sale.Items, orders.Item{ID: "hat", Stock: 5, QuotaPerBuyer: 1, InFlightMax: 100})
	put := make(chan error, 1)
	go func() {
		_, _, err := slow.PutSale(context.WithoutCancel(t.Context()), sale.Definition())
		put <- err
	}()
	arrives(t, "the item is stored", reached)
	in.endLead()
	buy := func(p *process, user string) orders.Outcome {
		t.Helper()
		var out orders.Outcome
		eventually(t, user+" gets an answer", func() (ok bool) {
			var err error
			out, err = attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "hat", Quantity: 1, User: user})
			return err == nil
		})
		return out
	}
	var placed []orders.ID
	for i := range 3 {
		placed = append(placed, buy(other, fmt.Sprint("early-", i)).Order.ID)
	}
	goOn()
	if err := <-put; err != nil && !errors.Is(err, orders.ErrUnavailable) { // its lock was lost, so the call has to be repeated
		t.Error(err)
	}
	for i := range 5 {
		if out := buy(slow, fmt.Sprint("late-", i)); out.Admitted() {
			placed = append(placed, out.Order.ID)
		}
	}
	in.work(other)
	if confirmed, late := in.outcomes(other, placed); confirmed != 5 || late != 0 || len(placed) != 5 {
		t.Errorf("%d promises of 5 units: %d confirmed, %d too late", len(placed), confirmed, late)
	}
	in.balanced(other, sale.ID)
}

// TestAnItemOfASaleThatIsRecoveringIsIntroduced into the epoch that is being loaded.
func TestAnItemOfASaleThatIsRecoveringIsIntroduced(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	leader, operator := in.start(), in.start()
	sale := in.sale(operator)
	placed := in.accept(operator, sale.ID, "early", 2)
	leader.store.unaware.Store(true)
	reached, goOn := holds(&leader.store.before, "holdings")
	t.Cleanup(goOn)
	operator.follows()
	must(t, in.rdb.FlushAll(t.Context()).Err())
	arrives(t, "the leader is about to load", reached)
	in.endLead()
	operator.store.fails("raise epoch") // it leads for its own change only
	operator.mayLead()
	sale.Items[0].Stock++
	sale.Items = append(sale.Items, orders.Item{ID: "hat", Stock: 1, QuotaPerBuyer: 1, InFlightMax: 100})
	eventually(t, "the sale is stored", func() bool {
		_, _, err := operator.PutSale(t.Context(), sale.Definition())
		return err == nil
	})
	goOn()
	in.opened(leader, sale.ID, 2)
	operator.store.heals()
	in.work(operator)
	in.opened(operator, sale.ID, 2)
	eventually(t, "the new item is sold", func() bool {
		out, err := attempt(t.Context(), operator, orders.Request{Sale: sale.ID, Item: "hat", Quantity: 1, User: "early"})
		return err == nil && out.Admitted()
	})
	placed = append(placed, in.sellOut(operator, sale.ID, "late")...)
	if confirmed, late := in.outcomes(operator, placed); confirmed != sale.Items[0].Stock || late != 0 {
		t.Errorf("%d confirmed and %d too late of %d units", confirmed, late, sale.Items[0].Stock)
	}
	in.balanced(operator, sale.ID)
}

// TestAnItemHasOneLeader: that of the highest epoch. Requests of other leaders are refused, and change nothing.
func TestAnItemHasOneLeader(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	at := func(epoch int64) []string { return p.LedKeys("sale", "shoe", epoch) }
	const forget = 1 << 42
	run := func(want int64, name string, keys []string, args ...any) {
		t.Helper()
		reply := shop.Scripts[name].Run(t.Context(), in.rdb, keys, args...)
		must(t, reply.Err())
		got := int64(min(reply.Len(), 1)) // a list that is empty when refused, or a number
		if number, ok := reply.Next().(int64); ok {
			got = number
		}
		if got != want {
			t.Errorf("%s in %s by %v: %v, want %d", name, keys[0], args[:2], got, want)
		}
	}
	info, err := in.rdb.Info(t.Context(), "server").Result()
	must(t, err)
	_, id, _ := strings.Cut(info, "run_id:")
	id, _, _ = strings.Cut(id, "\r")
	fields := []any{"switch", "open", "starts", 0, "ends", forget, "stock", 9, "quota", 1, "in_flight_max", 9, "server", id, "revision", 1}
	lead := func(want int64, epoch int64, token string) {
		t.Helper()
		run(want, "lead", at(epoch), append([]any{epoch, token, forget}, fields...)...)
	}
	rows := []any{0, 0, 0, 0} // of load.lua: none

	run(1, "introduce", at(1), append([]any{1, forget}, fields...)...)
	run(0, "introduce", at(1), append([]any{1, forget}, fields...)...)
	lead(0, 1, "zombie") // the epoch is taken
	lead(1, 2, "zombie")
	lead(1, 2, "zombie") // repeated after a lost reply
	lead(0, 2, "twin")
	run(1, "load", at(2), append([]any{"zombie", "0 w 0", 3}, rows...)...)
	lead(1, 4, "leader")
	lead(0, 3, "zombie")
	lead(0, 2, "zombie")
	for _, epoch := range []int64{2, 4} {
		before := in.rdb.HGetAll(t.Context(), at(epoch)[0]).Val()
		run(0, "load", at(epoch), append([]any{"zombie", "0 w 0", 5}, rows...)...)
		run(0, "seal", at(epoch), "zombie", "0")
		run(0, "open", at(epoch), append([]any{"zombie", 9, "0 w 0", forget}, fields...)...)
		run(0, "drop", at(epoch), "zombie", "")
		if after := in.rdb.HGetAll(t.Context(), at(epoch)[0]).Val(); !maps.Equal(before, after) {
			t.Errorf("epoch %d: %v became %v", epoch, before, after)
		}
	}
	run(0, "introduce", at(3), append([]any{3, forget}, fields...)...)
	run(0, "open", at(2), append([]any{"leader", 9, "0 w 0", forget}, fields...)...) // it has not taken that epoch
	run(1, "seal", at(2), "leader", "0")
	run(1, "load", at(4), append([]any{"leader", "0 w 0", 3}, rows...)...)
	run(1, "open", at(4), append([]any{"leader", 9, "0 w 0", forget}, fields...)...)
	run(8, "drop", at(2), "leader", "")

	// A restarted server may lack data that was loaded last.
	lead(1, 6, "next")
	must(t, in.rdb.HSet(t.Context(), at(6)[0], "server", strings.Repeat("0", 40)).Err())
	run(0, "open", at(6), append([]any{"next", 9, "0 w 0", forget}, fields...)...)
}

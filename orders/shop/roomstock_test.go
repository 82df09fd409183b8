package shop_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidegate/tidegate/internal/stock"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/waitingroom"
)

// RoomStock is what a waiting room needs of a sale.
var _ waitingroom.Stock = (*shop.RoomStock)(nil)

// guarded returns a sale whose shoe has a waiting room.
func (in *installation) guarded(p *process, change ...func(*orders.Sale)) (orders.Sale, *shop.RoomStock) {
	in.t.Helper()
	sale, turns := in.sale(p, change...), p.RoomStock()
	in.answered("the item has a room", func() error { return turns.Guard(in.t.Context(), sale.ID, "shoe", "room") })
	for _, p := range in.processes {
		eventually(in.t, "everybody knows of the room", func() bool {
			s, err := p.Sale(in.t.Context(), sale.ID)
			return err == nil && s.Items[0].Room == "room"
		})
	}
	return sale, turns
}

// W24, W29: an item with a waiting room is sold to those who were admitted, once, and for as many units as they were admitted for.
func TestATurnIsGoodForOneOrder(t *testing.T) {
	t.Parallel()
	in := install(t)
	ps := []*process{in.start(), in.start()}
	sale, turns := in.guarded(ps[0], func(s *orders.Sale) { s.Items[0].QuotaPerBuyer = 5 })
	admit := func(user string, quantity int, within time.Duration) {
		t.Helper()
		in.answered("admit", func() error {
			return turns.Admit(t.Context(), sale.ID, "shoe", "room", user, time.Now(), quantity, within)
		})
	}
	refused := func(what, user, key string, quantity int) {
		t.Helper()
		if out := in.order(ps[1], sale.ID, user, key, quantity); out.Reason != orders.ReasonTurnRequired || out.Room != "room" {
			t.Errorf("%s: %+v", what, out)
		}
	}
	refused("nobody was admitted", "ann", "k1", 1)
	admit("ann", 2, time.Minute)
	refused("another user", "bob", "k1", 1)
	refused("more units than the turn is for", "ann", "k1", 3)
	first := in.order(ps[1], sale.ID, "ann", "k1", 2)
	if !first.Admitted() || first.Replayed {
		t.Fatalf("%+v", first)
	}
	refused("a second order", "ann", "k2", 1)
	admit("ann", 2, time.Minute)
	refused("a second order after a repeated admission", "ann", "k2", 1)
	if again := in.order(ps[0], sale.ID, "ann", "k1", 2); !again.Replayed || again.Order.ID != first.Order.ID {
		t.Errorf("the same request again: %+v", again)
	}
	got, err := turns.Look(t.Context(), sale.ID, "shoe", "room", []string{"bob", "ann"}, make([]time.Time, 2))
	if err != nil || got.Free != 8 || got.Final || got.Used[0] != "" || got.Used[1] != first.Order.ID.String() || got.Sale != stock.Open {
		t.Errorf("%+v, %v", got, err)
	}

	admit("bob", 1, 50*time.Millisecond)
	time.Sleep(60 * time.Millisecond)
	refused("a pass that is over", "bob", "k1", 1)
	admit("bob", 1, time.Minute)
	now := time.Now()
	if used, err := turns.Revoke(t.Context(), sale.ID, "shoe", "room", "bob", now); used || err != nil {
		t.Error(used, err)
	}
	if used, err := turns.Revoke(t.Context(), sale.ID, "shoe", "room", "ann", now); !used || err != nil {
		t.Error(used, err)
	}
	refused("a pass that was taken back", "bob", "k1", 1)
	for since, want := range map[time.Time]string{now: "revoked", now.Add(-time.Second): "revoked", now.Add(time.Millisecond): ""} {
		if got, err := turns.Look(t.Context(), sale.ID, "shoe", "room", []string{"bob"}, []time.Time{since}); err != nil || got.Used[0] != want {
			t.Errorf("admitted %v after the one that was revoked: %q, %v", since.Sub(now), got.Used, err)
		}
	}
	if err := turns.Admit(t.Context(), sale.ID, "shoe", "room", "bob", now, 1, time.Minute); err != nil {
		t.Error(err)
	}
	refused("a pass that was taken back and given again", "bob", "k1", 1)
	if err := turns.Admit(t.Context(), sale.ID, "shoe", "room", "bob", now.Add(time.Millisecond), 1, time.Minute); err != nil {
		t.Error(err)
	}
	if out := in.order(ps[1], sale.ID, "bob", "k1", 1); !out.Admitted() {
		t.Errorf("with the next pass: %+v", out)
	}

	in.answered("the room ends", func() error { return turns.Unguard(t.Context(), sale.ID, "shoe", "room") })
	if out := in.order(ps[0], sale.ID, "eve", "k1", 1); !out.Admitted() {
		t.Errorf("without a room: %+v", out)
	}
	if _, err := turns.Look(t.Context(), sale.ID, "shoe", "room", nil, nil); !errors.Is(err, orders.ErrConflict) {
		t.Errorf("look at an item without a room: %v", err)
	}
}

// Nobody is sent to a waiting room for a turn that could not help.
func TestSoldOutBeforeATurnIsRequired(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale, turns := in.guarded(p, func(s *orders.Sale) { s.Items[0].Stock, s.Items[0].QuotaPerBuyer = 3, 5 })
	for _, step := range []struct {
		quantity int
		want     orders.Reason
	}{{3, orders.ReasonTurnRequired}, {4, orders.ReasonNotEnough}} {
		if out := in.order(p, sale.ID, "eve", fmt.Sprint("k", step.quantity), step.quantity); out.Reason != step.want {
			t.Errorf("%d of 3 units without a turn: %+v, want %s", step.quantity, out, step.want)
		}
	}
	must(t, turns.Admit(t.Context(), sale.ID, "shoe", "room", "ann", time.Now(), 3, time.Minute))
	if out := in.order(p, sale.ID, "ann", "k1", 3); !out.Admitted() {
		t.Fatalf("%+v", out)
	}
	if out := in.order(p, sale.ID, "eve", "k1", 1); out.Reason != orders.ReasonSoldOut {
		t.Errorf("without a turn when all is sold: %+v", out)
	}
}

// A room learns from Redis why nobody can order, by Redis' clock.
func TestARoomSeesItsSale(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale, turns := in.guarded(p)
	looks := func(want stock.SaleState) {
		t.Helper()
		eventually(t, fmt.Sprintf("the sale is %q", want), func() bool {
			got, err := turns.Look(t.Context(), sale.ID, "shoe", "room", nil, nil)
			return err == nil && got.Sale == want
		})
	}
	change := func(alter func(s *orders.Sale)) {
		t.Helper()
		now, err := p.store.sale(t.Context(), sale.ID)
		must(t, err)
		alter(&now)
		def := now.Definition()
		def.Force = true
		_, _, err = p.PutSale(t.Context(), def)
		must(t, err)
	}
	looks(stock.Open)
	set := func(to orders.Switch) {
		t.Helper()
		_, err := p.SetSwitch(t.Context(), sale.ID, to)
		must(t, err)
	}
	set(orders.SwitchPaused)
	looks(stock.Paused)
	set(orders.SwitchOpen)
	looks(stock.Open)
	change(func(s *orders.Sale) { s.StartsAt = time.Now().Add(2 * time.Second) })
	looks(stock.NotStarted)
	looks(stock.Open)
	change(func(s *orders.Sale) { s.EndsAt = time.Now().Add(time.Second) })
	looks(stock.Ended)
	change(func(s *orders.Sale) { s.EndsAt = time.Now().Add(time.Hour) })
	looks(stock.Open)
	set(orders.SwitchClosed)
	looks(stock.Ended)
}

// Many requests of one turn at once are one order.
func TestATurnIsUsedOnce(t *testing.T) {
	t.Parallel()
	in := install(t)
	ps := []*process{in.start(), in.start()}
	sale, turns := in.guarded(ps[0], func(s *orders.Sale) { s.Items[0].QuotaPerBuyer = 100; s.Items[0].Stock = 100 })
	in.answered("admit", func() error {
		return turns.Admit(t.Context(), sale.ID, "shoe", "room", "ann", time.Now(), 1, time.Minute)
	})
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			out, err := attempt(t.Context(), ps[i%2], orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "ann", Key: fmt.Sprint(i)})
			switch {
			case err != nil:
				t.Error(err)
			case out.Admitted():
				admitted.Add(1)
			case out.Reason != orders.ReasonTurnRequired:
				t.Errorf("%+v", out)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 1 {
		t.Errorf("%d orders of one turn", n)
	}
}

// The stock of a final item does not grow.
func TestAFinalStockStays(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Final = true })
	for what, change := range map[string]func(*orders.Item){
		"more":      func(it *orders.Item) { it.Stock++ },
		"not final": func(it *orders.Item) { it.Final = false },
	} {
		def := sale
		def.Items = []orders.Item{sale.Items[0]}
		change(&def.Items[0])
		if _, _, err := p.PutSale(t.Context(), def.Definition()); !errors.Is(err, orders.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// W33: a room over a sale loses nobody's place, turn or pass when Redis loses everything, and every turn that is taken in time gets a unit.
func TestARoomOutlivesRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	in.timeout = redisTimeout
	p := in.start()
	in.work(p)
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock, s.Items[0].Final, s.Hold = 5, true, 0 })
	db := stdlib.OpenDBFromPool(in.pool)
	defer db.Close()
	rooms := waitingroom.New(waitingroom.Postgres(db), waitingroom.Options{Secret: make([]byte, 32), Stock: p.RoomStock(), Logger: p.Logger()})
	stop := in.run(rooms.Run)
	defer stop()
	in.answered("the room is stored", func() error {
		_, _, err := rooms.Put(t.Context(), waitingroom.Definition{
			Room: "shoes", Sale: sale.ID, Item: "shoe", Mode: waitingroom.ModeFIFO, GatherAt: time.Now().Add(-2 * time.Minute), StartsAt: time.Now().Add(-time.Minute),
			ClaimWindow: 2 * time.Second, PassLifetime: time.Minute, Bound: waitingroom.BoundStrict, RequiresUser: true,
		})
		return err
	})
	users := make([]waitingroom.Visitor, 20)
	for i := range users {
		users[i].User = fmt.Sprint("user-", i)
		place, refusal, err := rooms.Join(t.Context(), "shoes", users[i], 1)
		if err != nil || refusal != nil || !place.Created {
			t.Fatal(place, refusal, err)
		}
	}
	// Every other one is silent. The others claim and order.
	bought := make(map[string]bool)
	lost := sync.OnceFunc(func() { must(t, in.rdb.FlushAll(t.Context()).Err()) })
	eventually(t, "everything is sold, and everybody told", func() bool {
		over := 0
		for i, who := range users {
			place, err := rooms.Place(t.Context(), "shoes", who)
			if err != nil {
				t.Fatal(err)
			}
			if place.Number != int64(i+1) {
				t.Fatalf("%s has number %d", who.User, place.Number)
			}
			switch place.State {
			case waitingroom.StateTurnedAway, waitingroom.StateLapsed, waitingroom.StateDone:
				over++
			case waitingroom.StateTurn:
				if i%2 == 0 {
					_, _, _ = rooms.Claim(t.Context(), "shoes", who)
				}
			case waitingroom.StateAdmitted:
				if len(bought) == 2 {
					lost() // with an admission that has not been used
				}
				out, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: who.User})
				if err == nil && out.Reason == orders.ReasonTurnRequired {
					if restored, err := rooms.Restore(t.Context(), sale.ID, "shoe", who.User); err != nil || !restored {
						continue
					}
					out, err = attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: who.User})
				}
				switch {
				case errors.Is(err, orders.ErrUnavailable), errors.Is(err, orders.ErrRecovering):
				case err != nil || !out.Admitted():
					t.Errorf("%s was admitted and got %+v, %v", who.User, out, err)
				default:
					bought[who.User] = true
				}
			}
		}
		return over == len(users)
	})
	if len(bought) != 5 {
		t.Errorf("bought: %v", bought)
	}
	checks, err := rooms.Verify(t.Context(), "shoes")
	must(t, err)
	for _, c := range checks {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	in.verified(p, sale.ID)
}

// After a recovery a room also reads from the database who has ordered. An order that is committed meanwhile takes its unit and the turn in
// what the room is told, not the turn alone: the room would give one turn too many.
func TestAnOrderWhileARoomLooksAfterARecovery(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	p := in.start()
	in.work(p)
	sale, turns := in.guarded(p)
	must(t, in.rdb.FlushAll(t.Context()).Err())
	in.opened(p, sale.ID, 2)
	since := time.Now()
	in.answered("admit", func() error {
		return turns.Admit(t.Context(), sale.ID, "shoe", "room", "ann", since, 1, time.Minute)
	})
	var once sync.Once
	p.store.before.Store(new(hook(func(_ context.Context, call string) error {
		if call == "latest" {
			once.Do(func() { in.settled(p, in.order(p, sale.ID, "ann", "", 1).Order.ID) })
		}
		return nil
	})))
	for range 2 {
		in.answered("look", func() error {
			got, err := turns.Look(t.Context(), sale.ID, "shoe", "room", []string{"ann"}, []time.Time{since})
			if err == nil && got.Used[0] != "" && got.Free != sale.Items[0].Stock-1 {
				t.Errorf("%d units are free, and ann has used her turn", got.Free)
			}
			return err
		})
	}
}

// A Redis that replaced the one that the sale was loaded into may have an earlier state, in which units are free that have been sold since.
func TestARoomDoesNotLookAtAnotherRedis(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	p := in.start()
	sale, turns := in.guarded(p)
	key := fmt.Sprintf("%s:{%s:shoe}:1:item", in.namespace, sale.ID)
	must(t, in.rdb.HSet(t.Context(), key, "server", "another").Err())
	if _, err := turns.Look(t.Context(), sale.ID, "shoe", "room", nil, nil); !errors.Is(err, orders.ErrRecovering) {
		t.Errorf("%v", err)
	}
}

// A room's visitors are not told that there is no such sale while the process that they reach has not read it yet.
// A report that is asked for right after its sale was made must not fail for good in a worker that does not know the sale yet.
func TestOperatorsReadASaleThatAnotherProcessMade(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale, _ := in.guarded(p)
	for what, read := range map[string]func(sale string) error{
		"orders": func(sale string) error {
			_, err := p.Orders(t.Context(), orders.Query{Sale: sale, Viewer: orders.Viewer{All: true}, Limit: 1})
			return err
		},
		"verify": func(sale string) error {
			_, err := p.Verify(t.Context(), sale)
			return err
		},
	} {
		sale.ID, sale.Items[0].Room = "made-elsewhere-"+what, ""
		_, _, _, err := p.store.PutSale(t.Context(), sale)
		must(t, err)
		if err := read(sale.ID); errors.Is(err, orders.ErrUnknownSale) { // Redis may not have it yet
			t.Errorf("%s: %v", what, err)
		}
		if err := read("no-such-sale"); !errors.Is(err, orders.ErrUnknownSale) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestARoomKnowsASaleThatAnotherProcessMade(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale, stock := in.guarded(p)
	sale.ID, sale.Items[0].QuotaPerBuyer, sale.Items[0].Room = "another", 3, ""
	_, _, _, err := p.store.PutSale(t.Context(), sale)
	must(t, err)
	if quota, err := stock.Quota(t.Context(), sale.ID, sale.Items[0].ID); err != nil || quota != 3 {
		t.Errorf("%d, %v", quota, err)
	}
	if _, err := stock.Quota(t.Context(), sale.ID, "no such item"); !errors.Is(err, orders.ErrUnknownItem) {
		t.Errorf("%v", err)
	}
	if _, err := stock.Quota(t.Context(), "no such sale", "shoe"); !errors.Is(err, orders.ErrUnknownSale) {
		t.Errorf("%v", err)
	}
}

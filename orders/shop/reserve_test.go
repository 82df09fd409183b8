package shop_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
)

// footprint returns everything that Redis stores for a namespace, except times.
func (in *installation) footprint() string {
	in.t.Helper()
	var b strings.Builder
	keys, err := in.rdb.Keys(in.t.Context(), in.namespace+":{*").Result()
	must(in.t, err)
	slices.Sort(keys)
	for _, key := range keys {
		dump, err := in.rdb.Dump(in.t.Context(), key).Result()
		must(in.t, err)
		fmt.Fprintf(&b, "%s %x\n", key, dump)
	}
	return b.String()
}

func TestARefusalLeavesNoTrace(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	at := func(starts, ends time.Duration) func(*orders.Sale) {
		return func(s *orders.Sale) { s.StartsAt, s.EndsAt = time.Now().Add(starts), time.Now().Add(ends) }
	}
	stock := func(n, quota, inFlight int) func(*orders.Sale) {
		return func(s *orders.Sale) {
			s.Items[0].Stock, s.Items[0].QuotaPerBuyer, s.Items[0].InFlightMax = n, quota, inFlight
		}
	}
	for name, c := range map[string]struct {
		change func(*orders.Sale)
		before func(sale string) // what happens first
		user   string
		key    string
		count  int
		want   orders.Outcome
	}{
		"before it starts": {change: at(time.Hour, 2*time.Hour), want: orders.Outcome{Reason: orders.ReasonNotStarted}},
		"after it ended":   {change: at(-2*time.Hour, -time.Hour), want: orders.Outcome{Reason: orders.ReasonEnded}},
		"paused": {before: func(sale string) {
			_, err := p.SetSwitch(t.Context(), sale, orders.SwitchPaused)
			must(t, err)
		}, want: orders.Outcome{Reason: orders.ReasonPaused}},
		"closed": {before: func(sale string) {
			_, err := p.SetSwitch(t.Context(), sale, orders.SwitchClosed)
			must(t, err)
		}, want: orders.Outcome{Reason: orders.ReasonEnded}},
		"sold out": {change: stock(0, 1, 10), want: orders.Outcome{Reason: orders.ReasonSoldOut}},
		"too few left": {
			change: stock(3, 10, 10), key: "k", count: 4,
			want: orders.Outcome{Reason: orders.ReasonNotEnough, Free: 3},
		},
		"over the quota": {
			change: stock(10, 2, 10), key: "k", count: 3,
			want: orders.Outcome{Reason: orders.ReasonQuotaPerBuyer, Quota: 2},
		},
		"too many in flight": {change: stock(10, 1, 1), before: func(sale string) {
			in.order(p, sale, "first", "", 1)
		}, want: orders.Outcome{Reason: orders.ReasonAtCapacity, RetryAfter: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change == nil {
				c.change = stock(10, 1, 10)
			}
			sale := in.sale(p, c.change)
			if c.before != nil {
				c.before(sale.ID)
			}
			before := in.footprint()
			got := in.order(p, sale.ID, "buyer", c.key, max(c.count, 1))
			if name == "before it starts" {
				if got.RetryAfter < 59*time.Minute || got.RetryAfter > time.Hour {
					t.Errorf("retry after %v, an hour before the start", got.RetryAfter)
				}
				got.RetryAfter = 0
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("outcome %+v, want %+v", got, c.want)
			}
			if after := in.footprint(); after != before {
				t.Errorf("Redis before:\n%s\nafter the refusal:\n%s", before, after)
			}
		})
	}
}

func TestRequestsThatNoSaleCouldSatisfy(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	one := in.sale(p)
	two := in.sale(p, func(s *orders.Sale) { s.Items[0].QuotaPerBuyer = 2 })
	open := in.sale(p, func(s *orders.Sale) { s.RequiresUser = false })
	for name, c := range map[string]struct {
		req  orders.Request
		want error
	}{
		"unknown sale":           {orders.Request{Sale: "no", Item: "shoe", Quantity: 1, User: "u"}, orders.ErrUnknownSale},
		"item of another sale":   {orders.Request{Sale: one.ID, Item: "hat", Quantity: 1, User: "u"}, orders.ErrUnknownItem},
		"10 kB of a sale":        {orders.Request{Sale: strings.Repeat("s", 10_000), Item: "shoe", Quantity: 1, User: "u"}, orders.ErrUnknownSale},
		"hash tags":              {orders.Request{Sale: "{" + one.ID + "}", Item: "{}", Quantity: 1, User: "u"}, orders.ErrUnknownSale},
		"nobody":                 {orders.Request{Sale: one.ID, Item: "shoe", Quantity: 1, Key: "k"}, orders.ErrUserRequired},
		"no key, quota above 1":  {orders.Request{Sale: two.ID, Item: "shoe", Quantity: 1, User: "u"}, orders.ErrKeyRequired},
		"nobody, no key":         {orders.Request{Sale: open.ID, Item: "shoe", Quantity: 1}, orders.ErrKeyRequired},
		"nobody, a short key":    {orders.Request{Sale: open.ID, Item: "shoe", Quantity: 1, Key: strings.Repeat("k", 21)}, orders.ErrInvalid},
		"quantity 0":             {orders.Request{Sale: one.ID, Item: "shoe", User: "u"}, orders.ErrInvalid},
		"quantity -1":            {orders.Request{Sale: one.ID, Item: "shoe", Quantity: -1, User: "u"}, orders.ErrInvalid},
		"quantity a billion":     {orders.Request{Sale: one.ID, Item: "shoe", Quantity: 1_000_000_000, User: "u"}, orders.ErrInvalid},
		"a key of 10 kB":         {orders.Request{Sale: one.ID, Item: "shoe", Quantity: 1, User: "u", Key: strings.Repeat("k", 10_000)}, orders.ErrInvalid},
		"a user too long":        {orders.Request{Sale: one.ID, Item: "shoe", Quantity: 1, User: strings.Repeat("u", 256)}, orders.ErrInvalid},
		"a key too long":         {orders.Request{Sale: one.ID, Item: "shoe", Quantity: 1, User: "u", Key: strings.Repeat("鍵", 256)}, orders.ErrInvalid},
		"a key with a newline":   {orders.Request{Sale: one.ID, Item: "shoe", Quantity: 1, User: "u", Key: "a\nb"}, orders.ErrInvalid},
		"a user with a NUL":      {orders.Request{Sale: one.ID, Item: "shoe", Quantity: 1, User: "a\x00b"}, orders.ErrInvalid},
		"a user of broken UTF-8": {orders.Request{Sale: one.ID, Item: "shoe", Quantity: 1, User: "a\xff"}, orders.ErrInvalid},
		"a user unread before":   {orders.Request{Sale: one.ID, Item: "shoe", Quantity: 1, User: "a\ufffd"}, orders.ErrInvalid},
		"a key of broken UTF-8":  {orders.Request{Sale: one.ID, Item: "shoe", Quantity: 1, User: "u", Key: "a\xff"}, orders.ErrInvalid},
		"a key unread before":    {orders.Request{Sale: one.ID, Item: "shoe", Quantity: 1, User: "u", Key: "a\ufffd"}, orders.ErrInvalid},
	} {
		_, err := p.Prepare(c.req)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	// Names that only look dangerous are ordinary names.
	for _, user := range []string{"{}", "a:b", "🦆", strings.Repeat("u", 255), strings.Repeat("買", 255), "*", "'; DROP TABLE orders"} {
		if out := in.order(p, one.ID, user, "{"+strings.Repeat("鍵", 253)+"}", 1); !out.Admitted() {
			t.Errorf("user %q: %s", user, out.Reason)
		}
	}
}

func TestReplayComesBeforeEveryRefusal(t *testing.T) {
	t.Parallel()
	in := install(t)
	p, other := in.start(), in.start()
	in.work(p)
	for name, until := range map[string]func(sale string){
		"at once":  func(string) {},
		"sold out": func(sale string) { in.order(p, sale, "last", "k", 1) },
		"paused": func(sale string) {
			_, err := p.SetSwitch(t.Context(), sale, orders.SwitchPaused)
			must(t, err)
		},
		"closed": func(sale string) {
			_, err := p.SetSwitch(t.Context(), sale, orders.SwitchClosed)
			must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"", "key"} {
				sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 2 })
				first := in.order(p, sale.ID, "holder", key, 1)
				if !first.Admitted() || first.Replayed {
					t.Fatalf("first: %+v", first)
				}
				in.settled(p, first.Order.ID)
				until(sale.ID)
				if name != "at once" {
					eventually(t, "strangers are refused from memory", func() bool {
						in.order(other, sale.ID, "stranger", "k2", 1)
						a, err := other.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "stranger", Key: "k2"})
						must(t, err)
						_, decided := a.Screen()
						return decided
					})
				}
				for range 3 {
					for _, at := range []*process{p, other} {
						again := in.order(at, sale.ID, "holder", key, 1)
						if !again.Replayed || again.Order.ID != first.Order.ID || again.Order.Status != orders.StatusConfirmed {
							t.Fatalf("key %q: %+v, want order %s replayed", key, again, first.Order.ID)
						}
					}
				}
			}
		})
	}
}

func TestAnotherBodyUnderTheSameKey(t *testing.T) {
	t.Parallel()
	in := install(t)
	p, other := in.start(), in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].QuotaPerBuyer = 5 })
	first := in.order(p, sale.ID, "u", "key", 2)
	for _, at := range []*process{p, other} {
		if out := in.order(at, sale.ID, "u", "key", 1); out.Reason != orders.ReasonKeyReused {
			t.Errorf("outcome %+v", out)
		}
		if out := in.order(at, sale.ID, "u", "key", 2); !out.Replayed || out.Order.ID != first.Order.ID {
			t.Errorf("outcome %+v", out)
		}
	}
	if out := in.order(p, sale.ID, "someone else", "key", 1); out.Replayed || !out.Admitted() {
		t.Errorf("a key is its buyer's own: %+v", out)
	}
}

func TestQuotaNamesTheOrderThatFillsIt(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	first := in.order(p, sale.ID, "u", "a", 1)
	out := in.order(p, sale.ID, "u", "b", 1)
	if out.Reason != orders.ReasonQuotaPerBuyer || out.Order.ID != first.Order.ID {
		t.Errorf("outcome %+v, want quota_per_buyer by %s", out, first.Order.ID)
	}
}

func TestManyClicksAtOnceAreOneOrder(t *testing.T) {
	t.Parallel()
	in := install(t)
	ps := []*process{in.start(), in.start()}
	sale := in.sale(ps[0], func(s *orders.Sale) { s.Items[0].Stock = 1_000 })
	for user := range 5 {
		var wg sync.WaitGroup
		ids := make([]orders.ID, 50)
		for i := range ids {
			wg.Go(func() {
				out, err := attempt(t.Context(), ps[i%2], orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: fmt.Sprint(user)})
				if err != nil || !out.Admitted() {
					t.Errorf("%+v %v", out, err)
				}
				ids[i] = out.Order.ID
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatalf("user %d got %s and %s", user, ids[0], id)
			}
		}
	}
	eventually(t, "995 are free after 5 orders of 1,000", func() bool {
		status, err := ps[0].Sale(t.Context(), sale.ID)
		must(t, err)
		return status.Free["shoe"] == 995
	})
}

func TestSoldOutIsSaidWithoutRedis(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	in.timeout = redisTimeout
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 1 })
	in.order(p, sale.ID, "winner", "", 1)
	refused := func(user string) bool {
		a, err := p.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: user})
		must(t, err)
		out, decided := a.Screen()
		if decided && out.Reason != orders.ReasonSoldOut {
			t.Fatalf("screened: %+v", out)
		}
		return decided
	}
	eventually(t, "memory refuses", func() bool {
		in.order(p, sale.ID, "loser", "", 1)
		return refused("loser")
	})
	const asked = 20_000
	before := in.scripts()
	missed := 0
	for i := range asked {
		if user := fmt.Sprint("loser-", i); !refused(user) {
			missed++
			in.order(p, sale.ID, user, "", 1) // as a request does, which refreshes the snapshot
		}
	}
	if ran := in.scripts() - before; ran > asked/100 || missed > asked/100 {
		t.Errorf("%d scripts ran and %d of %d had to ask", ran, missed, asked)
	}
	// Added stock is sold at once, although the snapshot in memory was sold out.
	sale.Items[0].Stock = 2
	_, _, err := p.PutSale(t.Context(), sale.Definition())
	must(t, err)
	if out := in.order(p, sale.ID, "lucky", "", 1); !out.Admitted() {
		t.Errorf("after the stock grew: %+v", out)
	}
}

// scripts returns how many scripts the server has run. Only for a server that the test owns.
func (in *installation) scripts() (calls int) {
	in.t.Helper()
	info, err := in.rdb.Info(in.t.Context(), "commandstats").Result()
	must(in.t, err)
	for line := range strings.Lines(info) {
		var n int
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,", &n); err == nil {
			calls += n
		}
	}
	return calls
}

// An order that Redis reserved after its caller had stopped waiting is remembered, so that it has two copies and its buyer gets it.
func TestAReservationIsRememberedWhenNobodyWaitsForItAnyMore(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	in.timeout = redisTimeout
	p := in.start(func(o *shop.Options) { o.Timeout = 50 * time.Millisecond })
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 10_000 })
	n := 0
	eventually(t, "what Redis replied too late is remembered", func() bool { // a slow machine may not have asked Redis in time
		n++
		a, err := p.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: fmt.Sprint("late-", n)})
		must(t, err)
		must(t, in.rdb.Do(t.Context(), "CLIENT", "PAUSE", time.Minute.Milliseconds(), "WRITE").Err())
		_, err = a.Reserve(t.Context())
		must(t, in.rdb.Do(t.Context(), "CLIENT", "UNPAUSE").Err())
		if !errors.Is(err, orders.ErrUnavailable) {
			t.Fatalf("%v, want ErrUnavailable", err)
		}
		time.Sleep(100 * time.Millisecond)
		return a.Remembered()
	})
}

// Two scripts have connections of their own. While they are under way, those of further items share round trips.
func TestScriptsOfManyItemsShareRoundTrips(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	p := in.start(func(o *shop.Options) { o.Timeout = 20 * time.Second })
	const items = 6
	sale := in.sale(p, func(s *orders.Sale) {
		shoe := s.Items[0]
		for i := 1; i < items; i++ {
			shoe.ID = fmt.Sprint("shoe-", i)
			s.Items = append(s.Items, shoe)
		}
	})
	in.order(p, sale.ID, "first", "", 1)
	held, release := make(chan struct{}, 2*items), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(release) })
	t.Cleanup(goOn)
	p.rdb.AddHook(around{word: lua.Reserve.Hash(), before: func() { held <- struct{}{}; <-release }})
	var buyers errgroup.Group
	for _, item := range sale.Items {
		buyers.Go(func() error {
			out, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: item.ID, Quantity: 1, User: "ann"})
			if err == nil && !out.Admitted() {
				err = fmt.Errorf("%s: %+v", item.ID, out)
			}
			return err
		})
	}
	for range 3 {
		arrives(t, "two scripts and one round trip of others are under way", held)
	}
	time.Sleep(100 * time.Millisecond)
	if n := len(held); n > 0 {
		t.Errorf("%d round trips are under way, want 3 for %d scripts", 3+n, items)
	}
	goOn()
	must(t, buyers.Wait())
}

package shop_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/asynqueue"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/redisclient"
)

// opens runs Open with a database and a namespace.
func (in *installation) opens(store storage.Store, namespace string) error {
	in.t.Helper()
	o, err := redisclient.ParseURL(in.redisURL)
	must(in.t, err)
	redisclient.SetTimeout(o, redisTimeout)
	rdb, err := redisclient.New(o)
	must(in.t, err)
	defer rdb.Close()
	_, err = shop.Open(in.t.Context(), rdb, store, asynqueue.New(rdb), shop.Options{Namespace: namespace, Logger: slog.New(slog.DiscardHandler)})
	return err
}

func (in *installation) foreign(what, want string, err error) {
	in.t.Helper()
	if !errors.Is(err, orders.ErrForeign) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "tidegate adopt") {
		in.t.Errorf("%s: %v, want ErrForeign with %q", what, err, want)
	}
}

func TestForeignDatabasesAreRefused(t *testing.T) {
	t.Parallel()
	in := install(t)
	must(t, in.opens(postgres.New(in.pool), in.namespace))
	must(t, in.opens(postgres.New(in.pool), in.namespace)) // again

	other := postgres.New(installOn(t, in.redisURL).pool)
	in.foreign("an unused database", "no installation has used", in.opens(other, in.namespace))
	must(t, in.opens(other, in.namespace+"-other"))
	in.foreign("another namespace", "belongs to namespace "+in.namespace, in.opens(postgres.New(in.pool), in.namespace+"-third"))

	must(t, shop.Adopt(t.Context(), in.rdb, other, in.namespace))
	must(t, in.opens(other, in.namespace))
	in.foreign("the database of before", "belongs to database", in.opens(postgres.New(in.pool), in.namespace))
}

// TestForeignFirstStartsTogether lets a first process make all of its steps before or after another one reads the database.
func TestForeignFirstStartsTogether(t *testing.T) {
	t.Parallel()
	in := install(t)
	for _, when := range []string{"before", "after"} {
		namespace := in.namespace + when
		store := &hooked{Store: postgres.New(installOn(t, in.redisURL).pool)}
		other := sync.OnceValue(func() error { return in.opens(store.Store, namespace) })
		start := hook(func(_ context.Context, call string) error {
			if call != "installation" {
				return nil
			}
			return other()
		})
		if when == "before" {
			store.before.Store(&start)
		} else {
			store.after.Store(&start)
		}
		if err := in.opens(store, namespace); err != nil {
			t.Errorf("with another process %s the database is read: %v", when, err)
		}
		must(t, other())
	}
}

func TestForeignCloneIsRefused(t *testing.T) {
	t.Parallel()
	url := testenv.StartPostgres(t).URL()
	in := installIn(t, testenv.Redis(t), url)
	must(t, in.opens(postgres.New(in.pool), in.namespace))
	in.pool.Close()
	name := "c" + strings.ToLower(rand.Text()[:8])
	admin, err := pgxpool.New(t.Context(), strings.Replace(url, "/postgres?", "/template1?", 1))
	must(t, err)
	eventually(t, "the database is cloned", func() bool { // sessions take a moment to end
		_, err := admin.Exec(t.Context(), `CREATE DATABASE `+name+` TEMPLATE postgres`)
		return err == nil
	})
	admin.Close()
	clone, err := pgxpool.New(t.Context(), strings.Replace(url, "/postgres?", "/"+name+"?", 1))
	must(t, err)
	t.Cleanup(clone.Close)
	must(t, in.rdb.Del(t.Context(), in.namespace+":database").Err()) // even in an empty Redis
	in.foreign("a clone", "is a copy", in.opens(postgres.New(clone), in.namespace))
	must(t, shop.Adopt(t.Context(), in.rdb, postgres.New(clone), in.namespace))
	must(t, in.opens(postgres.New(clone), in.namespace))
}

func TestForeignWhileRunning(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	key := in.namespace + ":database"
	var own string
	eventually(t, "the namespace has its database", func() bool { own = in.rdb.Get(t.Context(), key).Val(); return own != "" })
	closed := func() bool {
		for _, c := range p.Conditions(t.Context()) {
			if c.Cause == orders.CauseForeign {
				return !c.Serves
			}
		}
		return false
	}
	early, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "ada", Key: "k"})
	must(t, err)
	late, err := p.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "eve", Key: "k"})
	must(t, err)
	calls := make(chan string, 1000)
	record := hook(func(_ context.Context, call string) error { calls <- call; return nil })
	lead := func() (bool, error) { return false, errors.Join(record(t.Context(), "lead"), errors.New("not yet")) }
	p.store.lead.Store(&lead)
	rebuild, cancel := context.WithCancel(t.Context())
	defer cancel()
	rebuilt := make(chan struct{})
	go func() {
		defer close(rebuilt)
		_, _ = p.RebuildSale(rebuild, sale.ID) // until it is cancelled
	}()
	if call := <-calls; call != "lead" {
		t.Fatalf("%s, not lead", call)
	}
	must(t, in.rdb.Set(t.Context(), key, "other 1/1", 0).Err())
	eventually(t, "the process closes", closed)
	stop := in.work(p)
	if out, err := late.Reserve(t.Context()); !errors.Is(err, orders.ErrForeign) {
		t.Errorf("an attempt from before: %+v %v", out, err)
	}
	p.store.before.Store(&record)
	for _, name := range []string{sale.ID, "unknown"} {
		if _, err := attempt(t.Context(), p, orders.Request{Sale: name, Item: "shoe", Quantity: 1, User: "bob", Key: "k"}); !errors.Is(err, orders.ErrUnavailable) || !errors.Is(err, orders.ErrForeign) {
			t.Errorf("sale %s: %v", name, err)
		}
	}
	if found, err := postgres.New(in.pool).Statuses(t.Context(), []orders.ID{early.Order.ID}); err != nil || len(found) > 0 {
		t.Errorf("committed while foreign: %v %v", found, err)
	}
	for len(calls) > 0 { // from before
		<-calls
	}
	for seconds := 0; seconds < 3; { // the database is compared once a second, which is also how often orders expire, for example
		switch call := <-calls; call {
		case "installation":
			seconds++
		case "lead", "commit", "expire", "returns":
			t.Errorf("%s while foreign", call)
		}
	}
	p.store.before.Store(nil)
	p.store.lead.Store(nil)
	cancel()
	<-rebuilt
	must(t, in.rdb.Del(t.Context(), key).Err()) // Redis lost it: the process stores it again
	eventually(t, "the process opens", func() bool { return !closed() && p.Ready(t.Context()) == nil })
	if now := in.rdb.Get(t.Context(), key).Val(); now != own {
		t.Errorf("the key is %q, want %q", now, own)
	}
	in.order(p, sale.ID, "bob", "k", 1)
	in.settled(p, early.Order.ID)
	stop()
}

// TestForeignDatabaseIsNotFirstAgain: Redis loses which database it belongs to, and another database is there before a process can say so.
func TestForeignDatabaseIsNotFirstAgain(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	key := in.namespace + ":database"
	own := func() (owner string) {
		eventually(t, "Redis answers", func() bool {
			var err error
			owner, err = in.rdb.Get(t.Context(), key).Result()
			return err == nil || errors.Is(err, redis.Nil)
		})
		return owner
	}
	first := own()
	if first == "" {
		t.Fatal("the namespace has no database")
	}
	other := postgres.New(installOn(t, in.redisURL).pool)
	held := make(chan struct{})
	p.rdb.AddHook(around{word: key, before: func() { <-held }})
	p.store.fails("installation") // nothing is asked of the database
	must(t, in.rdb.Del(t.Context(), key).Err())
	if err := in.opens(other, in.namespace); !errors.Is(err, orders.ErrUnavailable) || errors.Is(err, orders.ErrForeign) {
		t.Errorf("while a process is running: %v, want ErrUnavailable", err)
	}
	if now := own(); now != "" {
		t.Errorf("it belongs to %q", now)
	}
	place := strings.Fields(first)[1]
	must(t, in.rdb.Set(t.Context(), key, "other "+place+" since 2999-01-01T00:00:00.000000Z", 0).Err()) // as if no process had been running
	close(held)
	eventually(t, "it belongs to its database again", func() bool { return own() == first })
	p.store.heals()
	in.foreign("afterwards", "belongs to database", in.opens(other, in.namespace))
	must(t, in.opens(postgres.New(in.pool), in.namespace))

	for name, owner := range map[string]string{"an older one": "other " + place + " since 2001-01-01T00:00:00.000000Z", "an adopted one": "other " + place + " adopted 2999-01-01T00:00:00.000000Z"} {
		must(t, in.rdb.Set(t.Context(), key, owner, 0).Err())
		eventually(t, name+" is respected", func() bool {
			err := p.Ready(t.Context())
			return err != nil && strings.Contains(err.Error(), string(orders.CauseForeign))
		})
		if now := own(); now != owner {
			t.Errorf("%s: it belongs to %q", name, now)
		}
		must(t, in.rdb.Set(t.Context(), key, first, 0).Err())
		eventually(t, "the process opens", func() bool { return p.Ready(t.Context()) == nil })
	}
	if err := shop.Adopt(t.Context(), in.rdb, other, in.namespace); err != nil || !strings.Contains(own(), " adopted ") {
		t.Errorf("adopted: %q, %v", own(), err)
	}
}

package semregistry_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/semaphore"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// A bed is an installation: a database, a namespace of a Redis, and a rules file.
type bed struct {
	t         *testing.T
	db        *sql.DB
	open      func(*sql.DB) *semregistry.Table
	rdb       *redis.Client
	namespace string
	file      atomic.Pointer[rules.Set]
}

// each runs test over both databases.
func each(t *testing.T, test func(b *bed)) {
	databases.Each(t, semregistry.Postgres, semregistry.SQLite, func(t *testing.T, db *sql.DB, open func(*sql.DB) *semregistry.Table) { test(newBed(t, db, open)) })
}

func newBed(t *testing.T, db *sql.DB, open func(*sql.DB) *semregistry.Table) *bed {
	t.Helper()
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, db: db, open: open, rdb: redis.NewClient(opts), namespace: "semregistry-" + fmt.Sprint(time.Now().UnixNano())}
	t.Cleanup(func() { _ = b.rdb.Close() })
	b.rules("report: {limit: 2}")
	return b
}

// rules is the rules file from now on.
func (b *bed) rules(semaphores string) {
	b.t.Helper()
	b.file.Store(b.parse(semaphores))
}

func (b *bed) parse(semaphores string) *rules.Set {
	b.t.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules: [{name: r, subject: user, limit: 1, window: 1s}]\nsemaphores: {"+semaphores+"}"), semregistry.Section)
	if err != nil {
		b.t.Fatal(err)
	}
	return set
}

// process is one more process; worker ones have no file.
func (b *bed) process(set func() *rules.Set) *semregistry.Registry {
	b.t.Helper()
	r, err := semregistry.New(b.rdb, b.open(b.db), semregistry.Options{Namespace: b.namespace, Rules: set})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bed) api() *semregistry.Registry { return b.process(b.file.Load) }

// forget removes the semaphores from Redis.
func (b *bed) forget() {
	b.t.Helper()
	keys, err := b.rdb.Keys(b.t.Context(), b.namespace+":*").Result()
	if err != nil || len(keys) == 0 {
		b.t.Fatalf("%v %v", keys, err)
	}
	if err := b.rdb.Del(b.t.Context(), keys...).Err(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) do(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// stands fails unless the semaphore is as wanted in Redis: a limit, or "unknown".
func (b *bed) stands(r *semregistry.Registry, name, want string) {
	b.t.Helper()
	sem, err := r.Semaphore(name)
	b.do(err)
	got := "unknown"
	st, err := sem.Status(b.t.Context())
	if err == nil {
		got = fmt.Sprint(st.Limit)
	} else if !errors.Is(err, semaphore.ErrUnknown) {
		b.t.Fatal(err)
	}
	if got != want {
		b.t.Errorf("%s stands at %s, want %s", name, got, want)
	}
}

// What operators set goes before the file, whatever becomes of the file, and the file is back when they take it back.
func TestOverride(t *testing.T) {
	each(t, func(b *bed) {
		ctx, r := t.Context(), b.api()
		b.do(r.Declare(ctx))
		b.stands(r, "report", "2")

		at := time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)
		e, err := r.Override(ctx, "report", semregistry.Override{Size: semregistry.Size{Limit: 5, Lease: time.Minute}, By: "ada", At: at})
		b.do(err)
		want := semregistry.Entry{
			Name: "report", File: &semregistry.Size{Limit: 2, Lease: 15 * time.Second},
			Set: &semregistry.Override{Size: semregistry.Size{Limit: 5, Lease: time.Minute}, By: "ada", At: at},
		}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Error(diff)
		}
		if e, err = r.Entry(ctx, "report"); err != nil || !cmp.Equal(want, e) {
			t.Errorf("%v %s", err, cmp.Diff(want, e))
		}
		b.stands(r, "report", "5")

		b.rules("report: {limit: 3}, other: {limit: 1, lease: 1s}")
		b.do(r.Declare(ctx))
		b.stands(r, "report", "5")
		b.stands(r, "other", "1")
		e, err = r.Revert(ctx, "report")
		b.do(err)
		if size, ok := e.InForce(); !ok || size.Limit != 3 || e.Set != nil {
			t.Errorf("%+v", e)
		}
		b.stands(r, "report", "3")

		b.rules("other: {limit: 1, lease: 1s}")
		b.do(r.Declare(ctx))
		b.stands(r, "report", "unknown")
		if _, err := r.Revert(ctx, "report"); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("reverted what is none: %v", err)
		}
		if _, err := r.Entry(ctx, "report"); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("%v", err)
		}
		if _, err := r.Revert(ctx, "never"); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("%v", err)
		}
		if all, err := r.Entries(ctx); err != nil || len(all) != 2 {
			t.Errorf("%v %v: what was reverted and never was should leave nothing", all, err)
		}
		if _, err := r.Override(ctx, "Report", semregistry.Override{}); !errors.Is(err, semaphore.ErrInvalid) {
			t.Errorf("%v", err)
		}
	})
}

// A semaphore of an operator that the file does not have is none when it is taken back.
func TestOverrideWithoutFile(t *testing.T) {
	each(t, func(b *bed) {
		ctx, r := t.Context(), b.api()
		set := semregistry.Override{Size: semregistry.Size{Limit: 1, Lease: time.Second}, By: "ada", At: time.Now()}
		_, err := r.Override(ctx, "shop:own", set)
		b.do(err)
		b.rules("report: {limit: 9}")
		b.do(r.Declare(ctx))
		b.stands(b.process(nil), "shop:own", "1")
		_, err = r.Revert(ctx, "shop:own")
		b.do(err)
		b.stands(r, "shop:own", "unknown")
		b.forget()
		b.stands(r, "shop:own", "unknown")
	})
}

// The first use may come before the file is declared. As it is the first one, grants need not pause.
func TestUseBeforeDeclare(t *testing.T) {
	each(t, func(b *bed) {
		ctx, r := t.Context(), b.api()
		if e, err := r.Entry(ctx, "report"); err != nil || e.File == nil { // looking is no use
			t.Errorf("%+v %v", e, err)
		}
		var g errgroup.Group
		for range 4 {
			sem, err := b.api().Semaphore("report")
			b.do(err)
			g.Go(func() error {
				p, _, err := sem.Acquire(ctx)
				if err != nil {
					return err
				}
				return p.Release()
			})
		}
		b.do(g.Wait())
		sem, err := r.Semaphore("report")
		b.do(err)
		if st, err := sem.Status(ctx); err != nil || st.GrantsResumeIn != 0 {
			t.Errorf("%+v %v", st, err)
		}
		b.do(r.Declare(ctx))
		b.stands(r, "report", "2")

		b.rules("") // and one that was removed and is back
		b.do(r.Declare(ctx))
		b.stands(r, "report", "unknown")
		b.rules("report: {limit: 4}")
		b.stands(b.process(b.file.Load), "report", "4")
	})
}

// While a release is rolled out, processes with the old file and with the new one run beside each other. The last to start is right, and the
// old ones do not come back to it.
func TestRollingRestart(t *testing.T) {
	each(t, func(b *bed) {
		ctx := t.Context()
		old := b.parse("report: {limit: 2}, gone: {limit: 1}")
		before := b.process(func() *rules.Set { return old })
		b.do(before.Declare(ctx))
		b.rules("report: {limit: 7}, fresh: {limit: 3}")
		var g errgroup.Group
		for range 4 {
			r := b.api()
			g.Go(func() error { return r.Declare(ctx) })
		}
		b.do(g.Wait())
		b.do(before.Declare(ctx))
		b.do(before.Compare(ctx))
		for name, want := range map[string]string{"report": "7", "fresh": "3", "gone": "unknown"} {
			b.stands(before, name, want)
		}
	})
}

// Run follows the file until its context ends.
func TestRun(t *testing.T) {
	each(t, func(b *bed) {
		ctx, cancel := context.WithCancel(t.Context())
		r := b.api()
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		follows := func(limit int) {
			t.Helper()
			for {
				e, err := r.Peek(t.Context(), "report")
				b.do(err)
				if e.File != nil && e.File.Limit == limit {
					return
				}
				select {
				case <-t.Context().Done():
					t.Fatal("never")
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
		follows(2)
		b.rules("report: {limit: 8}")
		follows(8)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		b.stands(b.process(nil), "report", "8")
	})
}

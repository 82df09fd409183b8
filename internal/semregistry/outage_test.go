package semregistry_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/semaphore"
)

// A worker without a file knows what the others have declared, and a Redis that forgot it is told; for a lease nothing is granted then, because
// there may be holders. A semaphore that is new to all has none.
func TestRedisForgets(t *testing.T) {
	each(t, func(b *bed) {
		ctx, r, worker := t.Context(), b.api(), b.process(nil)
		b.stands(worker, "report", "unknown")
		b.do(r.Declare(ctx))
		sem, err := worker.Semaphore("report")
		b.do(err)
		p, _, err := sem.TryAcquire(ctx)
		b.do(err)
		b.do(p.Release())

		b.forget()
		another := b.process(nil)
		if sem, err = another.Semaphore("report"); err != nil {
			t.Fatal(err)
		}
		if _, full, err := sem.TryAcquire(ctx); full == nil {
			t.Errorf("granted by a Redis that has forgotten its holders: %v", err)
		}
		st, err := sem.Status(ctx)
		if err != nil || st.Limit != 2 || st.GrantsResumeIn <= 0 {
			t.Errorf("%+v %v", st, err)
		}
	})
}

// Whatever happened to Redis behind the database's back, it is put right.
func TestCompare(t *testing.T) {
	each(t, func(b *bed) {
		ctx, r := t.Context(), b.api()
		b.rules("report: {limit: 2}, other: {limit: 1}")
		b.do(r.Declare(ctx))
		set, err := semaphore.NewSet(b.rdb, semaphore.SetOptions{Namespace: b.namespace})
		b.do(err)
		report, err := set.Semaphore("report")
		b.do(err)
		b.do(report.Define(ctx, semaphore.Definition{Limit: 99}))
		other, err := set.Semaphore("other")
		b.do(err)
		b.do(other.Undefine(ctx))
		b.stands(r, "report", "99")
		b.do(r.Compare(ctx))
		b.stands(r, "report", "2")
		b.stands(r, "other", "1")

		b.rules("report: {limit: 2}")
		b.do(r.Declare(ctx))
		b.do(other.Define(ctx, semaphore.Definition{Limit: 5}))
		b.do(r.Compare(ctx))
		b.stands(r, "other", "unknown")
	})
}

// Names that are no semaphores any more are many one day. They cost the database nothing, and Redis a question.
func TestCompareAsksTheDatabaseOnce(t *testing.T) {
	each(t, func(b *bed) {
		ctx, r := t.Context(), b.process(nil)
		b.do(b.db.Close())
		for _, c := range []struct {
			entry semregistry.Entry
			right bool
		}{
			{semregistry.Entry{Name: "gone"}, true},
			{semregistry.Entry{Name: "forgotten", File: &semregistry.Size{Limit: 1, Lease: time.Second}}, false},
		} {
			if right, err := r.IsRight(ctx, c.entry); err != nil || right != c.right {
				t.Errorf("%s: %v %v", c.entry.Name, right, err)
			}
		}
	})
}

// Changes at once by several processes end with the database and Redis in agreement.
func TestChangesAtOnce(t *testing.T) {
	each(t, func(b *bed) {
		ctx := t.Context()
		var g errgroup.Group
		for i := range 4 {
			r := b.api()
			g.Go(func() error {
				for n := range 5 {
					o := semregistry.Override{Size: semregistry.Size{Limit: 10*i + n, Lease: time.Second}, By: "ada", At: time.Now()}
					if _, err := r.Override(ctx, "busy", o); err != nil {
						return err
					}
				}
				return nil
			})
		}
		b.do(g.Wait())
		r := b.api()
		e, err := r.Entry(ctx, "busy")
		b.do(err)
		b.stands(r, "busy", fmt.Sprint(e.Set.Limit))
	})
}

// Without the database what is known stays in force, also for a Redis that has forgotten it, and nothing is changed in Redis alone.
func TestDatabaseAway(t *testing.T) {
	each(t, func(b *bed) {
		ctx, r := t.Context(), b.api()
		b.do(r.Declare(ctx))
		b.do(b.db.Close())
		if _, err := r.Override(ctx, "report", semregistry.Override{Size: semregistry.Size{Limit: 9, Lease: time.Second}}); !errors.Is(err, semregistry.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		b.stands(r, "report", "2")
		b.forget()
		b.stands(r, "report", "2")
		sem, err := b.process(nil).Semaphore("report-2")
		b.do(err)
		if _, _, err := sem.TryAcquire(ctx); !errors.Is(err, semregistry.ErrUnavailable) || errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("what nobody could look up is %v", err)
		}
		b.rules("report: {limit: 3}")
		if err := r.Declare(ctx); !errors.Is(err, semregistry.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	})
}

// While the database hangs and Redis has lost its data, recent definitions are still used: the query times out early enough.
func TestDatabaseHangs(t *testing.T) {
	server := testenv.StartPostgres(t)
	db, err := sql.Open("pgx", server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := migrations.Postgres(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, db, semregistry.Postgres)
	r := b.api()
	b.do(r.Declare(t.Context()))
	b.stands(r, "report", "2")
	server.Stop()
	defer server.Continue()
	b.forget()
	sem, err := r.Semaphore("report")
	b.do(err)
	if _, full, err := sem.TryAcquire(t.Context()); full == nil {
		t.Errorf("%v, want what Redis says that has been told", err)
	}
}

// Without Redis nothing is changed in the database alone.
func TestRedisAway(t *testing.T) {
	each(t, func(b *bed) {
		ctx, r := t.Context(), b.api()
		b.do(r.Declare(ctx))
		gone := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer gone.Close()
		without, err := semregistry.New(gone, b.open(b.db), semregistry.Options{Namespace: b.namespace, Rules: b.file.Load})
		b.do(err)
		_, err = without.Override(ctx, "report", semregistry.Override{Size: semregistry.Size{Limit: 9, Lease: time.Second}})
		if !errors.Is(err, semregistry.ErrUnavailable) || strings.Contains(err.Error(), "unknown") {
			t.Errorf("%v", err)
		}
		if e, err := r.Entry(ctx, "report"); err != nil || e.Set != nil {
			t.Errorf("%+v %v", e, err)
		}
	})
}

package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// each runs test over both databases.
func each(t *testing.T, test func(t *testing.T, p *History)) {
	databases.Each(t, Postgres, SQLite, func(t *testing.T, db *sql.DB, open func(*sql.DB) *History) { test(t, open(db)) })
}

// fill has something happen every minute: n events of each kind, the last of them at end.
func (h *History) fill(t *testing.T, n int, end time.Time) {
	t.Helper()
	for i := range n {
		at := end.Add(-time.Duration(i) * time.Minute)
		for insert, rest := range map[string][]any{
			`INSERT INTO ban_events (id, at, lifted, kind, value, reason, rule, since, until, times) VALUES ($1, $2, $3, 'user', 'ann', '', '', $2, $2, 1)`:                       {false},
			`INSERT INTO login_events (id, at, rule, count, action, factor, name_reference, ip_masked, times, shadow) VALUES ($1, $2, 'r', 'ip', 'deny', '', '', '', 1, $3)`:      {false},
			`INSERT INTO audit_events (id, at, actor, action, target, detail, outcome, request_id) VALUES ($1, $2, 'ann', 'put-ban', '/v1/bans/user/bob', '', 'done', 'request')`: nil,
		} {
			if _, err := h.db.Exec(t.Context(), insert, append([]any{fmt.Sprintf("e-%d", i), at}, rest...)...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// left is how many events of each kind there are.
func (h *History) left(t *testing.T) (kinds [len(tables)]int) {
	t.Helper()
	for i, table := range tables {
		if err := h.db.One(t.Context(), "SELECT count(*) FROM "+table, []any{&kinds[i]}); err != nil {
			t.Fatal(err)
		}
	}
	return kinds
}

func TestPrune(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, batch := range []int{3, 4, 1000} { // 8 old ones: between two batches, at the end of one, in one
		t.Run(fmt.Sprint("batches of ", batch), func(t *testing.T) {
			each(t, func(t *testing.T, p *History) {
				p.batch = batch
				p.fill(t, 12, now)
				for _, want := range []int64{24, 0} {
					if n, err := p.Prune(t.Context(), now.Add(-3*time.Minute)); err != nil || n != want { // the fourth is not older
						t.Errorf("%d rows, want %d, %v", n, want, err)
					}
					if left := p.left(t); left != [...]int{4, 4, 4} {
						t.Errorf("%v of %v are left", left, tables)
					}
				}
			})
		})
	}
}

// Where it ends halfway, what is left is the newest.
func TestTheOldestGoFirst(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	each(t, func(t *testing.T, p *History) {
		p.fill(t, 12, now)
		p.batch = 3
		if n, err := p.pruneSome(t.Context(), tables[0], now.Add(-3*time.Minute)); n != 3 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
		var oldest, left int
		if err := p.db.One(t.Context(), "SELECT count(*) FILTER (WHERE id IN ('e-9', 'e-10', 'e-11')), count(*) FROM "+tables[0], []any{&oldest, &left}); err != nil || oldest > 0 || left != 9 {
			t.Errorf("%d are left, %d of the oldest, %v", left, oldest, err)
		}
	})
}

// Any number of processes prune at once.
func TestPrunedByMany(t *testing.T) {
	each(t, func(t *testing.T, p *History) {
		p.batch = 2
		p.fill(t, 40, time.Now().Add(-time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := p.Run(ctx, time.Minute, slog.New(slog.DiscardHandler)); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for patience := time.After(time.Minute); ; {
			left := p.left(t)
			if left == [len(tables)]int{} {
				break
			}
			select {
			case <-patience:
				t.Fatalf("%v of %v are left", left, tables)
			case <-tick.C:
			}
		}
		cancel()
		wg.Wait()
	})
}

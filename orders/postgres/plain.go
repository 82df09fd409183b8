package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/failpoint"
)

// insertPlain also adds the events of new, confirmed orders. Unless it wrote them all with all their units, it fails and writes
// nothing.
var insertPlain = strings.TrimSuffix(insertInto, "\n") + `, recorded AS (
	INSERT INTO order_events (order_id, status) SELECT order_id, 'confirmed' FROM written
)
SELECT CAST(CASE WHEN (SELECT count(*) FROM seated) = cardinality($1) THEN '1'
	ELSE 'some of these orders are not new, or lack a unit; Tidegate commits them in several statements' END AS integer)`

// commitPlain writes a batch in one round trip if all its orders are new, of epochs that are not over, and get the units that they
// have. Otherwise, and if Postgres refuses the statements for another reason, it writes nothing and reports false.
func (s *Store) commitPlain(ctx context.Context, batch []orders.Reservation) (bool, error) {
	notPlain := func(r orders.Reservation) bool { return r.Reason != "" || len(r.Units) != r.Quantity }
	if !s.plain.may() || failpoint.Armed(failpoint.BetweenStatements) || slices.ContainsFunc(batch, notPlain) {
		return false, nil
	}
	todo := make([]int, len(batch))
	for i := range todo {
		todo[i] = i
	}
	sales, args := salesOf(batch), insertArgs(batch, sorted(batch, todo))
	err := wrap("commit", sqldb.Repeat(func() error {
		// Statements that are sent together are one transaction, and each sees what was committed before it began.
		both := &pgx.Batch{}
		both.Queue(lockSales, sales)
		both.Queue(insertPlain, args...)
		results := s.pool.SendBatch(ctx, both)
		_, locked := results.Exec()
		_, inserted := results.Exec()
		return cmp.Or(locked, inserted, results.Close())
	}))
	var pg *pgconn.PgError
	refused := errors.As(err, &pg)
	s.plain.tried(!refused)
	if refused {
		return false, nil // the statements of the other way find out why
	}
	return err == nil, err
}

// plainTries bounds how often batches that are not plain are tried as such: after a repeated order often comes another one.
type plainTries struct {
	mu    sync.Mutex
	next  time.Time     // guarded by mu
	pause time.Duration // before next; guarded by mu
}

const (
	plainPause     = 10 * time.Millisecond // after a batch that was not plain; twice as long after each further one
	plainPauseMost = time.Second
)

func (p *plainTries) may() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !time.Now().Before(p.next)
}

func (p *plainTries) tried(plain bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if plain {
		p.pause = 0
		return
	}
	p.pause = min(max(2*p.pause, plainPause), plainPauseMost)
	p.next = time.Now().Add(p.pause)
}

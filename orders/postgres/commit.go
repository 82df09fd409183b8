package postgres

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/failpoint"
	"github.com/tidegate/tidegate/orders/internal/sqlstore"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// insertOrders writes orders, and their units that are on sale and have no owner, and returns what it wrote. It inserts in the
// order of the ids, so that two batches that share orders wait for each other instead of deadlocking.
//
//go:embed insert_orders.sql
var insertTemplate string

var insertOrders = insertInto + `SELECT order_id, coalesce(array_agg(unit) FILTER (WHERE unit IS NOT NULL), '{}')
FROM written LEFT JOIN seated USING (order_id)
GROUP BY order_id`

var insertInto = func() string {
	var names, lists, values []string // the arguments before them are the units
	for i, c := range sqlstore.Written {
		names, values = append(names, c.Name), append(values, "b."+c.Name+c.Cast)
		lists = append(lists, fmt.Sprintf("$%d::%s[]", i+3, c.Type))
	}
	return strings.NewReplacer(
		"{columns}", strings.Join(names, ", "), "{values}", strings.Join(values, ", "), "{lists}", strings.Join(lists, ", "),
	).Replace(insertTemplate)
}()

// Commit writes the batch in one transaction. It holds the rows of the sales
// FOR SHARE, which EndHandOver waits for: no order is committed under an epoch
// that is over.
func (s *Store) Commit(ctx context.Context, batch []orders.Reservation) ([]storage.Verdict, error) {
	verdicts := make([]storage.Verdict, len(batch))
	switch done, err := s.commitPlain(ctx, batch); {
	case err != nil:
		return nil, err
	case done:
		for i := range verdicts {
			verdicts[i].Status = orders.StatusConfirmed
		}
		return verdicts, nil
	}
	err := s.inTx(ctx, "commit", func(tx pgx.Tx) error {
		clear(verdicts)
		epochs, err := lockEpochs(ctx, tx, batch)
		if err != nil {
			return err
		}
		todo := make([]int, 0, len(batch))
		for i := range batch {
			// Rejections too: in the next epoch a unit may be free for the order.
			if e := epochs[batch[i].Sale]; batch[i].Epoch < e.floor || batch[i].Epoch > e.epoch {
				verdicts[i].Stale = true
				continue
			}
			todo = append(todo, i)
		}
		err = commit(ctx, tx, batch, sorted(batch, todo), verdicts)
		failpoint.Hit(failpoint.BetweenStatements)
		return err
	})
	if err != nil {
		return nil, err
	}
	return verdicts, nil
}

// sorted sorts indices into batch by the ids of the orders.
func sorted(batch []orders.Reservation, todo []int) []int {
	slices.SortFunc(todo, func(a, b int) int { return bytes.Compare(batch[a].ID[:], batch[b].ID[:]) })
	return todo
}

// Prove sends the statements of Commit, for an order of no sale: nothing is written.
func (s *Store) Prove(ctx context.Context) error {
	return s.inTx(ctx, "prove", func(tx pgx.Tx) error {
		batch := []orders.Reservation{{Quantity: 1, Units: []int{1}}}
		if _, err := lockEpochs(ctx, tx, batch); err != nil {
			return err
		}
		if _, err := insert(ctx, tx, batch, []int{0}); err != nil {
			return err
		}
		return recordCommit(ctx, tx, batch, nil, nil)
	})
}

// epochs is the range of epochs of a sale whose reservations may be committed.
type epochs struct{ floor, epoch int64 }

const lockSales = `SELECT sale, epoch_floor, epoch FROM sales WHERE sale = ANY($1) ORDER BY sale FOR SHARE`

func salesOf(batch []orders.Reservation) (sales []string) {
	for i := range batch {
		if !slices.Contains(sales, batch[i].Sale) {
			sales = append(sales, batch[i].Sale)
		}
	}
	return sales
}

func lockEpochs(ctx context.Context, tx pgx.Tx, batch []orders.Reservation) (map[string]epochs, error) {
	sales := salesOf(batch)
	rows, err := tx.Query(ctx, lockSales, sales)
	if err != nil {
		return nil, err
	}
	locked := make(map[string]epochs, len(sales))
	var (
		sale string
		e    epochs
	)
	_, err = pgx.ForEachRow(rows, []any{&sale, &e.floor, &e.epoch}, func() error {
		locked[sale] = e
		return nil
	})
	return locked, err
}

func commit(ctx context.Context, tx pgx.Tx, batch []orders.Reservation, todo []int, verdicts []storage.Verdict) error {
	seated, err := insert(ctx, tx, batch, todo)
	if err != nil {
		return err
	}
	var missing, disputed, changed []int
	for _, i := range todo {
		r := &batch[i]
		units, written := seated[r.ID]
		switch {
		case !written:
			missing = append(missing, i)
		case r.Reason != "":
			verdicts[i] = storage.Verdict{Status: orders.StatusRejected, Reason: r.Reason}
			changed = append(changed, i)
		case len(units) == len(r.Units):
			verdicts[i] = storage.Verdict{Status: orders.StatusConfirmed}
			changed = append(changed, i)
		default:
			disputed = append(disputed, i)
			for _, u := range r.Units {
				if !slices.Contains(units, u) {
					verdicts[i].Taken = append(verdicts[i].Taken, u)
				}
			}
		}
	}
	if len(disputed) > 0 {
		if err := undo(ctx, tx, batch, disputed); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		rejected, err := explain(ctx, tx, batch, missing, verdicts)
		if err != nil {
			return err
		}
		changed = append(changed, rejected...)
	}
	return recordCommit(ctx, tx, batch, changed, verdicts)
}

// undo deletes the orders at disputed, which this transaction wrote, and their units.
func undo(ctx context.Context, tx pgx.Tx, batch []orders.Reservation, disputed []int) error {
	var ids [][16]byte
	var units unitKeys
	for _, i := range disputed {
		r := &batch[i]
		ids = append(ids, r.ID)
		units.add(r.Sale, r.Item, r.Units, r.ID)
	}
	if _, err := tx.Exec(ctx, deleteUnits, sqldb.Replan, units.sales, units.items, units.units, units.orders); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM orders WHERE order_id = ANY($1)`, sqldb.Replan, ids)
	return err
}

// recordCommit adds the events of the orders that this transaction wrote.
func recordCommit(ctx context.Context, tx pgx.Tx, batch []orders.Reservation, changed []int, verdicts []storage.Verdict) error {
	var (
		ids      = make([][16]byte, len(changed))
		statuses = make([]string, len(changed))
		reasons  = make([]string, len(changed))
	)
	for j, i := range changed {
		ids[j], statuses[j], reasons[j] = batch[i].ID, string(verdicts[i].Status), string(verdicts[i].Reason)
	}
	_, err := tx.Exec(ctx, `INSERT INTO order_events (order_id, status, reason) SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[])`,
		ids, statuses, reasons)
	return err
}

// insertArgs are the arguments of insertOrders and insertPlain for the orders of batch at todo.
func insertArgs(batch []orders.Reservation, todo []int) []any {
	var (
		rows        = make([]sqlstore.Row, len(todo))
		unitOrders  = make([][16]byte, 0, len(todo))
		unitNumbers = make([]int, 0, len(todo))
	)
	for j, i := range todo {
		rows[j] = sqlstore.RowOf(&batch[i])
		for _, u := range rows[j].SeatedUnits() {
			unitOrders, unitNumbers = append(unitOrders, batch[i].ID), append(unitNumbers, u)
		}
	}
	args := []any{unitOrders, unitNumbers}
	for _, c := range sqlstore.Written {
		args = append(args, c.List(rows))
	}
	return args
}

// insert writes the orders of batch at todo and returns the units of each that was new.
func insert(ctx context.Context, tx pgx.Tx, batch []orders.Reservation, todo []int) (map[orders.ID][]int, error) {
	inserted, err := tx.Query(ctx, insertOrders, insertArgs(batch, todo)...)
	if err != nil {
		return nil, err
	}
	written := make(map[orders.ID][]int, len(todo))
	var (
		id  [16]byte
		got []int
	)
	_, err = pgx.ForEachRow(inserted, []any{&id, &got}, func() error {
		written[id] = got
		got = nil
		return nil
	})
	return written, err
}

// explain distinguishes orders that already existed from orders whose identity belongs to another order. The latter were
// accepted, so they are written too, as rejected. It returns the indices of those.
func explain(ctx context.Context, tx pgx.Tx, batch []orders.Reservation, missing []int, verdicts []storage.Verdict) ([]int, error) {
	ids := make([][16]byte, len(missing))
	for j, i := range missing {
		ids[j] = batch[i].ID
	}
	rows, err := tx.Query(ctx, `SELECT order_id, status, reason FROM orders WHERE order_id = ANY($1)`, sqldb.Replan, ids)
	if err != nil {
		return nil, err
	}
	known := make(map[orders.ID]storage.Verdict, len(missing))
	var (
		id [16]byte
		v  storage.Verdict
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &v.Status, &v.Reason}, func() error {
		known[id] = v
		return nil
	}); err != nil {
		return nil, err
	}
	duplicates := slices.Clone(batch)
	var todo []int
	for _, i := range missing {
		if v, ok := known[batch[i].ID]; ok {
			v.Repeated = true
			verdicts[i] = v
			continue
		}
		duplicates[i].Reason = orders.ReasonDuplicate
		verdicts[i] = storage.Verdict{Status: orders.StatusRejected, Reason: orders.ReasonDuplicate}
		todo = append(todo, i)
	}
	if len(todo) > 0 {
		_, err = insert(ctx, tx, duplicates, todo)
	}
	return todo, err
}

package sqlstore

import (
	"context"
	"encoding/json"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// RaiseEpoch raises the epoch, and not the floor.
func (s *Store) RaiseEpoch(ctx context.Context, seen int64, lead storage.Lead) error {
	n, err := s.db.Exec(ctx, `UPDATE sales SET epoch = $3, epoch_token = $4, revision = {next revision} WHERE sale = $1 AND epoch = $2`,
		lead.Sale, seen, lead.Epoch, lead.Token)
	if err == nil && n == 0 {
		err = storage.EpochMoved(lead.Sale, seen)
	}
	return s.wrap("raise epoch", err)
}

// RaiseFloor waits for the commits that hold the sale's row, and then runs after in the same transaction.
func RaiseFloor(ctx context.Context, s *Store, lead storage.Lead, after func(sqldb.Conn) error) error {
	return s.inTx(ctx, "end hand-over", func(tx sqldb.Conn) error {
		n, err := tx.Exec(ctx, `UPDATE sales SET epoch_floor = epoch, revision = {next revision} WHERE sale = $1 AND epoch = $2 AND epoch_token = $3`,
			lead.Sale, lead.Epoch, lead.Token)
		switch {
		case err != nil:
			return err
		case n == 0:
			return storage.EpochOver(lead)
		}
		return after(tx)
	})
}

// Leads returns ErrConflict unless the epoch is the leader's.
func Leads(ctx context.Context, s *Store, lead storage.Lead) error {
	var leads bool
	err := s.db.One(ctx, `SELECT EXISTS (SELECT 1 FROM sales WHERE sale = $1 AND epoch = $2 AND epoch_token = $3)`, []any{&leads},
		lead.Sale, lead.Epoch, lead.Token)
	if err == nil && !leads {
		err = storage.EpochOver(lead)
	}
	return s.wrap("hand-over", err)
}

// AddLate stores late orders, and then runs after in the same transaction.
func AddLate(ctx context.Context, s *Store, sale string, late []orders.Reservation, after func(sqldb.Conn) error) error {
	return s.inTx(ctx, "acknowledge", func(tx sqldb.Conn) error {
		for i := range late {
			if _, err := tx.Exec(ctx, `
				INSERT INTO recovery_late (order_id, sale, payload) VALUES ($1, $2, $3)
				ON CONFLICT (order_id) DO UPDATE SET payload = excluded.payload`, [16]byte(late[i].ID), sale, payload(&late[i])); err != nil {
				return err
			}
		}
		return after(tx)
	})
}

func payload(r *orders.Reservation) []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}

// Late reads the late orders that acknowledgements stored.
func (s *Store) Late(ctx context.Context, sale string) ([]orders.Reservation, error) {
	late, err := all(ctx, s.db.Conn, `SELECT payload FROM recovery_late WHERE sale = $1 ORDER BY order_id`,
		func(row sqldb.Row) (orders.Reservation, error) {
			var payload []byte
			if err := row.Scan(&payload); err != nil {
				return orders.Reservation{}, err
			}
			return orders.ParseReservation(payload)
		}, sale)
	return late, s.wrap("late orders", err)
}

// DeleteLate deletes late orders.
func (s *Store) DeleteLate(ctx context.Context, ids []orders.ID) error {
	_, err := s.db.Exec(ctx, `DELETE FROM recovery_late WHERE order_id {in $1}`, UUIDs(ids))
	return s.wrap("delete late orders", err)
}

// Newest reads the end of the index, and looks for the event seen.
func (s *Store) Newest(ctx context.Context, seen storage.LastEvent) (newest storage.LastEvent, there bool, err error) {
	var standby bool
	err = s.db.Replanned().One(ctx, `
		SELECT {standby}, coalesce(seq, 0), coalesce(order_id, '00000000-0000-0000-0000-000000000000'),
		       CAST($1 AS bigint) = 0 OR EXISTS (SELECT 1 FROM order_events WHERE seq = $1 AND order_id = $2)
		FROM (VALUES (1)) AS one LEFT JOIN (SELECT seq, order_id FROM order_events ORDER BY seq DESC LIMIT 1) AS e ON true`,
		[]any{&standby, &newest.Seq, (*[16]byte)(&newest.Order), &there}, seen.Seq, [16]byte(seen.Order))
	if err == nil && standby {
		err = storage.ErrStandby
	}
	return newest, there, s.wrap("newest event", err)
}

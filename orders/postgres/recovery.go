package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/orders"
)

// RaiseEpoch raises the epoch and leaves the floor.
func (s *Store) RaiseEpoch(ctx context.Context, sale string) error {
	_, err := s.pool.Exec(ctx, `UPDATE sales SET epoch = epoch + 1, revision = nextval('sales_revision') WHERE sale = $1`, sale)
	return wrap("raise epoch", err)
}

// forgetProcess is after how long a process that is not heard of is none. It
// puts itself on the roll again when it comes back.
const forgetProcess = 5 * time.Second

// EndHandOver waits for the commits that hold the sale's row FOR SHARE.
func (s *Store) EndHandOver(ctx context.Context, sale string, epoch int64) error {
	return s.inTx(ctx, "end hand-over", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE sales SET epoch_floor = epoch, revision = nextval('sales_revision') WHERE sale = $1 AND epoch = $2`, sale, epoch)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("%w: epoch %d of sale %s is over", orders.ErrConflict, epoch, sale)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM recovery_acks WHERE sale = $1 AND epoch <= $2`, sale, epoch); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM processes WHERE beats_at < now() - $1::interval`, forgetProcess)
		return err
	})
}

// Beat writes the database's own time.
func (s *Store) Beat(ctx context.Context, process string) error {
	_, err := s.pool.Exec(ctx, `
		INSERT INTO processes (process, beats_at) VALUES ($1, now()) ON CONFLICT (process) DO UPDATE SET beats_at = excluded.beats_at`, process)
	return wrap("beat", err)
}

// Leave takes the process off the list.
func (s *Store) Leave(ctx context.Context, process string) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM processes WHERE process = $1`, process)
	return wrap("leave", err)
}

// Acknowledge writes what a process says, once.
func (s *Store) Acknowledge(ctx context.Context, sale string, epoch int64, process string) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO recovery_acks (sale, epoch, process) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, sale, epoch, process)
	return wrap("acknowledge", err)
}

// Acknowledged asks for a process that beat lately and has not acknowledged.
func (s *Store) Acknowledged(ctx context.Context, sale string, epoch int64, silence time.Duration) (bool, error) {
	var missing bool
	err := s.pool.QueryRow(ctx, `
		SELECT EXISTS (
			SELECT 1 FROM processes p
			WHERE beats_at > now() - $3::interval
			  AND NOT EXISTS (SELECT 1 FROM recovery_acks a WHERE a.sale = $1 AND a.epoch = $2 AND a.process = p.process))`,
		sale, epoch, silence).Scan(&missing)
	return !missing, wrap("acknowledged", err)
}

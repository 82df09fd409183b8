package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// RaiseEpoch raises the epoch and leaves the floor.
func (s *Store) RaiseEpoch(ctx context.Context, sale string) error {
	return s.exec(ctx, "raise epoch", `UPDATE sales SET epoch = epoch + 1, revision = `+nextRevision+` WHERE sale = ?`, sale)
}

// EndHandOver waits for the running commit, as every writer does.
func (s *Store) EndHandOver(ctx context.Context, sale string, epoch int64) error {
	return s.inTx(ctx, "end hand-over", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE sales SET epoch_floor = epoch, revision = `+nextRevision+` WHERE sale = ? AND epoch = ?`, sale, epoch)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return fmt.Errorf("%w: epoch %d of sale %s is over", orders.ErrConflict, epoch, sale)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM recovery_acks WHERE sale = ? AND epoch <= ?`, sale, epoch); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM processes WHERE beats_at < ?`, time.Now().Add(-time.Hour).UnixMilli())
		return err
	})
}

// Beat notes when the process was heard of.
func (s *Store) Beat(ctx context.Context, process string) error {
	return s.exec(ctx, "beat", `INSERT INTO processes (process, beats_at) VALUES (?, ?) ON CONFLICT (process) DO UPDATE SET beats_at = excluded.beats_at`,
		process, time.Now().UnixMilli())
}

// Leave takes the process off the list.
func (s *Store) Leave(ctx context.Context, process string) error {
	return s.exec(ctx, "leave", `DELETE FROM processes WHERE process = ?`, process)
}

// Acknowledge writes what a process says, once.
func (s *Store) Acknowledge(ctx context.Context, sale string, epoch int64, process string) error {
	return s.exec(ctx, "acknowledge", `INSERT INTO recovery_acks (sale, epoch, process) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, sale, epoch, process)
}

// Acknowledged asks for a process that beat lately and has not acknowledged.
func (s *Store) Acknowledged(ctx context.Context, sale string, epoch int64, silence time.Duration) (bool, error) {
	var missing bool
	err := s.db.QueryRowContext(ctx, `
		SELECT EXISTS (
			SELECT 1 FROM processes p
			WHERE beats_at > ?3
			  AND NOT EXISTS (SELECT 1 FROM recovery_acks a WHERE a.sale = ?1 AND a.epoch = ?2 AND a.process = p.process))`,
		sale, epoch, time.Now().Add(-silence).UnixMilli()).Scan(&missing)
	return !missing, wrap("acknowledged", err)
}

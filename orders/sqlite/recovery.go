package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
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
		return nil
	})
}

// roll is who is alive and what they acknowledged. The processes are all this
// one, so it is kept in memory.
type roll struct {
	mu    sync.Mutex
	beats map[string]time.Time
	acks  map[string]map[string]int64 // by process and sale
}

// Beat notes when the process was heard of.
func (s *Store) Beat(_ context.Context, process string) error {
	s.roll.mu.Lock()
	defer s.roll.mu.Unlock()
	s.roll.beats[process] = time.Now()
	return nil
}

// Leave takes the process off the roll.
func (s *Store) Leave(_ context.Context, process string) error {
	s.roll.mu.Lock()
	defer s.roll.mu.Unlock()
	delete(s.roll.beats, process)
	delete(s.roll.acks, process)
	return nil
}

// Acknowledge notes what a process says.
func (s *Store) Acknowledge(_ context.Context, sale string, epoch int64, process string) error {
	s.roll.mu.Lock()
	defer s.roll.mu.Unlock()
	if s.roll.acks[process] == nil {
		s.roll.acks[process] = make(map[string]int64)
	}
	s.roll.acks[process][sale] = epoch
	return nil
}

// Acknowledged looks for a process that beat lately and has not acknowledged.
func (s *Store) Acknowledged(_ context.Context, sale string, epoch int64, silence time.Duration) (bool, error) {
	s.roll.mu.Lock()
	defer s.roll.mu.Unlock()
	for process, at := range s.roll.beats {
		if time.Since(at) < silence && s.roll.acks[process][sale] != epoch {
			return false, nil
		}
	}
	return true, nil
}

package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
)

// RaiseEpoch raises the epoch, and not the floor.
func (s *Store) RaiseEpoch(ctx context.Context, seen int64, lead orders.Lead) error {
	return s.change(ctx, "raise epoch", fmt.Sprintf("sale %s is not in epoch %d any more", lead.Sale, seen),
		`UPDATE sales SET epoch = ?3, epoch_token = ?4, revision = `+nextRevision+` WHERE sale = ?1 AND epoch = ?2`,
		lead.Sale, seen, lead.Epoch, lead.Token)
}

// EndHandOver waits for the running commit, as every writer does. No member is ever silent: there is one process.
func (s *Store) EndHandOver(ctx context.Context, lead orders.Lead, _ []liveness.Member) error {
	return s.change(ctx, "end hand-over", fmt.Sprintf("epoch %d of sale %s is over", lead.Epoch, lead.Sale),
		`UPDATE sales SET epoch_floor = epoch, revision = `+nextRevision+` WHERE sale = ?1 AND epoch = ?2 AND epoch_token = ?3`,
		lead.Sale, lead.Epoch, lead.Token)
}

// change runs an update, and returns ErrConflict if it matches no row.
func (s *Store) change(ctx context.Context, op, conflict, statement string, args ...any) error {
	return s.inTx(ctx, op, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, failure.New(orders.ErrConflict, "%s", conflict))
		}
		return nil
	})
}

// processes is the running processes and their acknowledgements. There is only this process, so it is kept in memory.
type processes struct {
	mu     sync.Mutex
	beats  map[string]int
	selves map[string]liveness.Self
	acks   map[string]map[string]int64 // by process and sale
}

// read returns the process list, and which members have acknowledged an epoch of a sale.
func (r *processes) read(sale string, epoch int64) liveness.ProcessList {
	var list liveness.ProcessList
	for process, beats := range r.beats {
		self := r.selves[process]
		list.Members = append(list.Members, liveness.Member{
			Process: process, Pulse: strconv.Itoa(beats), Acknowledged: sale != "" && r.acks[process][sale] == epoch, Host: self.Host, Program: self.Program, Commits: self.Commits,
		})
	}
	return list
}

// Heartbeat counts a heartbeat of the process.
func (s *Store) Heartbeat(_ context.Context, self liveness.Self) (liveness.ProcessList, error) {
	s.processes.mu.Lock()
	defer s.processes.mu.Unlock()
	s.processes.beats[self.Process]++
	s.processes.selves[self.Process] = self
	list := s.processes.read("", 0)
	list.Clock = time.Now()
	return list, nil
}

// Leave removes the process from the process list.
func (s *Store) Leave(_ context.Context, process string) error {
	s.processes.mu.Lock()
	defer s.processes.mu.Unlock()
	delete(s.processes.beats, process)
	delete(s.processes.selves, process)
	delete(s.processes.acks, process)
	return nil
}

// Acknowledge stores an acknowledgement, and the late orders.
func (s *Store) Acknowledge(ctx context.Context, sale string, epoch int64, process string, late []orders.Reservation) error {
	if err := s.inTx(ctx, "acknowledge", func(tx *sql.Tx) error {
		for i := range late {
			payload, err := json.Marshal(late[i])
			if err != nil {
				panic(err) // strings and numbers
			}
			if _, err := tx.ExecContext(ctx, `
				INSERT INTO recovery_late (order_id, sale, payload) VALUES (?, ?, ?)
				ON CONFLICT (order_id) DO UPDATE SET payload = excluded.payload`, late[i].ID.String(), sale, payload); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	s.processes.mu.Lock()
	defer s.processes.mu.Unlock()
	if s.processes.acks[process] == nil {
		s.processes.acks[process] = make(map[string]int64)
	}
	s.processes.acks[process][sale] = epoch
	return nil
}

// HandOver reads the sale, and then the process list.
func (s *Store) HandOver(ctx context.Context, lead orders.Lead) (liveness.ProcessList, error) {
	var leads bool
	err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sales WHERE sale = ? AND epoch = ? AND epoch_token = ?)`,
		lead.Sale, lead.Epoch, lead.Token).Scan(&leads)
	if err == nil && !leads {
		err = failure.New(orders.ErrConflict, "epoch %d of sale %s is over, or another leader's", lead.Epoch, lead.Sale)
	}
	if err != nil {
		return liveness.ProcessList{}, wrap("hand-over", err)
	}
	s.processes.mu.Lock()
	defer s.processes.mu.Unlock()
	return s.processes.read(lead.Sale, lead.Epoch), nil
}

// Late reads the late orders that acknowledgements stored.
func (s *Store) Late(ctx context.Context, sale string) ([]orders.Reservation, error) {
	var late []orders.Reservation
	err := each(ctx, s.db, func(rows *sql.Rows) error {
		var payload []byte
		if err := rows.Scan(&payload); err != nil {
			return err
		}
		r, err := orders.ParseReservation(payload)
		late = append(late, r)
		return err
	}, `SELECT payload FROM recovery_late WHERE sale = ? ORDER BY order_id`, sale)
	return late, wrap("late orders", err)
}

// DeleteLate deletes late orders.
func (s *Store) DeleteLate(ctx context.Context, ids []orders.ID) error {
	if len(ids) == 0 {
		return nil
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id.String()
	}
	return s.exec(ctx, "again", `DELETE FROM recovery_late WHERE order_id IN (?`+strings.Repeat(",?", len(ids)-1)+`)`, args...)
}

// Newest reads the end of the table, and looks for the event seen.
func (s *Store) Newest(ctx context.Context, seen orders.LastEvent) (newest orders.LastEvent, there bool, err error) {
	there = seen == orders.LastEvent{}
	err = each(ctx, s.db, func(rows *sql.Rows) error {
		var id string
		if err := rows.Scan(&newest.Seq, &id, &there); err != nil {
			return err
		}
		return newest.Order.UnmarshalText([]byte(id))
	}, `SELECT seq, order_id, ?1 = 0 OR EXISTS (SELECT 1 FROM order_events WHERE seq = ?1 AND order_id = ?2)
		FROM order_events ORDER BY seq DESC LIMIT 1`, seen.Seq, seen.Order.String())
	return newest, there, wrap("newest event", err)
}

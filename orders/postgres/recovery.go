package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
)

// RaiseEpoch raises the epoch, and not the floor.
func (s *Store) RaiseEpoch(ctx context.Context, seen int64, lead orders.Lead) error {
	tag, err := s.pool.Exec(ctx, `
		UPDATE sales SET epoch = $3, epoch_token = $4, revision = nextval('sales_revision') WHERE sale = $1 AND epoch = $2`,
		lead.Sale, seen, lead.Epoch, lead.Token)
	if err == nil && tag.RowsAffected() == 0 {
		err = failure.New(orders.ErrConflict, "sale %s is not in epoch %d any more", lead.Sale, seen)
	}
	return wrap("raise epoch", err)
}

// EndHandOver waits for the commits that hold the sale's row FOR SHARE. A process that has sent a heartbeat since it was found
// silent stays on the process list.
func (s *Store) EndHandOver(ctx context.Context, lead orders.Lead, silent []liveness.Member) error {
	return s.inTx(ctx, "end hand-over", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE sales SET epoch_floor = epoch, revision = nextval('sales_revision') WHERE sale = $1 AND epoch = $2 AND epoch_token = $3`,
			lead.Sale, lead.Epoch, lead.Token)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return over(lead)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM recovery_acks WHERE sale = $1 AND epoch <= $2`, lead.Sale, lead.Epoch); err != nil {
			return err
		}
		for _, m := range silent {
			if _, err := tx.Exec(ctx, `DELETE FROM processes WHERE process = $1 AND `+pulse+` = $2`, m.Process, m.Pulse); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	// pulse changes with each heartbeat, also with those of earlier versions, which did not count them.
	pulse = `beats || ' ' || beats_at`
	// server changes with each start of a server, so also after a failover.
	server = `pg_postmaster_start_time()::text`
	// listed are the columns that scanProcesses reads beside whether the process has acknowledged.
	listed = server + `, clock_timestamp(), process, ` + pulse + `, host, addr, program, coalesce(commits, true)`
)

// beats is the connection for heartbeats. Waiting for a free connection of the pool would make a busy process look silent.
type beats struct {
	mu   sync.Mutex
	conn *pgx.Conn // nil until the next heartbeat connects
}

// Heartbeat counts a heartbeat. It returns the process list as it was just before.
func (s *Store) Heartbeat(ctx context.Context, self liveness.Self) (liveness.ProcessList, error) {
	list := liveness.ProcessList{}
	err := s.beats.on(ctx, s.pool.Config(), func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, `
			WITH beat AS (
				INSERT INTO processes AS p (process, beats, beats_at, host, addr, program, commits)
				VALUES ($1, 1, now(), $2, coalesce(host(inet_client_addr()), ''), $3, $4)
				ON CONFLICT (process) DO UPDATE SET beats = p.beats + 1, beats_at = now(), commits = excluded.commits)
			SELECT `+listed+`, false FROM processes`, self.Process, self.Host, self.Program, self.Commits)
		var err error
		list, err = scanProcesses(rows)
		return err
	})
	return list, wrap("beat", err)
}

// on runs fn on the connection, and closes it when fn fails: the next heartbeat connects again.
func (b *beats) on(ctx context.Context, config *pgxpool.Config, fn func(*pgx.Conn) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn == nil {
		if before := config.BeforeConnect; before != nil {
			if err := before(ctx, config.ConnConfig); err != nil {
				return err
			}
		}
		conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
		if err != nil {
			return err
		}
		b.conn = conn
	}
	err := fn(b.conn)
	if err != nil {
		b.close(ctx)
	}
	return err
}

func (b *beats) close(ctx context.Context) {
	if b.conn != nil {
		_ = b.conn.Close(ctx) // it is broken, or the server will notice
		b.conn = nil
	}
}

// scanProcesses reads rows of listed and whether the process has acknowledged.
func scanProcesses(rows pgx.Rows) (liveness.ProcessList, error) {
	var (
		list liveness.ProcessList
		m    liveness.Member
	)
	_, err := pgx.ForEachRow(rows, []any{&list.Server, &list.Clock, &m.Process, &m.Pulse, &m.Host, &m.Addr, &m.Program, &m.Commits, &m.Acknowledged}, func() error {
		list.Members = append(list.Members, m)
		return nil
	})
	return list, err
}

// Leave removes the process from the process list, and closes the connection for heartbeats.
func (s *Store) Leave(ctx context.Context, process string) error {
	s.beats.mu.Lock()
	s.beats.close(ctx)
	s.beats.mu.Unlock()
	_, err := s.pool.Exec(ctx, `DELETE FROM processes WHERE process = $1`, process)
	return wrap("leave", err)
}

// Acknowledge stores an acknowledgement, once, and the late orders.
func (s *Store) Acknowledge(ctx context.Context, sale string, epoch int64, process string, late []orders.Reservation) error {
	return s.inTx(ctx, "acknowledge", func(tx pgx.Tx) error {
		for i := range late {
			payload, err := json.Marshal(late[i])
			if err != nil {
				panic(err) // strings and numbers
			}
			if _, err := tx.Exec(ctx, `
				INSERT INTO recovery_late (order_id, sale, payload) VALUES ($1, $2, $3)
				ON CONFLICT (order_id) DO UPDATE SET payload = excluded.payload`, [16]byte(late[i].ID), sale, payload); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `INSERT INTO recovery_acks (sale, epoch, process) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, sale, epoch, process)
		return err
	})
}

// HandOver reads the sale before the process list: if another leader raises the epoch in between, the hand-over of that leader does not
// end.
func (s *Store) HandOver(ctx context.Context, lead orders.Lead) (liveness.ProcessList, error) {
	var leads bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM sales WHERE sale = $1 AND epoch = $2 AND epoch_token = $3)`,
		lead.Sale, lead.Epoch, lead.Token).Scan(&leads)
	if err == nil && !leads {
		err = over(lead)
	}
	if err != nil {
		return liveness.ProcessList{}, wrap("hand-over", err)
	}
	rows, _ := s.pool.Query(ctx, `
		SELECT `+listed+`,
		       EXISTS (SELECT FROM recovery_acks a WHERE a.sale = $1 AND a.epoch = $2 AND a.process = p.process)
		FROM processes p`, lead.Sale, lead.Epoch)
	list, err := scanProcesses(rows)
	return list, wrap("hand-over", err)
}

// over returns the error for an epoch that is over.
func over(lead orders.Lead) error {
	return failure.New(orders.ErrConflict, "epoch %d of sale %s is over, or another leader's", lead.Epoch, lead.Sale)
}

// Late reads the late orders that acknowledgements stored.
func (s *Store) Late(ctx context.Context, sale string) ([]orders.Reservation, error) {
	rows, _ := s.pool.Query(ctx, `SELECT payload FROM recovery_late WHERE sale = $1 ORDER BY order_id`, sale)
	late, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (orders.Reservation, error) {
		var payload []byte
		if err := row.Scan(&payload); err != nil {
			return orders.Reservation{}, err
		}
		return orders.ParseReservation(payload)
	})
	return late, wrap("late orders", err)
}

// DeleteLate deletes late orders.
func (s *Store) DeleteLate(ctx context.Context, ids []orders.ID) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM recovery_late WHERE order_id = ANY($1)`, uuids(ids))
	return wrap("again", err)
}

// Newest reads the end of the index, and looks for the event seen.
func (s *Store) Newest(ctx context.Context, seen orders.LastEvent) (newest orders.LastEvent, there bool, err error) {
	var (
		id      [16]byte
		standby bool
	)
	err = s.pool.QueryRow(ctx, `
		SELECT pg_is_in_recovery(), coalesce(seq, 0), coalesce(order_id, '00000000-0000-0000-0000-000000000000'),
		       $1 = 0 OR EXISTS (SELECT FROM order_events WHERE seq = $1 AND order_id = $2)
		FROM (VALUES (1)) one LEFT JOIN (SELECT seq, order_id FROM order_events ORDER BY seq DESC LIMIT 1) e ON true`,
		seen.Seq, [16]byte(seen.Order)).Scan(&standby, &newest.Seq, &id, &there)
	if err == nil && standby {
		err = errStandby
	}
	newest.Order = id
	return newest, there, wrap("newest event", err)
}

// errStandby: a pooler has moved on to a server that may be behind. What is read there is no sign that the database went back in time.
var errStandby = errors.New("the server is a standby")

package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/sqlstore"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// EndHandOver waits for the commits that hold the sale's row FOR SHARE. A process that has sent a heartbeat since it was found
// silent stays on the process list.
func (s *Store) EndHandOver(ctx context.Context, lead storage.Lead, silent []liveness.Member) error {
	return sqlstore.RaiseFloor(ctx, &s.common, lead, func(tx sqldb.Conn) error {
		if _, err := tx.Exec(ctx, `DELETE FROM recovery_acks WHERE sale = $1 AND epoch <= $2`, lead.Sale, lead.Epoch); err != nil {
			return err
		}
		for _, m := range silent {
			if _, err := tx.Exec(ctx, `DELETE FROM processes WHERE process = $1 AND beats::text = $2`, m.Process, m.Pulse); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	// server changes with each start of a server, so also after a failover.
	server = `pg_postmaster_start_time()::text`
	// listed are the columns that scanProcesses reads beside whether the process has acknowledged.
	listed = server + `, clock_timestamp(), process, beats::text, host, addr, program, commits`
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
	_, err := pgx.ForEachRow(rows, []any{
		&list.Server, &list.Clock, &m.Process, &m.Pulse, &m.Host, &m.Addr, &m.Program, &m.Commits,
		&m.Acknowledged,
	}, func() error {
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
	return sqlstore.AddLate(ctx, &s.common, sale, late, func(tx sqldb.Conn) error {
		_, err := tx.Exec(ctx, `INSERT INTO recovery_acks (sale, epoch, process) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, sale, epoch,
			process)
		return err
	})
}

// HandOver reads the sale before the process list: if another leader raises the epoch in between, the hand-over of that leader does not
// end.
func (s *Store) HandOver(ctx context.Context, lead storage.Lead) (liveness.ProcessList, error) {
	if err := sqlstore.Leads(ctx, &s.common, lead); err != nil {
		return liveness.ProcessList{}, err
	}
	rows, _ := s.pool.Query(ctx, `
		SELECT `+listed+`,
		       EXISTS (SELECT FROM recovery_acks a WHERE a.sale = $1 AND a.epoch = $2 AND a.process = p.process)
		FROM processes p`, lead.Sale, lead.Epoch)
	list, err := scanProcesses(rows)
	return list, wrap("hand-over", err)
}

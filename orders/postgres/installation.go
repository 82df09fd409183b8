package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidegate/tidegate/orders/internal/storage"
)

const databaseOID = `(SELECT oid::bigint FROM pg_database WHERE datname = current_database())`

// A rowQuerier is a pool or a transaction.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// place returns where the database is. Permissions are checked before a statement runs, so a role that may not ask for the system
// identifier needs a statement without it.
func place(ctx context.Context, q rowQuerier) (p storage.Place, err error) {
	var allowed bool
	if err = q.QueryRow(ctx, `SELECT has_function_privilege('pg_control_system()', 'EXECUTE'), `+databaseOID).Scan(&allowed,
		&p.Database); err == nil && allowed {
		err = q.QueryRow(ctx, `SELECT system_identifier FROM pg_control_system()`).Scan(&p.System)
	}
	return p, err
}

// installed reads the row, where the database is now, and whether the role may ask for the system identifier. One statement, because a pool
// may reach another server with the next. Its parameter is the system identifier.
const installed = `SELECT coalesce(i.id::text, ''), coalesce(i.namespace, ''), coalesce(i.system_identifier, 0), coalesce(i.database_oid, 0),
	%s, ` + databaseOID + `, has_function_privilege('pg_control_system()', 'EXECUTE') FROM (SELECT 1) AS one LEFT JOIN installation i ON true`

var (
	installedUnseen = fmt.Sprintf(installed, "0::bigint")
	installedSeen   = fmt.Sprintf(installed, "(SELECT system_identifier FROM pg_control_system())")
)

const insufficientPrivilege = "42501"

// Installation reads the row, and where the database is now. Every process asks each second.
func (s *Store) Installation(ctx context.Context) (in storage.Installation, err error) {
	for range 2 {
		sees, may, text := s.seesSystem.Load(), false, installedUnseen
		if sees {
			text = installedSeen
		}
		err = s.pool.QueryRow(ctx, text).
			Scan(&in.ID, &in.Namespace, &in.Stored.System, &in.Stored.Database, &in.Live.System, &in.Live.Database, &may)
		var pg *pgconn.PgError
		if refused := errors.As(err, &pg) && pg.Code == insufficientPrivilege; sees == may || err != nil && !refused {
			break
		}
		s.seesSystem.Store(may)
	}
	return in, wrap("read the installation", err)
}

// Install writes the row.
func (s *Store) Install(ctx context.Context, namespace string, replace bool) error {
	return s.inTx(ctx, "write the installation", func(tx pgx.Tx) error {
		p, err := place(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO installation (namespace, system_identifier, database_oid) VALUES ($1, nullif($2, 0::bigint), $3)
			ON CONFLICT (one) DO UPDATE SET id = excluded.id, namespace = excluded.namespace,
				system_identifier = excluded.system_identifier, database_oid = excluded.database_oid WHERE $4`,
			namespace, p.System, p.Database, replace)
		return err
	})
}

// Package migrations holds the schema of the order store for Postgres and for SQLite, and upgrades a database to it.
//
//	db, err := sql.Open("pgx", url)
//	if err := migrations.Postgres(ctx, db); err != nil {
//		return err
//	}
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// ErrOutdated means that the database's schema is older than this program requires.
var ErrOutdated = errors.New("migrations: schema is outdated")

// Postgres applies the missing migrations. Any number of processes may call it concurrently: one applies them, the others wait up to five
// minutes. It needs two connections at once, and works through a pooler that shares server connections between transactions.
func Postgres(ctx context.Context, db *sql.DB) error {
	waiting, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("migrations: lock: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // it only holds the lock
	for _, statement := range []string{
		"SET LOCAL statement_timeout = 0", "SET LOCAL idle_in_transaction_session_timeout = 0",
		fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", lock.DefaultLockID), // that of goose
	} {
		if _, err := tx.ExecContext(waiting, statement); err != nil {
			return fmt.Errorf("migrations: lock: %w", err)
		}
	}
	return up(ctx, goose.DialectPostgres, db)
}

const lockWithin = 5 * time.Minute

// SQLite applies the missing migrations. Only one process may call it at a time: there is no lock besides SQLite's own.
func SQLite(ctx context.Context, db *sql.DB) error { return up(ctx, goose.DialectSQLite3, db) }

// CheckPostgres returns nil if the database has this program's schema. It returns ErrOutdated if a migration is missing, and an
// *IncompleteError if parts of the schema are: constraints that somebody dropped, for example. It changes nothing and needs no permission
// to. A newer schema is accepted, because old processes run with it during a rollout, and so is what an operator added.
func CheckPostgres(ctx context.Context, db *sql.DB) error {
	return check(ctx, goose.DialectPostgres, db, describePostgres, postgresSchema)
}

// CheckSQLite is CheckPostgres for SQLite.
func CheckSQLite(ctx context.Context, db *sql.DB) error {
	return check(ctx, goose.DialectSQLite3, db, describeSQLite, sqliteSchema)
}

func up(ctx context.Context, dialect goose.Dialect, db *sql.DB) error {
	p, err := provider(dialect, db)
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrations: apply: %w", err)
	}
	return nil
}

// versions is the table of applied versions: other applications with goose may have its default table in the same database.
const versions = "tidegate_versions"

func check(ctx context.Context, dialect goose.Dialect, db *sql.DB, describe description, golden string) error {
	p, err := provider(dialect, db)
	if err != nil {
		return err
	}
	sources := p.ListSources()
	want := sources[len(sources)-1].Version
	parts, err := describe(ctx, db) // before the version: a later program may be migrating
	if err != nil {
		return fmt.Errorf("migrations: read the schema: %w", err)
	}
	have, err := version(ctx, dialect, db)
	if err != nil {
		return fmt.Errorf("migrations: read the schema's version: %w", err)
	}
	if have < want {
		upgrade := "migrations.Postgres"
		if dialect == goose.DialectSQLite3 {
			upgrade = "migrations.SQLite"
		}
		return fmt.Errorf("%w: it is at version %d, this program needs %d: start with MIGRATE=true, or run tidegate migrate; a Go program "+
			"calls %s first",
			ErrOutdated, have, want, upgrade)
	}
	return complete(parts, golden, have > want)
}

// version reads the version without goose's provider, which would create its table first.
func version(ctx context.Context, dialect goose.Dialect, db *sql.DB) (int64, error) {
	has := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '" + versions + "'"
	if dialect == goose.DialectPostgres {
		has = "SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace AND relname = '" + versions + "'"
	}
	var found int
	if err := db.QueryRowContext(ctx, has).Scan(&found); err != nil || found == 0 {
		return 0, err
	}
	store, err := database.NewStore(dialect, versions)
	if err != nil {
		return 0, err
	}
	v, err := store.GetLatestVersion(ctx, db)
	if errors.Is(err, database.ErrVersionNotFound) {
		return 0, nil
	}
	return v, err
}

func provider(dialect goose.Dialect, db *sql.DB) (*goose.Provider, error) {
	folder := "sqlite"
	if dialect == goose.DialectPostgres {
		folder = "postgres"
	}
	sub, err := fs.Sub(files, folder)
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	p, err := goose.NewProvider(dialect, db, sub, goose.WithDisableGlobalRegistry(true), goose.WithTableName(versions))
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return p, nil
}

// Package pgclient opens connections to Postgres: only to a server that takes writes, and also through a pooler that shares server
// connections between transactions.
package pgclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidegate/tidegate/migrations"
)

const (
	// MinConns prevents a deadlock: leading a sale's recovery and verifying all sales each hold a connection, and need others meanwhile.
	MinConns     = 4
	DefaultConns = 16
)

// parameters are what a session needs, unless the URL sets others.
var parameters = map[string]string{
	// An order leaves the outbox when its commit returns, so the commit must be on disk by then.
	"synchronous_commit": "on",
	// A statement that takes longer is stuck, and holds a connection that others need.
	"statement_timeout": "30s",
	// Our transactions never pause. That of a stopped process would hold locks that a recovery waits for.
	"idle_in_transaction_session_timeout": "5s",
	"default_transaction_isolation":       isolation,
	// Waiting for a lock is normal, and statement_timeout bounds it.
	"lock_timeout": "0",
}

// isolation is what statements rely on: after waiting for a row they continue with its newest version. With any other, they fail.
const isolation = "read committed"

// always are parameters that poolers accept, and that no URL may change, because package pgx sends and reads text as they say.
var always = map[string]string{"client_encoding": "UTF8", "standard_conforming_strings": "on"}

// Check returns an error if url is not a URL that Open accepts.
func Check(url string) error {
	_, err := parse(url, DefaultConns)
	return err
}

var targetAttrs = regexp.MustCompile(`target_session_attrs=([a-z-]+)`)

func parse(url string, maxConns int32) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, cmp.Or(errors.Unwrap(err), err) // without pgx's copy of the URL
	}
	if m := targetAttrs.FindStringSubmatch(url); m != nil && m[1] != "read-write" && m[1] != "primary" && m[1] != "any" {
		return nil, fmt.Errorf("target_session_attrs=%s selects a standby, and orders have to be written: leave it out", m[1])
	}
	cc := c.ConnConfig
	if level, ok := cc.RuntimeParams["default_transaction_isolation"]; ok && level != isolation {
		return nil, fmt.Errorf("default_transaction_isolation must be %q, got %q: leave it out", isolation, level)
	}
	cc.DescriptionCacheCapacity = max(cc.DescriptionCacheCapacity, 512) // pgx's default; unprepared statements and sqldb.Replan need it
	switch cc.DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return nil, fmt.Errorf("default_query_exec_mode=%s cannot send all types: leave it out, or set cache_describe, which needs no "+
			"prepared statements either",
			strings.ReplaceAll(cc.DefaultQueryExecMode.String(), " ", "_"))
	case pgx.QueryExecModeCacheStatement:
		if cc.StatementCacheCapacity == 0 {
			unprepared(cc)
		}
	case pgx.QueryExecModeCacheDescribe:
		unprepared(cc)
	}
	if !strings.Contains(url, "pool_max_conns=") {
		c.MaxConns = maxConns
	}
	if c.MaxConns < MinConns {
		return nil, fmt.Errorf("pool_max_conns must be at least %d, because leading a recovery holds one connection while others are needed, "+
			"got %d", MinConns, c.MaxConns)
	}
	cc.ConnectTimeout = cmp.Or(cc.ConnectTimeout, 5*time.Second)
	return c, nil
}

// unprepared has statements sent whole, after what they return was asked for once.
func unprepared(c *pgx.ConnConfig) { c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe }

// Open returns a pool that connects only to a server that takes writes, as with target_session_attrs=read-write. It does not connect yet.
// program is the application name, maxConns the most connections of the pool. Behind a pooler that does not set the parameters of
// a session, statements are prepared only if default_query_exec_mode in the URL requests it, and what the server uses instead of
// our parameters is checked. Parameters in the URL take precedence.
func Open(ctx context.Context, url, program string, maxConns int, log *slog.Logger) (*pgxpool.Pool, error) {
	c, err := parse(url, int32(maxConns))
	if err != nil {
		return nil, err
	}
	return open(ctx, c, &pooling{log: log, choose: !strings.Contains(url, "default_query_exec_mode=")}, program, parameters)
}

// Migrate applies the missing migrations, on connections without time limits.
func Migrate(ctx context.Context, url string, log *slog.Logger) error {
	c, err := parse(url, MinConns)
	if err != nil {
		return err
	}
	unprepared(c.ConnConfig) // each statement runs once, so preparing it does not pay
	pool, err := open(ctx, c, &pooling{log: log}, "tidegate-migrate",
		map[string]string{"default_transaction_isolation": isolation, "lock_timeout": "0"})
	if err != nil {
		return err
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	return migrations.Postgres(ctx, db)
}

func open(ctx context.Context, c *pgxpool.Config, p *pooling, program string, parameters map[string]string) (*pgxpool.Pool, error) {
	p.ours = make(map[string]string)
	given := c.ConnConfig.RuntimeParams
	for name, value := range parameters {
		if _, ok := given[name]; !ok {
			given[name], p.ours[name] = value, value
		}
	}
	maps.Copy(given, always)
	given["application_name"] = cmp.Or(given["application_name"], program)
	c.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	c.ConnConfig.OnPgError = p.onError
	c.BeforeConnect = p.beforeConnect
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	p.pool.Store(pool)
	return pool, nil
}

// pooling is what a pool of connections has learned of what is behind its address.
type pooling struct {
	log    *slog.Logger
	choose bool              // the URL leaves it to us whether statements are prepared
	ours   map[string]string // parameters of the session that the URL does not contain
	pool   atomic.Pointer[pgxpool.Pool]

	plain      atomic.Bool // a pooler refuses our parameters
	unprepared atomic.Bool // a pooler may lose prepared statements

	mu     sync.Mutex
	probed bool // guarded by mu
}

// onError returns whether the connection may go on.
func (p *pooling) onError(_ *pgconn.PgConn, err *pgconn.PgError) bool {
	switch err.Code {
	case "25006": // read-only transaction: the server has become a standby, or a pooler has moved on to one
		p.reset()
		return false
	case "26000", "42P05": // a prepared statement does not exist, or exists already: this is another server connection than before
		if !p.choose {
			break
		}
		if !p.unprepared.Swap(true) {
			p.log.Warn("the pooler in front of Postgres loses prepared statements, so they are no longer used: set " +
				"default_query_exec_mode=cache_describe in DATABASE_URL")
		}
		p.reset()
		return false
	}
	fatal := strings.EqualFold(err.Severity, "FATAL")
	for name := range p.ours {
		if fatal && strings.Contains(err.Message, name) {
			p.plain.Store(true)
		}
	}
	return !fatal
}

// reset closes all connections, those in use when they come back.
func (p *pooling) reset() {
	if pool := p.pool.Load(); pool != nil {
		pool.Reset()
	}
}

func (p *pooling) beforeConnect(ctx context.Context, c *pgx.ConnConfig) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.probed {
		if err := p.probe(ctx, c.Copy()); err != nil {
			return err
		}
		p.probed = true
	}
	p.adapt(c)
	return nil
}

// adapt changes the settings to what the pooler allows.
func (p *pooling) adapt(c *pgx.ConnConfig) {
	if p.plain.Load() {
		maps.DeleteFunc(c.RuntimeParams, func(name, _ string) bool { _, ours := p.ours[name]; return ours })
	}
	if p.unprepared.Load() && c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		unprepared(c)
	}
}

// probe finds out whether the server uses our parameters.
func (p *pooling) probe(ctx context.Context, c *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil && p.plain.Load() {
		p.adapt(c)
		conn, err = pgx.ConnectConfig(ctx, c)
	}
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if p.plain.Load() {
		p.unprepared.Store(p.choose)
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(p.ours)) {
		var value string
		if err := conn.QueryRow(ctx, `SHOW `+name, pgx.QueryExecModeSimpleProtocol).Scan(&value); err != nil {
			return err
		}
		if value == p.ours[name] {
			continue
		}
		p.unprepared.Store(p.choose)
		advice := fmt.Sprintf("ALTER ROLE %s SET %s = '%s'", pgx.Identifier{c.User}.Sanitize(), name, p.ours[name])
		if name == "synchronous_commit" && value == "off" {
			return fmt.Errorf("synchronous_commit is off, and the pooler in front of Postgres does not let it be set, so a crash would lose "+
				"confirmed orders: run %s", advice)
		}
		if name == "default_transaction_isolation" {
			return fmt.Errorf("default_transaction_isolation is %s, and the pooler in front of Postgres does not let it be set, so calls that "+
				"arrive at the same time would fail: run %s", value, advice)
		}
		missing = append(missing, advice)
	}
	if missing != nil {
		p.log.WarnContext(ctx, "the pooler in front of Postgres does not set the parameters of a session: set them for the role",
			slog.String("run", strings.Join(missing, "; ")))
	}
	return nil
}

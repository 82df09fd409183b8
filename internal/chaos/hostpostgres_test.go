package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/periodic"
)

// query reads one value from one Postgres host.
func (h *hosts) query(ctx context.Context, host, sql string) (value string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	config, err := pgx.ParseConfig("postgres://tidegate:" + h.password + "@" + h.addr(host) + ":5432/tidegate?sslmode=disable&connect_timeout=10")
	if err != nil {
		return "", err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, sql).Scan(&value)
	return value, err
}

// execute runs one statement on one Postgres host.
func (h *hosts) execute(ctx context.Context, host string, statements ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, "postgres://tidegate:"+h.password+"@"+h.addr(host)+":5432/tidegate?sslmode=disable&connect_timeout=10")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %s: %w", host, statement, err)
		}
	}
	return nil
}

var (
	goesOnAlone = []string{`ALTER SYSTEM SET synchronous_standby_names = ''`, `SELECT pg_reload_conf()`}
	waitsAgain  = []string{`ALTER SYSTEM RESET synchronous_standby_names`, `SELECT pg_reload_conf()`}
)

// primary returns the hosts of the primary and of its standby.
func (h *hosts) primary(ctx context.Context) (primary, standby string, err error) {
	var errs error
	pair := []string{"postgres-1", "postgres-2"}
	for i, host := range pair {
		recovers, err := h.query(ctx, host, `SELECT pg_is_in_recovery()::text`)
		if err == nil && recovers == "false" {
			return host, pair[1-i], nil
		}
		errs = errors.Join(errs, err)
	}
	return "", "", errors.Join(errors.New("no Postgres takes writes"), errs)
}

// replication describes the standby as the primary sees it; "" is none.
func (h *hosts) replication(ctx context.Context, primary string) (string, error) {
	return h.query(ctx, primary, `SELECT coalesce(string_agg(application_name || ' ' || state || ' ' || sync_state, ', '), '') FROM pg_stat_replication WHERE state = 'streaming'`)
}

// postgresWhole makes the primary wait for its standby again, and reports whether it does.
func (h *hosts) postgresWhole(ctx context.Context) error {
	primary, standby, err := h.primary(ctx)
	if err != nil {
		return err
	}
	seen, err := h.replication(ctx, primary)
	switch {
	case err != nil:
		return err
	case seen == standby+" streaming sync":
		return nil
	case seen == standby+" streaming async":
		if err := h.execute(ctx, primary, waitsAgain...); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s has the standby %q, want %s streaming sync", primary, seen, standby)
}

// promote turns the primary off, and makes its standby the primary, which goes on alone.
func (h *hosts) promote(ctx context.Context, primary, standby string) error {
	if err := h.kill(ctx, primary); err != nil { // fencing: it is off for certain before there is another one
		return err
	}
	for until := time.Now().Add(20 * time.Second); ; {
		err := h.execute(ctx, standby, append(goesOnAlone, `SELECT pg_promote(true, 30)`)...)
		if err == nil {
			break
		}
		if time.Now().After(until) || !periodic.Pause(ctx, 200*time.Millisecond) {
			return err
		}
	}
	recovers, err := h.query(ctx, standby, `SELECT pg_is_in_recovery()::text`)
	h.t.Logf("postgres: %s is off; %s promoted: pg_is_in_recovery %s, %v", primary, standby, recovers, err)
	return nil
}

// rejoin waits until a host is the standby of the primary again, and makes the primary wait for it.
func (h *hosts) rejoin(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := h.postgresWhole(ctx)
		if err == nil {
			recovers, err := h.query(ctx, host, `SELECT pg_is_in_recovery()::text`)
			h.t.Logf("postgres: %s is back: pg_is_in_recovery %s, %v", host, recovers, err)
			return nil
		}
		if !periodic.Pause(ctx, 200*time.Millisecond) {
			return fmt.Errorf("%s is no standby: %w", host, err)
		}
	}
}

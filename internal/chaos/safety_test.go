package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/rehearse"
)

// flushed is the maximum delay until a response is in the history's file.
const flushed = 1200 * time.Millisecond

// safe reports whether every order that was answered with 202 still exists if a copy is destroyed now. An order has two copies
// until its commit: one in Redis, one in the memory of the API that accepted it. It uses the crowd's history and the databases,
// not the product.
func (c *cluster) safe(ctx context.Context, copy takes) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	switch copy {
	case anAPI:
		return c.redisHasAll(ctx)
	case redises:
		return c.apisHaveAll(ctx)
	}
	return true
}

// redisHasAll reports whether Redis never lost memory, or has had everything uncommitted since then.
func (c *cluster) redisHasAll(ctx context.Context) bool {
	if c.lost.IsZero() {
		return true
	}
	if time.Since(c.lost) < flushed || time.Now().Before(c.losing) {
		return false
	}
	rdb := c.rdb()
	defer rdb.Close()
	records, err := pendingRecords(ctx, rdb) // first: orders that leave Redis meanwhile are committed
	if err != nil {
		return false
	}
	missing, err := c.uncommitted(ctx, time.Now())
	if err != nil {
		return false
	}
	for _, record := range records {
		var r struct{ ID string }
		if json.Unmarshal(record, &r) == nil {
			delete(missing, r.ID)
		}
	}
	return len(missing) == 0
}

// apisHaveAll reports whether all orders that ended APIs had accepted are committed, and no API is about to end.
func (c *cluster) apisHaveAll(ctx context.Context) bool {
	last := c.hosts.lastEnd()
	for _, api := range c.apis {
		at, ending := api.lastEnd()
		if ending {
			return false
		}
		if at.After(last) {
			last = at
		}
	}
	if last.IsZero() {
		return true
	}
	if time.Since(last) < flushed {
		return false
	}
	missing, err := c.uncommitted(ctx, last)
	return err == nil && len(missing) == 0
}

// uncommitted returns the orders that were answered with 202 before a time and are not in Postgres.
func (c *cluster) uncommitted(ctx context.Context, before time.Time) (map[string]bool, error) {
	answered, err := c.answers.read()
	if err != nil {
		return nil, err
	}
	var ids []string
	for id, at := range answered {
		if at.Before(before) {
			ids = append(ids, id)
		}
	}
	ids = append(ids, c.bought.before(before)...)
	rows, err := c.pool.Query(ctx, questions[0].sql, ids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	missing := make(map[string]bool)
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		missing[id] = true
	}
	return missing, rows.Err()
}

// answers reads the orders that were answered with 202 from a history while it is being written. Only file must be set.
type answers struct {
	file   string
	offset int64
	start  time.Time
	at     map[string]time.Time // time of the first response for each order
}

func (a *answers) read() (map[string]time.Time, error) {
	f, err := os.Open(a.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(a.offset, io.SeekStart); err != nil {
		return nil, err
	}
	if a.at == nil {
		a.at = make(map[string]time.Time)
	}
	for lines := bufio.NewReader(f); ; {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return a.at, nil // the rest of the line is not written yet
		} else if err != nil {
			return nil, err
		}
		a.offset += int64(len(text))
		h, err := rehearse.ReadHistory(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if !h.StartedAt.IsZero() {
			a.start = h.StartedAt
		}
		for _, call := range h.Calls {
			if _, known := a.at[call.OrderID]; call.Outcome == judge.Admitted && !known {
				a.at[call.OrderID] = a.start.Add(call.Ended)
			}
		}
	}
}

package sqlstore

import (
	"context"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Acts returns the acts of operators that history needs, the oldest first.
func (c Conn) Acts(ctx context.Context, room string) (all []store.Act, err error) {
	err = c.each(ctx, `SELECT at, act, actor, reason FROM waiting_acts WHERE room = $1 AND act IN ('hold', 'resume', 'close') ORDER BY n`,
		func(rows sqldb.Row) error {
			var a store.Act
			err := rows.Scan(&a.At, &a.Act, &a.Actor, &a.Reason)
			all = append(all, a)
			return err
		}, room)
	return all, err
}

// ActOf returns what was done with a request id, or nil.
func (c Conn) ActOf(ctx context.Context, room, requestID string) (found *store.Act, err error) {
	err = c.each(ctx, `SELECT act, detail FROM waiting_acts WHERE room = $1 AND request_id = $2`, func(rows sqldb.Row) error {
		found = &store.Act{}
		return rows.Scan(&found.Act, &found.Detail)
	}, room, requestID)
	return found, err
}

// RecordAct stores what an operator did now to a room, which is locked.
func (c Conn) RecordAct(ctx context.Context, room string, a *store.Act) error {
	_, err := c.exec(ctx, `INSERT INTO waiting_acts (room, n, at, act, actor, reason, detail, request_id)
		SELECT $1, coalesce(max(n), 0) + 1, {now ms}, $2, $3, $4, $5, $6 FROM waiting_acts WHERE room = $1`, room, a.Act, a.Actor, a.Reason,
		a.Detail, a.RequestID)
	return err
}

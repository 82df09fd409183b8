package waitingroom

import (
	"context"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/sqldb"
)

// act is what an operator did to a room.
type act struct {
	at                 int64 // Unix ms
	act, actor, reason string
}

// acts returns the acts of operators that history needs, the oldest first.
func (s *Store) acts(ctx context.Context, q sqldb.Conn, room string) (all []act, err error) {
	err = each(ctx, q, `SELECT at, act, actor, reason FROM waiting_acts WHERE room = $1 AND act IN ('hold', 'resume', 'close') ORDER BY n`, func(rows sqldb.Row) error {
		var a act
		err := rows.Scan(&a.at, &a.act, &a.actor, &a.reason)
		all = append(all, a)
		return err
	}, room)
	return all, err
}

// isRepeated reports whether the request has been carried out. It returns an ErrConflict if its id belongs to another one.
func (s *Store) isRepeated(ctx context.Context, tx sqldb.Conn, room, what, detail, requestID string) (again bool, err error) {
	if requestID == "" {
		return false, nil
	}
	var earlier, its string
	if err := each(ctx, tx, `SELECT act, detail FROM waiting_acts WHERE room = $1 AND request_id = $2`, func(rows sqldb.Row) error {
		again = true
		return rows.Scan(&earlier, &its)
	}, room, requestID); err != nil {
		return false, err
	}
	if again && (earlier != what || its != detail) {
		return false, failure.New(ErrConflict, "request_id is of an earlier request, which was not the same")
	}
	return again, nil
}

// recordAct stores what an operator did to a room, which is locked.
func (s *Store) recordAct(ctx context.Context, tx sqldb.Conn, room, what, detail string, by Cause) error {
	_, err := exec(ctx, tx, `INSERT INTO waiting_acts (room, n, at, act, actor, reason, detail, request_id)
		SELECT $1, coalesce(max(n), 0) + 1, {now ms}, $2, $3, $4, $5, $6 FROM waiting_acts WHERE room = $1`, room, what, by.Actor, by.Reason, detail, by.RequestID)
	return err
}

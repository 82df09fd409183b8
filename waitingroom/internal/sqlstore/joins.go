package sqlstore

import (
	"context"
	"encoding/json"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// LockEnd locks and reads the end of a room's queue.
func (c Conn) LockEnd(ctx context.Context, room string) (*store.QueueEnd, error) {
	e := &store.QueueEnd{}
	var lanes string
	if err := c.one(ctx, `UPDATE waiting_tails SET room = room WHERE room = $1 RETURNING joined, gathered, lanes, {now ms}`,
		[]any{&e.Joined, &e.Gathered, &lanes, &e.Now}, room); err != nil {
		return nil, err
	}
	return e, store.Unavailable(json.Unmarshal([]byte(lanes), &e.Lanes))
}

// Add stores joiners, who have their numbers, after the earlier places of some of them were replaced, and the end of the queue.
func (c Conn) Add(ctx context.Context, room string, e *store.QueueEnd, joiners []store.Joiner, replaced []string) error {
	if len(joiners) == 0 {
		return nil
	}
	if len(replaced) > 0 {
		if _, err := c.replanned().exec(ctx, `UPDATE waiting_places SET replaced = 1, changed_at = {now ms} WHERE `+current+` AND subject {texts}`, room,
			replaced); err != nil {
			return err
		}
	}
	if _, err := c.exec(ctx, `INSERT INTO waiting_places (room, seq, lane, lane_seq, subject, account, quantity, joined_at, again)
		SELECT $1, j.seq, j.lane, j.lane_seq, j.subject, j.account, j.quantity, $2, j.again FROM
		{rows $3: seq bigint, lane text, lane_seq bigint, subject text, account text, quantity integer, again integer}`, room, e.Now,
		sqldb.JSON(joiners)); err != nil {
		return err
	}
	most := 0
	for i := range joiners {
		most = max(most, joiners[i].Quantity)
	}
	_, err := c.exec(ctx, `UPDATE waiting_tails SET joined = $2, gathered = $3, most = CASE WHEN most < $4 THEN $4 ELSE most END, lanes = $5 WHERE room = $1`,
		room, e.Joined, e.Gathered, most, sqldb.JSON(e.Lanes))
	return err
}

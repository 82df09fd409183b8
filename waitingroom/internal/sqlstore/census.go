package sqlstore

import (
	"context"
	"encoding/json"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// TakeCensus reads cursors, tail and places of a room in one statement.
func (c Conn) TakeCensus(ctx context.Context, room string) (*store.Census, error) {
	all := &store.Census{ByLane: make(map[string]store.LaneCounts)}
	var s store.Saved
	err := c.replanned().each(ctx, `SELECT r.lanes, t.lanes, t.joined, coalesce(p.lane, ''), count(p.seq), coalesce(min(p.lane_seq), 1), coalesce(max(p.lane_seq), 0),
			count(*) FILTER (WHERE p.turn_rt > 0), count(DISTINCT CASE WHEN p.turn_rt > 0 THEN p.position END), coalesce(max(CASE WHEN p.turn_rt > 0 THEN p.position END), -1),
			count(*) FILTER (WHERE p.turn_rt = 0 AND (p.left_at > 0 OR p.barred <> '' OR p.replaced = 1)),
			coalesce(min(p.seq), 1), coalesce(max(p.seq), 0), count(*) FILTER (WHERE p.replaced = 0),
			(SELECT count(DISTINCT subject) FROM waiting_places WHERE room = $1 AND replaced = 0)
		FROM waiting_rooms r JOIN waiting_tails t ON t.room = r.room LEFT JOIN waiting_places p ON p.room = r.room
		WHERE r.room = $1 GROUP BY r.lanes, t.lanes, t.joined, p.lane`, func(rows sqldb.Row) error {
		var n store.LaneCounts
		var lanes, tails, lane string
		if err := rows.Scan(&lanes, &tails, &all.Joined, &lane, &n.Places, &n.First, &n.Last, &n.Turns, &n.Positions, &n.Highest, &n.Skipped,
			&n.LowestNumber, &n.LastNumber, &n.Current, &all.Subjects); err != nil {
			return err
		}
		all.ByLane[lane] = n
		if err := json.Unmarshal([]byte(lanes), &s.Lanes); err != nil {
			return err
		}
		return readTails(&s, room, tails)
	}, room)
	all.Lanes = s.Lanes
	return all, err
}

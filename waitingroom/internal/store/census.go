package store

import (
	"context"
	"encoding/json"

	"github.com/tidegate/tidegate/internal/sqldb"
)

// LaneCounts are counts of a lane's places.
type LaneCounts struct {
	Places, First, Last       int64 // first and last number in the lane
	Turns, Positions, Highest int64 // of places that had a turn
	Skipped                   int64 // places that left or were barred before
	LowestNumber, LastNumber  int64 // in the room
	Current                   int64 // places that are not replaced
}

// Census is what all rows of a room show of its places at one moment.
type Census struct {
	Lanes    []Lane
	Joined   int64
	ByLane   map[string]LaneCounts // lanes without places are missing
	Subjects int64                 // with a current place
}

// TakeCensus reads cursors, tail and places of a room in one statement.
func (c Conn) TakeCensus(ctx context.Context, room string) (*Census, error) {
	all := &Census{ByLane: make(map[string]LaneCounts)}
	var s Saved
	err := c.each(ctx, `SELECT r.lanes, t.lanes, t.joined, coalesce(p.lane, ''), count(p.seq), coalesce(min(p.lane_seq), 1), coalesce(max(p.lane_seq), 0),
			count(*) FILTER (WHERE p.turn_rt > 0), count(DISTINCT CASE WHEN p.turn_rt > 0 THEN p.position END), coalesce(max(CASE WHEN p.turn_rt > 0 THEN p.position END), -1),
			count(*) FILTER (WHERE p.turn_rt = 0 AND (p.left_at > 0 OR p.barred <> '' OR p.replaced = 1)),
			coalesce(min(p.seq), 1), coalesce(max(p.seq), 0), count(*) FILTER (WHERE p.replaced = 0),
			(SELECT count(DISTINCT subject) FROM waiting_places WHERE room = $1 AND replaced = 0)
		FROM waiting_rooms r JOIN waiting_tails t ON t.room = r.room LEFT JOIN waiting_places p ON p.room = r.room
		WHERE r.room = $1 GROUP BY r.lanes, t.lanes, t.joined, p.lane`, func(rows sqldb.Row) error {
		var n LaneCounts
		var lanes, tails, lane string
		if err := rows.Scan(&lanes, &tails, &all.Joined, &lane, &n.Places, &n.First, &n.Last, &n.Turns, &n.Positions, &n.Highest, &n.Skipped,
			&n.LowestNumber, &n.LastNumber, &n.Current, &all.Subjects); err != nil {
			return err
		}
		all.ByLane[lane] = n
		if err := json.Unmarshal([]byte(lanes), &s.Lanes); err != nil {
			return err
		}
		return s.readTails(room, tails)
	}, room)
	all.Lanes = s.Lanes
	return all, err
}

package waitingroom

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/tidegate/tidegate/internal/sqldb"
)

const placeColumns = `seq, subject, account, quantity, joined_at, position, turn_rt, until_rt, admitted_at, pass_rt, order_id, done_at, left_at, barred,
	replaced, changed_at, again, turn_at, lapsed_at, barred_by, lane, lane_seq`

func scanPlace(rows sqldb.Row) (*place, error) {
	p := &place{}
	return p, rows.Scan(&p.number, &p.subject, &p.user, &p.quantity, &p.joinedAt, &p.position, &p.turnRT, &p.untilRT, &p.admittedAt, &p.passRT,
		&p.orderID, &p.doneAt, &p.leftAt, &p.barred, &p.replaced, &p.changedAt, &p.again, &p.turnAt, &p.lapsedAt, &p.barredBy, &p.lane, &p.laneNumber)
}

// places returns the places of a room that match where, whose arguments follow the room.
func (s *Store) places(ctx context.Context, q sqldb.Conn, room, where string, args ...any) (all []*place, err error) {
	return s.find(ctx, q, `waiting_places WHERE room = $1 AND `+where, append([]any{room}, args...)...)
}

// find returns places from one of the following, or from a part of it.
func (s *Store) find(ctx context.Context, q sqldb.Conn, from string, args ...any) (all []*place, err error) {
	err = each(ctx, q, `SELECT `+placeColumns+` FROM `+from, func(rows sqldb.Row) error {
		p, err := scanPlace(rows)
		all = append(all, p)
		return err
	}, args...)
	return all, err
}

// The arguments are the room, a list, and of lane numbers also the lane.
const (
	ofNumbers     = `{of numbers} WHERE true`
	ofLaneNumbers = `{of lane numbers} WHERE true`
	ofSubjects    = `waiting_places WHERE ` + current + ` AND subject {texts}`
	// current are the places that subjects have now. The room is an expression, so that only the index that begins with the subject can be used.
	current  = `replaced = 0 AND room || '' = $1`
	turnRows = `{rows $3: subject text, position bigint, quantity integer}`
	ofTurns  = current + ` AND waiting_places.subject {subjects} AND waiting_places.subject = j.subject`
)

// active are the places with a turn or pass that ended after the room time in a parameter. All reads of them are in the order of this index, so
// that it is used (see {of numbers}).
func active(since string) string {
	return `(SELECT * FROM waiting_places WHERE room = $1 AND active_rt > 0 AND active_rt > ` + since + ` ORDER BY active_rt LIMIT 1000000000) AS active`
}

// update changes places. One that is replaced meanwhile, by a join, which does not wait for the room's lock, stays as it is.
func (s *Store) update(ctx context.Context, tx sqldb.Conn, room, set string, places []*place) error {
	var subjects []string
	var numbers []int64
	for _, p := range places {
		if !p.replaced {
			subjects, numbers = append(subjects, p.subject), append(numbers, p.number)
		} else if _, err := s.updateOne(ctx, tx, room, p, set, ""); err != nil { // rare
			return err
		}
	}
	if len(subjects) == 0 {
		return nil
	}
	_, err := exec(ctx, tx, `UPDATE waiting_places SET `+set+` WHERE `+current+` AND subject {texts} AND seq {in $3}`, room, subjects, numbers)
	return err
}

// updateOne is update for one place for which a further condition holds. It returns how many it changed. args are from $4 on.
func (s *Store) updateOne(ctx context.Context, tx sqldb.Conn, room string, p *place, set, and string, args ...any) (int64, error) {
	where := current
	if p.replaced {
		where = `room = $1`
	}
	return exec(ctx, tx, `UPDATE waiting_places SET `+set+` WHERE `+where+` AND subject = $2 AND seq = $3`+and, append([]any{room, p.subject, p.number}, args...)...)
}

// bySubject returns the current places of subjects.
func (s *Store) bySubject(ctx context.Context, q sqldb.Conn, room string, subjects []string) (map[string]*place, error) {
	all, err := s.find(ctx, q, ofSubjects, room, subjects)
	found := make(map[string]*place, len(all))
	for _, p := range all {
		found[p.subject] = p
	}
	return found, err
}

// listed calls take with the places of a room's numbers after one up to another, of which it reads what entry needs, and the lanes.
func (s *Store) listed(ctx context.Context, q sqldb.Conn, room string, after, upTo int64, take func(*place) error) error {
	return each(ctx, q, `SELECT seq, lane, lane_seq, subject, joined_at FROM waiting_places WHERE room = $1 AND seq > $2 AND seq <= $3 ORDER BY seq`,
		func(rows sqldb.Row) error {
			p := &place{}
			if err := rows.Scan(&p.number, &p.lane, &p.laneNumber, &p.subject, &p.joinedAt); err != nil {
				return err
			}
			return take(p)
		}, room, after, upTo)
}

// joiner is somebody who gets a place.
type joiner struct {
	Seq      int64  `json:"seq"`
	Lane     string `json:"lane"`
	LaneSeq  int64  `json:"lane_seq"`
	Subject  string `json:"subject"`
	Account  string `json:"account"`
	Quantity int    `json:"quantity"`
	Again    int    `json:"again"`
}

// joins are what became of joiners.
type joins struct {
	places   map[string]*place // current ones by subject, also those that were there; not of those who ask for a lane that the room does not have any more
	fresh    map[string]bool   // whose place is new
	added    []joiner          // with their numbers
	replaced []string          // subjects among them whose earlier place is replaced
	gathered int64             // places with a number up to it are drawn
}

// queueEnd is the end of a room's queue, whose row is locked.
type queueEnd struct {
	joined, gathered int64
	lanes            []laneTail
	startsAt         int64 // of the room; 0: its list is complete
	now              int64
}

// lockEnd locks and reads the end of a room's queue.
func (s *Store) lockEnd(ctx context.Context, tx sqldb.Conn, name string) (*queueEnd, error) {
	e := &queueEnd{}
	if err := each(ctx, tx, `UPDATE waiting_tails SET room = room WHERE room = $1 RETURNING joined, gathered, lanes, {now ms}`, func(rows sqldb.Row) error {
		var lanes string
		if err := rows.Scan(&e.joined, &e.gathered, &lanes, &e.now); err != nil {
			return err
		}
		return json.Unmarshal([]byte(lanes), &e.lanes)
	}, name); err != nil {
		return nil, err
	}
	// As it is while the tail is locked: a view may not know yet that an operator has moved the start. After the end of the list the clock may be set back.
	return e, each(ctx, tx, `SELECT CASE WHEN root <> '' THEN 0 ELSE starts_at END FROM waiting_rooms WHERE room = $1`,
		func(rows sqldb.Row) error { return rows.Scan(&e.startsAt) }, name)
}

// assign gives numbers to the joiners that have no place in places, or one that may be replaced, counts them in their lanes, and adds their places.
func (e *queueEnd) assign(joiners []joiner, places map[string]*place, r *room, now int64) joins {
	all := joins{places: places, fresh: make(map[string]bool)}
	for _, j := range joiners {
		lane := slices.IndexFunc(e.lanes, func(l laneTail) bool { return l.Name == j.Lane })
		if lane < 0 || all.fresh[j.Subject] {
			continue
		}
		if old := places[j.Subject]; old != nil {
			again, ok := r.mayReplace(old, now)
			if !ok {
				continue
			}
			j.Again, all.replaced = again, append(all.replaced, old.subject)
		}
		e.joined++
		e.lanes[lane].Joined++
		j.Seq, j.LaneSeq = e.joined, e.lanes[lane].Joined
		all.added, all.fresh[j.Subject] = append(all.added, j), true
		places[j.Subject] = &place{
			number: j.Seq, lane: j.Lane, laneNumber: j.LaneSeq, subject: j.Subject, user: j.Account, quantity: j.Quantity, joinedAt: e.now, position: -1, again: j.Again,
		}
	}
	if len(all.added) > 0 && e.now < e.startsAt {
		e.gathered = e.joined
		for i := range e.lanes {
			e.lanes[i].Gathered = e.lanes[i].Joined
		}
	}
	all.gathered = e.gathered
	return all
}

// add stores the places that assign has added, and the end of the queue.
func (s *Store) add(ctx context.Context, tx sqldb.Conn, name string, e *queueEnd, all *joins) error {
	if len(all.added) == 0 {
		return nil
	}
	if len(all.replaced) > 0 {
		if _, err := exec(ctx, tx, `UPDATE waiting_places SET replaced = 1, changed_at = {now ms} WHERE `+current+` AND subject {texts}`, name, all.replaced); err != nil {
			return err
		}
	}
	if _, err := exec(ctx, tx, `INSERT INTO waiting_places (room, seq, lane, lane_seq, subject, account, quantity, joined_at, again)
		SELECT $1, j.seq, j.lane, j.lane_seq, j.subject, j.account, j.quantity, $2, j.again FROM
		{rows $3: seq bigint, lane text, lane_seq bigint, subject text, account text, quantity integer, again integer}`, name, e.now, sqldb.JSON(all.added)); err != nil {
		return err
	}
	most := 0
	for i := range all.added {
		most = max(most, all.added[i].Quantity)
	}
	_, err := exec(ctx, tx, `UPDATE waiting_tails SET joined = $2, gathered = $3, most = CASE WHEN most < $4 THEN $4 ELSE most END, lanes = $5 WHERE room = $1`,
		name, e.joined, e.gathered, most, sqldb.JSON(e.lanes))
	return err
}

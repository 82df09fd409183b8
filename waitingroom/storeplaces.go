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

// joins are the places of joiners, by subject.
type joins struct {
	places   map[string]*place // current ones, also those that were there; not of those who ask for a lane that the room does not have any more
	fresh    map[string]bool   // whose place is new
	gathered int64             // places with a number up to it are drawn
}

// join gives numbers to the joiners that have no place, or whose place may be replaced, in one transaction that locks the end of the queue.
// take is called with the lock. replaceable also returns what the new place's again is.
func (s *Store) join(ctx context.Context, name string, take func() []joiner, replaceable func(*place) (again int, ok bool)) (all joins, err error) {
	err = s.inTx(ctx, func(tx sqldb.Conn) error {
		var joined, startsAt, now int64
		var lanes []laneTail
		if err := each(ctx, tx, `UPDATE waiting_tails SET room = room WHERE room = $1 RETURNING joined, gathered, lanes, {now ms}`, func(rows sqldb.Row) error {
			var text string
			if err := rows.Scan(&joined, &all.gathered, &text, &now); err != nil {
				return err
			}
			return json.Unmarshal([]byte(text), &lanes)
		}, name); err != nil {
			return err
		}
		joiners := take()
		if len(joiners) == 0 {
			return nil
		}
		// As it is while the tail is locked: a view may not know yet that an operator has moved the start. After the end of the list the clock may be set back.
		if err := each(ctx, tx, `SELECT CASE WHEN root <> '' THEN 0 ELSE starts_at END FROM waiting_rooms WHERE room = $1`, func(rows sqldb.Row) error { return rows.Scan(&startsAt) }, name); err != nil {
			return err
		}
		subjects := make([]string, len(joiners))
		for i := range joiners {
			subjects[i] = joiners[i].Subject
		}
		if all.places, err = s.bySubject(ctx, tx, name, subjects); err != nil {
			return err
		}
		var added []joiner
		var replaced []string
		added, replaced, all.fresh = assignNumbers(joiners, lanes, joined, now, all.places, replaceable)
		if len(added) == 0 {
			return nil
		}
		if len(replaced) > 0 {
			if _, err := exec(ctx, tx, `UPDATE waiting_places SET replaced = 1, changed_at = {now ms} WHERE `+current+` AND subject {texts}`, name, replaced); err != nil {
				return err
			}
		}
		if _, err := exec(ctx, tx, `INSERT INTO waiting_places (room, seq, lane, lane_seq, subject, account, quantity, joined_at, again)
			SELECT $1, j.seq, j.lane, j.lane_seq, j.subject, j.account, j.quantity, $2, j.again FROM
			{rows $3: seq bigint, lane text, lane_seq bigint, subject text, account text, quantity integer, again integer}`, name, now, sqldb.JSON(added)); err != nil {
			return err
		}
		joined += int64(len(added))
		most := 0
		for i := range added {
			most = max(most, added[i].Quantity)
		}
		if now < startsAt {
			all.gathered = joined
			for i := range lanes {
				lanes[i].Gathered = lanes[i].Joined
			}
		}
		_, err = exec(ctx, tx, `UPDATE waiting_tails SET joined = $2, gathered = $3, most = CASE WHEN most < $4 THEN $4 ELSE most END, lanes = $5 WHERE room = $1`,
			name, joined, all.gathered, most, sqldb.JSON(lanes))
		return err
	})
	return all, err
}

// assignNumbers gives numbers after joined to the joiners that have no place in places, or one that may be replaced, counts them in their lanes,
// and adds their places. It returns those joiners, the subjects among them whose place is replaced, and all of them as a set.
func assignNumbers(
	joiners []joiner, lanes []laneTail, joined, now int64, places map[string]*place, replaceable func(*place) (again int, ok bool),
) (added []joiner, replaced []string, fresh map[string]bool) {
	fresh = make(map[string]bool)
	for _, j := range joiners {
		if fresh[j.Subject] {
			continue
		}
		lane := slices.IndexFunc(lanes, func(l laneTail) bool { return l.Name == j.Lane })
		if lane < 0 {
			continue
		}
		if old := places[j.Subject]; old != nil {
			again, ok := replaceable(old)
			if !ok {
				continue
			}
			j.Again, replaced = again, append(replaced, old.subject)
		}
		joined++
		lanes[lane].Joined++
		j.Seq, j.LaneSeq = joined, lanes[lane].Joined
		added, fresh[j.Subject] = append(added, j), true
		places[j.Subject] = &place{
			number: j.Seq, lane: j.Lane, laneNumber: j.LaneSeq, subject: j.Subject, user: j.Account, quantity: j.Quantity, joinedAt: now, position: -1, again: j.Again,
		}
	}
	return added, replaced, fresh
}

package sqlstore

import (
	"context"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

const placeColumns = `seq, subject, account, quantity, joined_at, position, turn_rt, until_rt, admitted_at, pass_rt, order_id, done_at, left_at, barred,
	replaced, changed_at, again, turn_at, lapsed_at, barred_by, lane, lane_seq`

// places returns the places of a room that match where, whose arguments follow the room.
func (c Conn) places(ctx context.Context, room, where string, args ...any) ([]*store.Place, error) {
	return c.find(ctx, `waiting_places WHERE room = $1 AND `+where, append([]any{room}, args...)...)
}

// find returns places from one of the following, or from a part of it.
func (c Conn) find(ctx context.Context, from string, args ...any) (all []*store.Place, err error) {
	err = c.replanned().each(ctx, `SELECT `+placeColumns+` FROM `+from, func(rows sqldb.Row) error {
		p := &store.Place{}
		all = append(all, p)
		return rows.Scan(&p.Number, &p.Subject, &p.User, &p.Quantity, &p.JoinedAt, &p.Position, &p.TurnRT, &p.UntilRT, &p.AdmittedAt, &p.PassRT,
			&p.OrderID, &p.DoneAt, &p.LeftAt, &p.Barred, &p.Replaced, &p.ChangedAt, &p.Again, &p.TurnAt, &p.LapsedAt, &p.BarredBy, &p.Lane,
			&p.LaneNumber)
	}, args...)
	return all, err
}

// The arguments are the room, a list, and of lane numbers also the lane.
const (
	ofNumbers     = `{of numbers} WHERE true`
	ofLaneNumbers = `{of lane numbers} WHERE true`
	ofSubjects    = `waiting_places WHERE ` + current + ` AND subject {texts}`
	// current are the places that subjects have now. The room is an expression, so that only the index that begins with the subject
	// can be used.
	current  = `replaced = 0 AND room || '' = $1`
	turnRows = `{rows $3: subject text, position bigint, quantity integer}`
	ofTurns  = current + ` AND waiting_places.subject {subjects} AND waiting_places.subject = j.subject`
	// live are places that can have a turn. Not replaced = 0: without statistics Postgres would prefer the partial index by subject,
	// and read the whole room.
	live = `left_at = 0 AND barred = '' AND replaced < 1`
)

// active are the places with a turn or pass that ended after the room time in a parameter. All reads of them are in the order of
// this index, so that it is used (see {of numbers}).
func active(since string) string {
	return `(SELECT * FROM waiting_places WHERE room = $1 AND active_rt > 0 AND active_rt > ` + since + ` ORDER BY active_rt LIMIT 1000000000) AS active`
}

// BySubject returns the current places of subjects.
func (c Conn) BySubject(ctx context.Context, room string, subjects []string) (map[string]*store.Place, error) {
	all, err := c.find(ctx, ofSubjects, room, subjects)
	found := make(map[string]*store.Place, len(all))
	for _, p := range all {
		found[p.Subject] = p
	}
	return found, err
}

// ByNumber returns the place with a number, or nil.
func (c Conn) ByNumber(ctx context.Context, room string, number int64) (*store.Place, error) {
	found, err := c.find(ctx, ofNumbers, room, sqldb.JSON([]int64{number}))
	if err != nil || len(found) != 1 {
		return nil, err
	}
	return found[0], nil
}

// Unfinished returns those of some numbers that were not given up, and are neither done nor barred.
func (c Conn) Unfinished(ctx context.Context, room string, numbers []int64) ([]*store.Place, error) {
	return c.find(ctx, ofNumbers+` AND left_at = 0 AND done_at = 0 AND barred = ''`, room, sqldb.JSON(numbers))
}

// ByLaneNumber returns the places with numbers of a lane.
func (c Conn) ByLaneNumber(ctx context.Context, room, lane string, numbers []int64) ([]*store.Place, error) {
	return c.find(ctx, ofLaneNumbers, room, sqldb.JSON(numbers), lane)
}

// Live returns those of some numbers of a lane that can have a turn.
func (c Conn) Live(ctx context.Context, room, lane string, numbers []int64) ([]*store.Place, error) {
	return c.find(ctx, ofLaneNumbers+` AND `+live, room, sqldb.JSON(numbers), lane)
}

// NextLive returns the first places with numbers of a lane after one up to another that can have a turn.
func (c Conn) NextLive(ctx context.Context, room, lane string, after, upTo int64, most int) ([]*store.Place, error) {
	return c.places(ctx, room, `lane = $2 AND lane_seq > $3 AND lane_seq <= $4 AND `+live+` ORDER BY lane_seq LIMIT $5`, lane, after, upTo,
		most)
}

// After returns the places with numbers after one, of a subject if it is not empty.
func (c Conn) After(ctx context.Context, room, subject string, after int64, most int) ([]*store.Place, error) {
	if subject != "" {
		return c.places(ctx, room, `seq > $2 AND subject = $4 ORDER BY seq LIMIT $3`, after, most, subject)
	}
	return c.places(ctx, room, `seq > $2 ORDER BY seq LIMIT $3`, after, most)
}

// Listed calls take with the places of a room's numbers after one up to another, of which it reads what the list of a draw needs,
// and the lanes.
func (c Conn) Listed(ctx context.Context, room string, after, upTo int64, take func(*store.Place) error) error {
	return c.replanned().each(ctx, `SELECT seq, lane, lane_seq, subject, joined_at FROM waiting_places WHERE room = $1 AND seq > $2 AND seq <= $3 ORDER BY seq`,
		func(rows sqldb.Row) error {
			p := &store.Place{}
			if err := rows.Scan(&p.Number, &p.Lane, &p.LaneNumber, &p.Subject, &p.JoinedAt); err != nil {
				return err
			}
			return take(p)
		}, room, after, upTo)
}

// Gone returns places that changed after a time: those that were given up, replaced or barred before their turn, and those whose
// pass would be valid at the room time but was given up or, with done, is done.
func (c Conn) Gone(ctx context.Context, room string, since, rt int64, done bool) ([]*store.Place, error) {
	return c.places(ctx, room, `changed_at > 0 AND changed_at > $2
		AND (turn_rt = 0 AND (replaced = 1 OR left_at > 0 OR barred <> '') OR pass_rt > $3 AND (left_at > 0 OR done_at > 0 AND $4 = 1)) ORDER BY changed_at`,
		since, rt, boolToInt(done))
}

// Passes returns the places with a pass that ended after a room time, and was neither used nor given up.
func (c Conn) Passes(ctx context.Context, room string, since int64) ([]*store.Place, error) {
	return c.places(ctx, room, `active_rt > 0 AND active_rt > $2 AND admitted_at > 0 AND done_at = 0 AND left_at = 0 ORDER BY active_rt`,
		since)
}

// CountPasses returns how many admitted places can use their pass at a room time.
func (c Conn) CountPasses(ctx context.Context, room string, rt int64) (n int64, err error) {
	err = c.replanned().one(ctx, `SELECT count(*) FROM `+active("$2")+`
		WHERE admitted_at > 0 AND pass_rt > $2 AND done_at = 0 AND left_at = 0`, []any{&n}, room, rt)
	return n, err
}

// CountAdmitted returns how many of the places that were active after a room time were admitted after a time.
func (c Conn) CountAdmitted(ctx context.Context, room string, since, at int64) (n int64, err error) {
	err = c.replanned().one(ctx, `SELECT count(*) FROM `+active("$2")+` WHERE admitted_at > $3`, []any{&n}, room, since, at)
	return n, err
}

// Expired returns the places whose pass is over at a room time, the highest numbers first.
func (c Conn) Expired(ctx context.Context, room string, rt int64, most int) ([]*store.Place, error) {
	return c.places(ctx, room, `admitted_at > 0 AND pass_rt <= $2 ORDER BY seq DESC LIMIT $3`, rt, most)
}

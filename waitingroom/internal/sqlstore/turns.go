package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// update changes places. One that is replaced meanwhile, by a join, which does not wait for the room's lock, stays as it is.
func (c Conn) update(ctx context.Context, room, set string, places []*store.Place) error {
	var subjects []string
	var numbers []int64
	for _, p := range places {
		if !p.Replaced {
			subjects, numbers = append(subjects, p.Subject), append(numbers, p.Number)
		} else if _, err := c.updateOne(ctx, room, p, set, ""); err != nil { // rare
			return err
		}
	}
	if len(subjects) == 0 {
		return nil
	}
	_, err := c.replanned().exec(ctx, `UPDATE waiting_places SET `+set+` WHERE `+current+` AND subject {texts} AND seq {in $3}`, room, subjects, numbers)
	return err
}

// updateOne is update for one place for which a further condition holds. It reports whether it changed it. args are from $4 on.
func (c Conn) updateOne(ctx context.Context, room string, p *store.Place, set, and string, args ...any) (bool, error) {
	where := current
	if p.Replaced {
		where = `room = $1`
	}
	n, err := c.replanned().exec(ctx, `UPDATE waiting_places SET `+set+` WHERE `+where+` AND subject = $2 AND seq = $3`+and,
		append([]any{room, p.Subject, p.Number}, args...)...)
	return n > 0, err
}

const turnsAtOnce = 500 // Postgres may compare each turn with each place

// GiveTurns gives turns from a room time until another.
func (c Conn) GiveTurns(ctx context.Context, room string, turns []store.Turn, rt, untilRT int64) error {
	for part := range slices.Chunk(turns, turnsAtOnce) {
		if _, err := c.replanned().exec(ctx, `UPDATE waiting_places SET position = j.position, quantity = j.quantity, turn_rt = $2, until_rt = $4, active_rt = $4, turn_at = {now ms}, changed_at = {now ms}
		FROM `+turnRows+` WHERE `+ofTurns, room, rt, sqldb.JSON(part), untilRT); err != nil {
			return err
		}
	}
	return nil
}

// Bar bars the current places of subjects.
func (c Conn) Bar(ctx context.Context, room string, subjects []string, why, by string) error {
	_, err := c.replanned().exec(ctx, `UPDATE waiting_places SET barred = $3, barred_by = $4, changed_at = {now ms} WHERE `+current+` AND subject {texts}`, room, subjects, why, by)
	return err
}

// Admit admits a place. It returns false if a join has replaced the place.
func (c Conn) Admit(ctx context.Context, room string, p *store.Place, at, passRT int64) (bool, error) {
	return c.updateOne(ctx, room, p, `admitted_at = $4, pass_rt = $5, active_rt = $5, changed_at = {now ms}`, "", at, passRT)
}

// ProlongTurn sets the room time at which the turn of a place is over.
func (c Conn) ProlongTurn(ctx context.Context, room string, p *store.Place, untilRT int64) error {
	_, err := c.updateOne(ctx, room, p, `until_rt = $4, active_rt = $4`, "", untilRT)
	return err
}

// Leave gives up places.
func (c Conn) Leave(ctx context.Context, room string, places []*store.Place) error {
	return c.update(ctx, room, `left_at = {now ms}, changed_at = {now ms}`, places)
}

// Ordered sets a place to done with its order, at a room time.
func (c Conn) Ordered(ctx context.Context, room string, p *store.Place, order string, rt int64) error {
	_, err := c.updateOne(ctx, room, p, `done_at = {now ms}, order_id = $4, changed_at = {now ms}, `+uncounted(5), "", order, rt)
	return err
}

// Finish sets a place to done if it is admitted at a room time. It returns false if it is not.
func (c Conn) Finish(ctx context.Context, room string, p *store.Place, rt int64) (bool, error) {
	return c.updateOne(ctx, room, p, `done_at = {now ms}, changed_at = {now ms}, `+uncounted(4),
		` AND admitted_at > 0 AND pass_rt > $4 AND done_at = 0 AND left_at = 0 AND barred = ''`, rt)
}

// uncounted returns the assignment that ends the activity of a place that is done, at the room time of a parameter. Statistics of its turn
// still need the place for a while; the rest of its pass would only cost every tick and claim.
func uncounted(roomTime int) string {
	return fmt.Sprintf("active_rt = CASE WHEN until_rt > $%d THEN until_rt ELSE $%[1]d END", roomTime)
}

// Count counts the places of a room.
func (c Conn) Count(ctx context.Context, room string, m store.Moments) (store.Counts, error) {
	const (
		waits  = `admitted_at = 0 AND left_at = 0 AND barred = '' AND until_rt > $2`
		passes = `admitted_at > 0 AND done_at = 0 AND left_at = 0 AND pass_rt > $3`
		past   = `turn_rt <= $4 AND turn_rt > $5`
		over   = `until_rt <= $2 AND until_rt > $6`
	)
	var n store.Counts
	err := c.replanned().one(ctx, `SELECT
			count(*) FILTER (WHERE `+waits+`), coalesce(sum(quantity) FILTER (WHERE `+waits+`), 0),
			count(*) FILTER (WHERE `+passes+`), coalesce(sum(quantity) FILTER (WHERE `+passes+`), 0),
			count(*) FILTER (WHERE admitted_at > $7), count(*) FILTER (WHERE `+waits+` AND turn_rt > $4),
			count(*) FILTER (WHERE `+past+`), count(*) FILTER (WHERE `+past+` AND admitted_at > 0),
			count(*) FILTER (WHERE `+over+`), count(*) FILTER (WHERE `+over+` AND admitted_at > 0),
			count(*) FILTER (WHERE `+lapses+`)
		FROM `+active("$5"), []any{
		&n.Open, &n.OpenUnits, &n.Active, &n.ActiveUnits, &n.Claimed, &n.Fresh, &n.Given, &n.Taken, &n.Over, &n.Used, &n.Lapsing,
	}, room, m.Now, m.PassOver, m.Fresh, m.Past, m.Over, m.ClaimedAfter)
	return n, err
}

// lapses selects places whose turn or pass is over, and which are not recorded as such.
const lapses = `active_rt <= $2 AND lapsed_at = 0 AND done_at = 0 AND left_at = 0 AND barred = ''`

// Lapse records places as lapsed whose turn or pass ended between two room times. It leaves those that are locked to the next
// call, because the lock may be that of somebody who joins again, who waits for other places of this transaction.
func (c Conn) Lapse(ctx context.Context, room string, since, rt int64) error {
	over, err := c.places(ctx, room, `active_rt > 0 AND active_rt > $3 AND `+lapses+` ORDER BY active_rt {unlocked}`, rt, since)
	if err != nil {
		return err
	}
	return c.update(ctx, room, `lapsed_at = {now ms}`, over)
}

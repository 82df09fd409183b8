package catalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
)

// A Call is a call of a script whose keys are an item's, and its leader's.
type Call struct {
	Item *Item
	Args []any
}

// RunAll runs a script that may run twice for many items, and returns the reply to each call. A round trip without an answer is
// tried tripTries times; then all further calls have its error and are not sent.
func (w *Watch) RunAll(ctx context.Context, script *redisscript.Script, calls []Call) []redisscript.Reply {
	return w.RunMany(ctx, script, calls, core.TripTries, true)
}

// RunMany is runAll with another number of tries. If giveUp is false, further calls are tried once after a round trip that got no
// answer: other servers may.
func (w *Watch) RunMany(ctx context.Context, script *redisscript.Script, calls []Call, tries int, giveUp bool) []redisscript.Reply {
	replies := make([]redisscript.Reply, 0, len(calls))
	for trip := range slices.Chunk(calls, core.PerTrip) {
		some, answered := w.runTrip(ctx, script, trip, tries, nil)
		replies = append(replies, some...)
		if answered {
			continue
		}
		if tries = 1; giveUp {
			break
		}
	}
	if left := len(calls) - len(replies); left > 0 {
		failed := replies[slices.IndexFunc(replies, Unanswered)]
		replies = append(replies, slices.Repeat([]redisscript.Reply{failed}, left)...)
	}
	return replies
}

// RunThen is RunMany with one try. The commands that then adds share the last round trip, whose calls come before them.
func (w *Watch) RunThen(
	ctx context.Context, script *redisscript.Script, calls []Call, then func(redis.Pipeliner),
) []redisscript.Reply {
	last := max(0, len(calls)-1) / core.PerTrip * core.PerTrip
	replies := w.RunMany(ctx, script, calls[:last], 1, false)
	some, _ := w.runTrip(ctx, script, calls[last:], 1, then)
	return append(replies, some...)
}

// runTrip is RunMany for one round trip, and reports whether every call got an answer. then, if it is not nil, adds commands.
func (w *Watch) runTrip(
	ctx context.Context, script *redisscript.Script, calls []Call, tries int, then func(redis.Pipeliner),
) (replies []redisscript.Reply, answered bool) {
	replies = make([]redisscript.Reply, len(calls))
	send := func(load bool, due func(redisscript.Reply) bool) {
		cmds := make([]*redis.Cmd, len(calls))
		_, _ = w.Base.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its error
			for i, call := range calls {
				if due(replies[i]) {
					cmds[i] = script.Queue(ctx, p, load, call.Item.KeysWithLead(), call.Args)
				}
			}
			if then != nil {
				then(p)
				then = nil
			}
			return nil
		})
		for i, cmd := range cmds {
			if cmd != nil {
				replies[i] = redisscript.ReplyOf(cmd)
			}
		}
	}
	due := func(redisscript.Reply) bool { return true }
	for try := 1; ; try++ {
		send(false, due)
		due = Unanswered
		if slices.ContainsFunc(replies, redisscript.Reply.Unknown) { // the server has it for the next trip
			send(true, redisscript.Reply.Unknown)
		}
		if answered = !slices.ContainsFunc(replies, Unanswered); answered || try >= tries || ctx.Err() != nil {
			return replies, answered
		}
	}
}

// Unanswered reports whether a call got no reply of the server.
func Unanswered(r redisscript.Reply) bool { return core.NotOfServer(r.Err()) }

// Lost is the error of a reply, which is forgotten if it is empty.
func (w *Watch) Lost(ci *Item, r redisscript.Reply) error {
	if r.Err() == nil && r.Len() == 0 {
		return w.Forgotten(ci)
	}
	return r.Err()
}

// Forgotten is the error for an item that Redis has lost or damaged: its sale is checked, and rebuilt.
func (w *Watch) Forgotten(ci *Item) error {
	w.Suspects.Add(ci.Sale.ID, 0)
	return fmt.Errorf("%w: Redis has lost item %s/%s, or part of it", orders.ErrRecovering, ci.Sale.ID, ci.Item.ID)
}

// Damaged is forgotten for damage that the check would not find: the sale is rebuilt in any case, if it is still in this epoch.
func (w *Watch) Damaged(ci *Item) error {
	w.Suspects.Add(ci.Sale.ID, ci.Sale.Epoch)
	return fmt.Errorf("%w: an entry of item %s/%s in Redis cannot be read", orders.ErrRecovering, ci.Sale.ID, ci.Item.ID)
}

// configure updates items in Redis to the catalog's revision, and returns the errors in the same order.
func (w *Watch) configure(ctx context.Context, items []*Item) []error {
	calls := make([]Call, len(items))
	for i, ci := range items {
		calls[i] = Call{ci, append([]any{ci.Sale.Revision, core.ForgetAt(&ci.Sale.Sale).UnixMilli()}, ci.Settings()...)}
	}
	errs := make([]error, len(items))
	for i, reply := range w.RunAll(ctx, lua.Configure, calls) {
		n := reply.Int()
		if errs[i] = core.Unavailable(reply.Err()); n < 0 {
			errs[i] = w.Forgotten(items[i])
		}
	}
	return errs
}

// Definition returns the fields of the hash of an item that is new to a server.
func (w *Watch) Definition(ctx context.Context, ci *Item, runs ServerRuns) ([]any, error) {
	run, err := w.runOf(ctx, ci.Keys[core.ItemKey], runs)
	if err != nil {
		return nil, err
	}
	return append(ci.Settings(), "server", run, "revision", ci.Sale.Revision), nil
}

// Settings returns the fields of an item's hash that the operator sets.
func (ci *Item) Settings() []any {
	return []any{
		"switch", string(ci.Sale.Switch),
		"starts", ci.Sale.StartsAt.UnixMilli(),
		"ends", ci.Sale.EndsAt.UnixMilli(),
		"stock", ci.Item.Stock,
		"quota", ci.Item.QuotaPerBuyer,
		"in_flight_max", ci.Item.InFlightMax,
		"room", ci.Item.Room,
	}
}

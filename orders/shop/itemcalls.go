package shop

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
)

// An itemCall is a call of a script whose keys are an item's, and its leader's.
type itemCall struct {
	item *cachedItem
	args []any
}

// runAll runs a script that may run twice for many items, and returns the reply to each call. A round trip without an answer is
// tried tripTries times; then all further calls have its error and are not sent.
func (w *catalogWatch) runAll(ctx context.Context, script *redisscript.Script, calls []itemCall) []redisscript.Reply {
	return w.runMany(ctx, script, calls, tripTries, true)
}

// runMany is runAll with another number of tries. If giveUp is false, further calls are tried once after a round trip that got no answer: other servers
// may.
func (w *catalogWatch) runMany(ctx context.Context, script *redisscript.Script, calls []itemCall, tries int, giveUp bool) []redisscript.Reply {
	replies := make([]redisscript.Reply, 0, len(calls))
	for trip := range slices.Chunk(calls, perTrip) {
		some, answered := w.runTrip(ctx, script, trip, tries)
		replies = append(replies, some...)
		if answered {
			continue
		}
		if tries = 1; giveUp {
			break
		}
	}
	if left := len(calls) - len(replies); left > 0 {
		failed := replies[slices.IndexFunc(replies, unanswered)]
		replies = append(replies, slices.Repeat([]redisscript.Reply{failed}, left)...)
	}
	return replies
}

// runTrip is runMany for one round trip, and reports whether every call got an answer.
func (w *catalogWatch) runTrip(ctx context.Context, script *redisscript.Script, calls []itemCall, tries int) (replies []redisscript.Reply, answered bool) {
	replies = make([]redisscript.Reply, len(calls))
	send := func(load bool, due func(redisscript.Reply) bool) {
		cmds := make([]*redis.Cmd, len(calls))
		_, _ = w.base.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its error
			for i, call := range calls {
				if due(replies[i]) {
					cmds[i] = script.Queue(ctx, p, load, call.item.keysWithLead(), call.args)
				}
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
		due = unanswered
		if slices.ContainsFunc(replies, redisscript.Reply.Unknown) { // the server has it for the next trip
			send(true, redisscript.Reply.Unknown)
		}
		if answered = !slices.ContainsFunc(replies, unanswered); answered || try >= tries || ctx.Err() != nil {
			return replies, answered
		}
	}
}

// unanswered reports whether a call got no reply of the server.
func unanswered(r redisscript.Reply) bool { return notOfServer(r.Err()) }

// lost is the error of a reply, which is forgotten if it is empty.
func (w *catalogWatch) lost(ci *cachedItem, r redisscript.Reply) error {
	if r.Err() == nil && r.Len() == 0 {
		return w.forgotten(ci)
	}
	return r.Err()
}

// forgotten is the error for an item that Redis has lost or damaged: its sale is checked, and rebuilt.
func (w *catalogWatch) forgotten(ci *cachedItem) error {
	w.suspects.add(ci.sale.ID, 0)
	return fmt.Errorf("%w: Redis has lost item %s/%s, or part of it", orders.ErrRecovering, ci.sale.ID, ci.item.ID)
}

// damaged is forgotten for damage that the check would not find: the sale is rebuilt in any case, if it is still in this epoch.
func (w *catalogWatch) damaged(ci *cachedItem) error {
	w.suspects.add(ci.sale.ID, ci.sale.Epoch)
	return fmt.Errorf("%w: an entry of item %s/%s in Redis cannot be read", orders.ErrRecovering, ci.sale.ID, ci.item.ID)
}

// configure updates items in Redis to the catalog's revision, and returns the errors in the same order.
func (w *catalogWatch) configure(ctx context.Context, items []*cachedItem) []error {
	calls := make([]itemCall, len(items))
	for i, ci := range items {
		calls[i] = itemCall{ci, append([]any{ci.sale.Revision, forgetAt(&ci.sale.Sale).UnixMilli()}, ci.settings()...)}
	}
	errs := make([]error, len(items))
	for i, reply := range w.runAll(ctx, configureScript, calls) {
		n := reply.Int()
		if errs[i] = unavailable(reply.Err()); n < 0 {
			errs[i] = w.forgotten(items[i])
		}
	}
	return errs
}

// definition returns the fields of the hash of an item that is new to a server.
func (w *catalogWatch) definition(ctx context.Context, ci *cachedItem, runs serverRuns) ([]any, error) {
	run, err := w.runOf(ctx, ci.keys[itemKey], runs)
	if err != nil {
		return nil, err
	}
	return append(ci.settings(), "server", run, "revision", ci.sale.Revision), nil
}

// settings returns the fields of an item's hash that the operator sets.
func (ci *cachedItem) settings() []any {
	return []any{
		"switch", string(ci.sale.Switch),
		"starts", ci.sale.StartsAt.UnixMilli(),
		"ends", ci.sale.EndsAt.UnixMilli(),
		"stock", ci.item.Stock,
		"quota", ci.item.QuotaPerBuyer,
		"in_flight_max", ci.item.InFlightMax,
		"room", ci.item.Room,
	}
}

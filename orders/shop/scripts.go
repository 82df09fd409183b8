package shop

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
)

//go:embed lua/*.lua
var lua embed.FS

var (
	reserveScript   = script("reserve")
	settleScript    = script("settle")
	rejectScript    = script("reject")
	returnScript    = script("return")
	reassignScript  = script("reassign")
	claimScript     = script("claim")
	snapshotScript  = script("snapshot")
	lookScript      = script("look")
	configureScript = script("configure")
	leadScript      = script("lead")
	sealScript      = script("seal")
	loadScript      = script("load")
	openScript      = script("open")
	dropScript      = script("drop")
	introduceScript = script("introduce")
	verifyScript    = script("verify")
	findScript      = script("find")
	heldScript      = script("held")
	admitScript     = script("admit")
	supplyScript    = script("supply")
)

func script(name string) *redisscript.Script {
	return redisscript.Repeatable("orders "+name, redisscript.Join(lua, "try", "lua/prelude", "lua/"+name))
}

// perTrip is how many commands or scripts are sent in one round trip. Its timeout is meant for one answer: a slow server would never answer a
// thousand in time, however often they are repeated.
const perTrip = 100

// fullAtOnce is perTrip for replies with uncommitted orders, of which an item may have thousands.
const fullAtOnce = 16

// tripTries is how often a round trip is tried where it is one of many, or no request waits. Otherwise a server that is late once in a hundred round
// trips would never have all items of a large sale.
const tripTries = 5

// triesFor returns how often a round trip for a request is tried that asks for n items.
func triesFor(n int) int {
	if n > perTrip {
		return tripTries
	}
	return 1
}

// pipelined sends what add adds for 0 to n-1, and returns the first error. Each command has its own. What gets no answer may be added and sent again.
func (c *core) pipelined(ctx context.Context, n int, add func(p redis.Pipeliner, i int)) (err error) {
	tries := triesFor(n)
	for from := 0; from < n; from += perTrip {
		for try := 1; ; try++ {
			_, failed := c.base.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i := from; i < min(from+perTrip, n); i++ {
					add(p, i)
				}
				return nil
			})
			if notOfServer(failed) && try < tries && ctx.Err() == nil {
				continue
			}
			if notOfServer(failed) {
				tries = 1 // the server does not answer
			}
			err = cmp.Or(err, failed)
			break
		}
	}
	return err
}

// An itemCall is a call of a script whose keys are an item's, and its leader's.
type itemCall struct {
	item *cachedItem
	args []any
}

// runAll runs a script that may run twice for many items, and returns the reply to each call. A round trip without an answer is
// tried tripTries times; then all further calls have its error and are not sent.
func (c *core) runAll(ctx context.Context, script *redisscript.Script, calls []itemCall) []redisscript.Reply {
	return c.runMany(ctx, script, calls, tripTries, true)
}

// runMany is runAll with another number of tries. If giveUp is false, further calls are tried once after a round trip that got no answer: other servers
// may.
func (c *core) runMany(ctx context.Context, script *redisscript.Script, calls []itemCall, tries int, giveUp bool) []redisscript.Reply {
	replies := make([]redisscript.Reply, 0, len(calls))
	for trip := range slices.Chunk(calls, perTrip) {
		some, answered := c.runTrip(ctx, script, trip, tries)
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
func (c *core) runTrip(ctx context.Context, script *redisscript.Script, calls []itemCall, tries int) (replies []redisscript.Reply, answered bool) {
	replies = make([]redisscript.Reply, len(calls))
	send := func(load bool, due func(redisscript.Reply) bool) {
		cmds := make([]*redis.Cmd, len(calls))
		_, _ = c.base.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its error
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

// notOfServer reports whether an error is not the server's.
func notOfServer(err error) bool {
	var reply redis.Error
	return err != nil && !errors.As(err, &reply)
}

// lost is the error of a reply, which is forgotten if it is empty.
func (c *core) lost(ci *cachedItem, r redisscript.Reply) error {
	if r.Err() == nil && r.Len() == 0 {
		return c.forgotten(ci)
	}
	return r.Err()
}

// forgotten is the error for an item that Redis has lost or damaged: its sale is checked, and rebuilt.
func (c *core) forgotten(ci *cachedItem) error {
	c.suspects.add(ci.sale.ID, 0)
	return fmt.Errorf("%w: Redis has lost item %s/%s, or part of it", orders.ErrRecovering, ci.sale.ID, ci.item.ID)
}

// damaged is forgotten for damage that the check would not find: the sale is rebuilt in any case, if it is still in this epoch.
func (c *core) damaged(ci *cachedItem) error {
	c.suspects.add(ci.sale.ID, ci.sale.Epoch)
	return fmt.Errorf("%w: an entry of item %s/%s in Redis cannot be read", orders.ErrRecovering, ci.sale.ID, ci.item.ID)
}

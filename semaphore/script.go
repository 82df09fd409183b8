package semaphore

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/redisscript"
)

//go:embed lua/*.lua
var files embed.FS

// script joins all files of lua/ in an order that defines functions before their use.
var script = redisscript.Repeatable("semaphore run",
	redisscript.Join(files, "try", "lua/prelude", "lua/serve", "lua/acquire", "lua/hold", "lua/define", "lua/run"),
	"HGET", "HVALS", "ZRANGE", "ZRANGEBYSCORE", "ZRANK", "ZSCORE")

// The words of the script's protocol, see prelude.lua and run.lua.
const (
	doAcquire = "acquire"
	doRenew   = "renew"
	doRelease = "release"
	doDefine  = "define"
	doStatus  = "status"

	isGranted  = "granted"
	isWaiting  = "waiting"
	isFull     = "full"
	isRenewed  = "renewed"
	isLost     = "lost"
	isReleased = "released"
	isDefined  = "defined"
	isStatus   = "status"
	isUnknown  = "unknown"
	isTooHeavy = "too_heavy"
	isConflict = "conflict"

	messageCome = "come"
	messageLost = "lost"
	messageLook = "look"
)

// An op is one operation for Redis.
type op struct {
	word  string
	names []string
	args  []any // between the word and the semaphores; for define and status what follows the semaphore
	cost  int   // share of a batch in addition to 1
}

type call = batch.Call[*op, reply]

// A reply is the result of an op.
type reply struct {
	sent   time.Time // before Redis executed the op
	word   string
	name   string // of the semaphore concerned: unknown, too_heavy, conflict
	token  int64
	lease  time.Duration
	place  int
	wait   time.Duration
	soon   time.Duration     // until the next lease may end
	fresh  bool              // it was not in the queue before
	status redisscript.Reply // the rest of the reply of status
}

func askFor(t *ticket, wait bool) *op {
	return &op{word: doAcquire, names: t.names, args: []any{t.key, t.weight, flag(wait), t.attempt, t.holder}}
}

func renewalOf(t *ticket) *op {
	return &op{word: doRenew, names: t.names, args: []any{t.key, t.token, t.weight, t.holder}}
}

// place instead of a token gives up a place in the queue, see hold.lua.
const place = 0

// abandonmentOf gives up what an acquisition without a caller may have got. Send it after all its asks.
func abandonmentOf(t *ticket) *op { return releaseOf(t, -t.attempt) }

func releaseOf(t *ticket, token int64) *op {
	return &op{word: doRelease, names: t.names, args: []any{t.key, token}}
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// runScript sends the operations of calls in one script.
func (sh *shard) runScript(ctx context.Context, calls []*call) {
	verb := "PUBLISH"
	if sh.set.sharded {
		verb = "SPUBLISH"
	}
	numbers, keys := map[string]int{}, []string(nil)
	var named, args []any
	for _, c := range calls {
		o := c.In
		args = append(args, o.word)
		single := o.word == doDefine || o.word == doStatus
		if !single {
			args = append(append(args, o.args...), len(o.names))
		}
		for _, name := range o.names {
			if numbers[name] == 0 {
				numbers[name] = len(numbers) + 1
				named, keys = append(named, name), sh.keys(keys, name)
			}
			args = append(args, numbers[name])
		}
		if single {
			args = append(args, o.args...)
		}
	}
	head := append([]any{sh.set.process, sh.channels(), verb, len(named)}, named...)
	sent := time.Now()
	result := script.Run(ctx, sh.set.rdb, keys, append(head, args...)...)
	replies, granted := result.List(), result.List()
	for granted.Len() > 0 { // before the replies, because the reply to an ask may report the same grant
		t := ticket{key: granted.Text(), token: granted.Int()}
		lease := granted.Micros()
		t.names, t.attempt = []string{granted.Text()}, granted.Int()
		if granted.Err() != nil {
			break
		}
		sh.granted(held{t, lease, sent})
	}
	_ = replies.Expect(len(calls))
	for _, c := range calls {
		c.Out, c.Err = decode(replies.List())
		c.Out.sent = sent
	}
}

// decode decodes one reply, see prelude.lua.
func decode(from redisscript.Reply) (r reply, err error) {
	r.word = from.Text()
	switch r.word {
	case isGranted:
		r.token, r.lease = from.Int(), from.Micros()
	case isWaiting, isFull:
		r.place, r.wait, r.soon, r.fresh = int(from.Int()), from.Micros(), from.Micros(), from.Int() == 1
	case isRenewed:
		r.lease = from.Micros()
	case isUnknown, isTooHeavy, isConflict:
		r.name = from.Text()
	case isStatus:
		r.status = from
	case isLost, isReleased, isDefined:
	default:
		err = fmt.Errorf("%w: %.40q", redisscript.ErrReply, r.word)
	}
	return r, cmp.Or(from.Err(), err)
}

// problem returns the error for a reply that is not a success.
func (r *reply) problem() error {
	switch r.word {
	case isUnknown:
		return &unknownError{r.name}
	case isTooHeavy:
		return failure.New(ErrTooHeavy, "must be at most the limit of %s", r.name)
	case isConflict:
		return invalid("a request with the same id asked for another weight of %s, or for other semaphores besides", r.name)
	case isLost:
		return ErrPermitLost
	}
	return fmt.Errorf("%w: %.40q", redisscript.ErrReply, r.word)
}

// An unknownError is an ErrUnknown with the name.
type unknownError struct{ name string }

func (e *unknownError) Error() string { return fmt.Sprintf("%v %q", ErrUnknown, e.name) }
func (e *unknownError) Unwrap() error { return ErrUnknown }

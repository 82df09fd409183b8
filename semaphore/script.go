package semaphore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/redisscript"
)

//go:embed lua/*.lua
var files embed.FS

// script joins all files of lua/ in an order that defines functions before their use.
var script = redisscript.Repeatable(func() string {
	var b strings.Builder
	b.WriteString(redisscript.Try)
	for _, name := range []string{"prelude", "serve", "acquire", "hold", "define", "run"} {
		text, err := files.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the files are embedded
		}
		b.Write(text)
	}
	return b.String()
}(), "HGET", "HVALS", "ZRANGE", "ZRANGEBYSCORE", "ZRANK", "ZSCORE")

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

	sayCome = "come"
	sayLost = "lost"
	sayLook = "look"
)

// An op is one operation for Redis.
type op struct {
	word  string
	names []string
	args  []any       // between the word and the semaphores; for define and status what follows the semaphore
	cost  int         // share of a batch in addition to 1
	done  func(reply) // called once; must not block
}

// A reply is the result of an op, or the error of sending it.
type reply struct {
	err    error
	sent   time.Time // before Redis executed the op
	word   string
	name   string // of the semaphore concerned: unknown, too_heavy, conflict
	token  int64
	lease  time.Duration
	place  int
	wait   time.Duration
	soon   time.Duration // until the next lease may end
	fresh  bool          // it was not in the queue before
	values []any         // for status
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
	return &op{word: doRelease, names: t.names, args: []any{t.key, token}, done: func(reply) {}}
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// runScript sends ops in one script. Every op's done has been called when it returns.
func (sh *shard) runScript(ctx context.Context, ops []*op) {
	verb := "PUBLISH"
	if sh.set.sharded {
		verb = "SPUBLISH"
	}
	numbers, keys := map[string]int{}, []string(nil)
	var named, args []any
	for _, o := range ops {
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
	result, err := script.Run(ctx, sh.set.rdb, keys, append(head, args...)...).Slice()
	var replies, granted []any
	if err == nil {
		replies, granted, err = parts(result, len(ops))
	}
	for i := 0; i+4 < len(granted); i += 5 { // before the replies, because the reply to an ask may report the same grant
		key, _ := granted[i].(string)
		name, _ := granted[i+3].(string)
		t := ticket{key: key, token: number(granted[i+1]), names: []string{name}, attempt: number(granted[i+4])}
		sh.granted(held{t, micros(granted[i+2]), sent})
	}
	for i, o := range ops {
		r := reply{err: err}
		if err == nil {
			r = decode(replies[i])
		}
		r.sent = sent
		o.done(r)
	}
	if err != nil {
		sh.reloadTopology(ctx)
	}
}

// reloadTopology makes a cluster client reload the topology. By itself it does so only once a minute, and not for an unresponsive server.
func (sh *shard) reloadTopology(ctx context.Context) {
	if c, ok := sh.set.rdb.(*redis.ClusterClient); ok && time.Since(sh.reloaded) > reloadEvery {
		sh.reloaded = time.Now()
		c.ReloadState(context.WithoutCancel(ctx))
	}
}

var errReply = errors.New("semaphore: redis has replied something else")

func parts(result []any, n int) (replies, granted []any, err error) {
	if len(result) != 2 {
		return nil, nil, errReply
	}
	replies, ok1 := result[0].([]any)
	granted, ok2 := result[1].([]any)
	if !ok1 || !ok2 || len(replies) != n {
		return nil, nil, errReply
	}
	return replies, granted, nil
}

// decode decodes one reply, see prelude.lua.
func decode(v any) reply {
	values, _ := v.([]any)
	if len(values) == 0 {
		return reply{err: errReply}
	}
	r := reply{values: values}
	r.word, _ = values[0].(string)
	switch {
	case r.word == isGranted && len(values) == 3:
		r.token, r.lease = number(values[1]), micros(values[2])
	case (r.word == isWaiting || r.word == isFull) && len(values) == 5:
		r.place, r.wait, r.soon, r.fresh = int(number(values[1])), micros(values[2]), micros(values[3]), number(values[4]) == 1
	case r.word == isRenewed && len(values) == 2:
		r.lease = micros(values[1])
	case (r.word == isUnknown || r.word == isTooHeavy || r.word == isConflict) && len(values) == 2:
		r.name, _ = values[1].(string)
	case r.word == isLost, r.word == isReleased, r.word == isDefined, r.word == isStatus && len(values) == 12:
	default:
		r.err = errReply
	}
	return r
}

// problem returns the error for a reply that is not a success.
func (r *reply) problem() error {
	switch {
	case r.err != nil:
		return r.err
	case r.word == isUnknown:
		return &unknownError{r.name}
	case r.word == isTooHeavy:
		return failure.New(ErrTooHeavy, "must be at most the limit of %s", r.name)
	case r.word == isConflict:
		return invalid("a request with the same id asked for another weight of %s, or for other semaphores besides", r.name)
	case r.word == isLost:
		return ErrPermitLost
	}
	return fmt.Errorf("%w: %.40q", errReply, r.word)
}

func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

func micros(v any) time.Duration { return time.Duration(number(v)) * time.Microsecond }

// An unknownError is an ErrUnknown with the name.
type unknownError struct{ name string }

func (e *unknownError) Error() string { return fmt.Sprintf("%v %q", ErrUnknown, e.name) }
func (e *unknownError) Unwrap() error { return ErrUnknown }

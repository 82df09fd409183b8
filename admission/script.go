package admission

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/sliding_log.lua
	slidingLogLua string
	//go:embed lua/decide.lua
	decideLua string

	decideSource = slidingLogLua + "\n" + decideLua
	decideHash   = redis.NewScript(decideSource).Hash()
)

// A once is a command that go-redis must not send a second time. MaxRetries: -1 says so too, but a cluster client does not
// heed it: it repeats after a time-out, and a script that ran the first time would count twice.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// decide runs the script on tallies of one slot, at now in µs or, if that is 0, at Redis' time.
func decide(ctx context.Context, rdb Client, mode Mode, now int64, tallies []Tally) ([]Count, error) {
	args := make([]any, 0, 3+len(tallies)*6+2)
	args = append(args, "evalsha", decideHash, len(tallies))
	for i := range tallies {
		args = append(args, tallies[i].Key)
	}
	args = append(args, string(mode), now)
	for i := range tallies {
		t := &tallies[i]
		args = append(args, t.Limit, t.Window.Length.Microseconds(), t.Cost, t.Shadow, t.Stamp)
	}
	reply, err := send(ctx, rdb, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // it did not run: the node has started anew, or is another one
		args[0], args[1] = "eval", decideSource
		reply, err = send(ctx, rdb, args)
	}
	if err != nil {
		return nil, err
	}
	return decodeCounts(reply, len(tallies))
}

func send(ctx context.Context, rdb Client, args []any) ([]any, error) {
	cmd := once{redis.NewCmd(ctx, args...)}
	if err := rdb.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Slice()
}

var errReply = errors.New("unexpected reply of the script")

// decodeCounts reads the reply of the script for n tallies.
func decodeCounts(reply []any, n int) ([]Count, error) {
	const fields = 5
	if len(reply) != n*fields {
		return nil, fmt.Errorf("%w: %d values for %d tallies", errReply, len(reply), n)
	}
	counts := make([]Count, n)
	for i := range counts {
		values := reply[i*fields : (i+1)*fields]
		word, ok := values[0].(string)
		var numbers [fields - 1]int64
		for j, v := range values[1:] {
			number, isNumber := v.(int64)
			numbers[j], ok = number, ok && isNumber
		}
		c := &counts[i]
		switch reason := Reason(word); reason {
		case "admitted":
		case RateLimited, CostAboveLimit:
			c.Reason = reason
		default:
			ok = false
		}
		if !ok {
			return nil, fmt.Errorf("%w: %v", errReply, values)
		}
		c.Remaining, c.Stamp, c.At = int(numbers[0]), numbers[3], time.UnixMicro(numbers[3])
		c.RetryAfter = time.Duration(numbers[1]) * time.Microsecond
		c.ResetAfter = time.Duration(numbers[2]) * time.Microsecond
	}
	return counts, nil
}

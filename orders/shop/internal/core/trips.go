package core

import (
	"cmp"
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// PerTrip is how many commands or scripts are sent in one round trip. Its timeout is meant for one answer: a slow server would
// never answer a thousand in time, however often they are repeated.
const PerTrip = 100

// FullAtOnce is perTrip for replies with uncommitted orders, of which an item may have thousands.
const FullAtOnce = 16

// LoadChunk is how many rows a script, a scan or a statement of a recovery or a verification takes at once.
const LoadChunk = 1000

// TripTries is how often a round trip is tried where it is one of many, or no request waits. Otherwise a server that is late once
// in a hundred round trips would never have all items of a large sale.
const TripTries = 5

// TriesFor returns how often a round trip for a request is tried that asks for n items.
func TriesFor(n int) int {
	if n > PerTrip {
		return TripTries
	}
	return 1
}

// Pipelined sends what add adds for 0 to n-1, and returns the first error. Each command has its own. What gets no answer may be
// added and sent again.
func (c *Core) Pipelined(ctx context.Context, n int, add func(p redis.Pipeliner, i int)) (err error) {
	tries := TriesFor(n)
	for from := 0; from < n; from += PerTrip {
		for try := 1; ; try++ {
			_, failed := c.Base.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i := from; i < min(from+PerTrip, n); i++ {
					add(p, i)
				}
				return nil
			})
			if NotOfServer(failed) && try < tries && ctx.Err() == nil {
				continue
			}
			if NotOfServer(failed) {
				tries = 1 // the server does not answer
			}
			err = cmp.Or(err, failed)
			break
		}
	}
	return err
}

// NotOfServer reports whether an error is not the server's.
func NotOfServer(err error) bool {
	var reply redis.Error
	return err != nil && !errors.As(err, &reply)
}

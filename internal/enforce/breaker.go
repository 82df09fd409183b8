package enforce

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
)

//go:embed allow.lua
var allowLua string

var allowScript = redis.NewScript(allowLua)

// How a ban is asked for. The words are allow.lua's.
type asking string

const (
	first asking = "first" // nobody has asked for it yet
	again asking = "again" // it was held back, or the program has failed
	free  asking = "free"  // it does not count: the firewall should know of it already
)

// firewallLag is how much later than here, in seconds, a ban may begin and so end in a firewall.
const firewallLag = 10

// A breaker bounds how many bans the programs of all workers are run for, and knows which targets the firewall may know of.
type breaker struct {
	rdb    redis.UniversalClient
	prefix string
}

// All keys have one hash tag, so that one script may touch them:
//
//	<namespace>:{ban-script}:runs, :open, :told:<kind>:<value>   as allow.lua says
func newBreaker(rdb redis.UniversalClient, namespace string) *breaker {
	return &breaker{rdb, namespace + ":{ban-script}:"}
}

func (b *breaker) told(t admission.BanTarget) string {
	return b.prefix + "told:" + string(t.Kind) + ":" + t.Value
}

// An answer of a breaker.
type answer struct {
	wait   time.Duration // before the next try; 0: run
	opened bool          // the breaker, by this
	open   time.Duration // that the breaker is
}

// allow decides whether the program may be run for a ban that lasts that long.
func (b *breaker) allow(ctx context.Context, t admission.BanTarget, left time.Duration, how asking, perMinute int) (answer, error) {
	keys := []string{b.prefix + "runs", b.prefix + "open", b.told(t)}
	n, err := allowScript.Run(ctx, b.rdb, keys, perMinute, string(how), (seconds(left)+firewallLag)*1000, rand.Text()).Int64Slice()
	if err == nil && len(n) != 3 {
		err = errors.New("wrong reply")
	}
	if err != nil {
		return answer{}, fmt.Errorf("enforce: ask the breaker: %w", err)
	}
	return answer{time.Duration(n[0]) * time.Millisecond, n[1] == 1, time.Duration(n[2]) * time.Millisecond}, nil
}

// knows reports whether the firewall may know of a target.
func (b *breaker) knows(ctx context.Context, t admission.BanTarget) (bool, error) {
	n, err := b.rdb.Exists(ctx, b.told(t)).Result()
	if err != nil {
		return false, fmt.Errorf("enforce: what the firewall knows: %w", err)
	}
	return n > 0, nil
}

// forget notes that the firewall does not know of a target any more.
func (b *breaker) forget(ctx context.Context, t admission.BanTarget) error {
	if err := b.rdb.Del(ctx, b.told(t)).Err(); err != nil {
		return fmt.Errorf("enforce: what the firewall knows: %w", err)
	}
	return nil
}

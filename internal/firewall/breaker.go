package firewall

import (
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/redisscript"
)

//go:embed allow.lua
var files embed.FS

var allowScript = redisscript.Repeatable("firewall allow", redisscript.Join(files, "try", "allow"))

// asking is how a ban is requested. allow.lua uses the same words.
type asking string

const (
	first asking = "first" // the first request for this ban
	again asking = "again" // it was held back, or the program failed
	free  asking = "free"  // not counted: the firewall should have the ban already
)

// firewallLag is how much later, in seconds, a ban may begin and thus end in a firewall than here.
const firewallLag = 10

// A breaker limits for how many bans the programs of all workers are run, and records which targets the firewall may have.
type breaker struct {
	rdb    redis.UniversalClient
	prefix string
}

// newBreaker returns a breaker whose keys have one hash tag, so that one script may use them:
//
//	<namespace>:{ban-script}:runs, :open, :sent:<kind>:<value>   see allow.lua
func newBreaker(rdb redis.UniversalClient, namespace string) *breaker {
	return &breaker{rdb, namespace + ":{ban-script}:"}
}

func (b *breaker) sentKey(t bans.Target) string {
	return b.prefix + "sent:" + string(t.Kind) + ":" + t.Value
}

// An answer is a decision of the breaker.
type answer struct {
	wait   time.Duration // until the next attempt; 0: run
	opened bool          // this request opened the breaker
	open   time.Duration // how long the breaker stays open; 0: closed
}

// allow decides whether the program may be run for a ban with this much time left.
func (b *breaker) allow(ctx context.Context, t bans.Target, left time.Duration, how asking, perMinute int) (answer, error) {
	keys := []string{b.prefix + "runs", b.prefix + "open", b.sentKey(t)}
	r := allowScript.Run(ctx, b.rdb, keys, perMinute, string(how), (seconds(left)+firewallLag)*1000, rand.Text())
	a := answer{time.Duration(r.Int()) * time.Millisecond, r.Int() == 1, time.Duration(r.Int()) * time.Millisecond}
	if err := r.Expect(0); err != nil {
		return answer{}, fmt.Errorf("firewall: ask the breaker: %w", err)
	}
	return a, nil
}

// sent reports whether the firewall may have a target.
func (b *breaker) sent(ctx context.Context, t bans.Target) (bool, error) {
	n, err := b.rdb.Exists(ctx, b.sentKey(t)).Result()
	if err != nil {
		return false, fmt.Errorf("firewall: check the entry of a target: %w", err)
	}
	return n > 0, nil
}

// forget records that the firewall no longer has a target.
func (b *breaker) forget(ctx context.Context, t bans.Target) error {
	if err := b.rdb.Del(ctx, b.sentKey(t)).Err(); err != nil {
		return fmt.Errorf("firewall: delete the entry of a target: %w", err)
	}
	return nil
}

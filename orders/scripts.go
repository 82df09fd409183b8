package orders

import (
	"cmp"
	"context"
	"embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/redisscript"
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

func script(name string) *redis.Script {
	source := redisscript.Try
	for _, file := range []string{"prelude", name} {
		text, err := lua.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err) // the file is part of the program
		}
		source += string(text)
	}
	return redisscript.Repeatable(source)
}

// perTrip is how many commands or scripts are sent in one round trip. Its timeout is meant for one answer: a slow server would never answer a
// thousand in time, however often they are repeated.
const perTrip = 100

// pipelined sends what add adds for 0 to n-1, and returns the first error. Each command has its own.
func (c *core) pipelined(ctx context.Context, n int, add func(p redis.Pipeliner, i int)) (err error) {
	for from := 0; from < n; from += perTrip {
		_, failed := c.base.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := from; i < min(from+perTrip, n); i++ {
				add(p, i)
			}
			return nil
		})
		err = cmp.Or(err, failed)
	}
	return err
}

// runAll runs a script once for each list of keys, and returns the commands; nil where keys is.
func (c *core) runAll(ctx context.Context, script *redis.Script, keys [][]string, args [][]any) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(keys))
	run := func(script func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd, due func(i int) bool) {
		_ = c.pipelined(ctx, len(keys), func(p redis.Pipeliner, i int) { // each command has its error
			if due(i) {
				cmds[i] = script(ctx, p, keys[i], args[i]...)
			}
		})
	}
	run(script.EvalSha, func(i int) bool { return keys[i] != nil })
	unknown := func(i int) bool { return cmds[i] != nil && redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") }
	for i := range cmds {
		if unknown(i) {
			run(script.Eval, unknown)
			break
		}
	}
	return cmds
}

// forgotten is the error for an item that Redis has lost or damaged: its sale is checked, and rebuilt.
func (c *core) forgotten(ci *cachedItem) error {
	c.suspects.add(ci.sale.ID, 0)
	return fmt.Errorf("%w: Redis has lost item %s/%s, or part of it", ErrRecovering, ci.sale.ID, ci.item.ID)
}

// damaged is forgotten for damage that the check would not find: the sale is rebuilt in any case, if it is still in this epoch.
func (c *core) damaged(ci *cachedItem) error {
	c.suspects.add(ci.sale.ID, ci.sale.Epoch)
	return fmt.Errorf("%w: an entry of item %s/%s in Redis cannot be read", ErrRecovering, ci.sale.ID, ci.item.ID)
}

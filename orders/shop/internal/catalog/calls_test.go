package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
)

// lostReplies loses the replies of some round trips, whose commands run all the same.
type lostReplies struct {
	lose  func(trip int) bool
	trips int
}

func (*lostReplies) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*lostReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (l *lostReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if !strings.HasPrefix(cmds[0].Name(), "eval") { // a connection is prepared
			return err
		}
		l.trips++
		if l.lose(l.trips) {
			err = errors.New("the connection is gone")
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// A script for many items is sent again where replies were lost, but not for ever.
func TestLostRepliesOfManyItems(t *testing.T) {
	opts, err := redis.ParseURL(testenv.StartRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	const items = 2*core.PerTrip + 1
	for name, tt := range map[string]struct {
		lose              func(trip int) bool
		giveUp            bool
		trips, unanswered int
	}{
		"none":              {func(int) bool { return false }, true, 4, 0}, // the first is for a server that does not know the script
		"two":               {func(trip int) bool { return trip == 3 || trip == 4 }, true, 6, 0},
		"all":               {func(int) bool { return true }, true, core.TripTries, items},
		"all of one server": {func(trip int) bool { return trip <= core.TripTries }, false, core.TripTries + 3, core.PerTrip},
	} {
		lost := &lostReplies{lose: tt.lose}
		client := redis.NewClient(opts)
		client.AddHook(lost)
		w := &Watch{Core: &core.Core{Namespace: "test", Base: client}}
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		sale := &Listing{Sale: orders.Sale{ID: "sale", Epoch: 1}}
		calls := make([]Call, items)
		for i := range calls {
			calls[i] = Call{NewItem(w.Core, sale, &orders.Item{ID: fmt.Sprint("item-", i)}), []any{"run", 1, "", "0 me 0"}}
		}
		failed := 0
		for _, reply := range w.RunMany(t.Context(), lua.Look, calls, core.TripTries, tt.giveUp) {
			if word := reply.Text(); reply.Err() != nil {
				failed++
			} else if reply.Len() != 0 || word != "lost" {
				t.Fatal(word, reply)
			}
		}
		if failed != tt.unanswered || lost.trips != tt.trips {
			t.Errorf("%s: %d items were not answered in %d round trips, want %d in %d", name, failed, lost.trips, tt.unanswered, tt.trips)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/redisscript/scripttest"
)

// TestFaults: one refused command or damaged key, in each mode and algorithm.
func TestFaults(t *testing.T) {
	tally := func(i int, of store.Algorithm, limit, cost int) store.Tally {
		key := fmt.Sprintf("shop:{s}:%d:abcdefgh", i)
		t := store.Tally{
			Key: key, Subject: "s", Algorithm: of, Limit: limit, Window: store.Window{Length: time.Minute}, Cost: cost, Burst: 3,
			Strikes: &store.Strikes{Key: key + ":strikes", Limit: 3, Window: time.Minute}, CountRejected: true, Records: "shop:{s}:records",
			Refusals: 1,
		}
		if of == store.TwoStage {
			t.Base = &store.Base{Key: key + ":base", Limit: 2, Window: store.Window{Length: time.Minute}}
		}
		return t
	}
	calls := func(calls ...store.Call) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, rdb *redis.Client) error {
			for _, call := range calls {
				call.Channel = "shop:changes"
				if _, err := redisstore.New(rdb).Decide(ctx, call); err != nil {
					return err
				}
			}
			return nil
		}
	}
	var cases []scripttest.Case
	for _, of := range []store.Algorithm{store.SlidingLog, store.SlidingCounter, store.FixedWindow, store.GCRA, store.TwoStage} {
		for _, limit := range []int{3, 200} { // a log above 128 is read in parts
			if limit > 3 && of != store.SlidingLog {
				continue
			}
			with := func(mode store.Mode, request string, cost int) store.Call {
				return store.Call{Mode: mode, Request: request, Tallies: []store.Tally{tally(1, of, limit, cost), tally(2, of, limit, cost)}}
			}
			prepare := calls(with(store.Charge, "one", 1), with(store.Charge, "", 1), with(store.Reject, "", 1))
			for name, call := range map[string]store.Call{
				"charge":           with(store.Charge, "", 1),
				"charge with id":   with(store.Charge, "two", 1),
				"charge again":     with(store.Charge, "one", 1),
				"too much":         with(store.Charge, "", limit),
				"too much with id": with(store.Charge, "two", limit),
				"check":            with(store.Check, "", 1),
				"refund":           with(store.Refund, "one", 1),
				"reset":            with(store.Reset, "", 1),
				"reject":           with(store.Reject, "", 1),
				"add":              with(store.Add, "", 1),
				"erase":            with(store.Erase, "", 1),
			} {
				cases = append(cases, scripttest.Case{Name: fmt.Sprint(of, " ", limit, " ", name), Prepare: prepare, Call: calls(call), Heals: true})
			}
		}
	}
	scripttest.Run(t, cases...)
}

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/redisclient"
)

const (
	withCache = 0 // deny cache of the default size
	noCache   = -1
)

// decideTimeout is long, so that on a busy machine the contenders slow down instead of deciding without Redis.
const decideTimeout = 10 * time.Second

// gateOnRedis is a gate with one rule, with the client settings for decisions.
func gateOnRedis(name string, algorithm store.Algorithm, cache int) contender {
	return contender{name, func(r *run, limit int, window time.Duration) (ask, func(), error) {
		opts, err := redisclient.ParseURL(r.redis.url())
		if err != nil {
			return nil, nil, err
		}
		opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = decideTimeout, decideTimeout, decideTimeout
		rdb := redis.NewUniversalClient(opts)
		ask, err := gate(redisstore.New(rdb), algorithm, limit, window, cache)
		return ask, func() { _ = rdb.Close() }, err
	}}
}

func gateOnMemory(name string, algorithm store.Algorithm, cache int) contender {
	return contender{name, func(r *run, limit int, window time.Duration) (ask, func(), error) {
		st, stop := memoryStore(r)
		ask, err := gate(st, algorithm, limit, window, cache)
		return ask, stop, err
	}}
}

func gate(st store.Store, algorithm store.Algorithm, limit int, window time.Duration, cache int) (ask, error) {
	text := fmt.Sprintf("version: 1\nrules: [{name: bench, subject: user, limit: %d, window: %v%s}]", limit, window, ruleOf(algorithm, limit))
	set, err := rules.Parse("bench.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	g, err := admission.NewWithStore(st, set, admission.Options{
		Secret: []byte("a secret of a benchmark"), Timeout: decideTimeout, DenyCache: cache,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, subject string) (bool, error) {
		d, err := g.Charge(ctx, admission.Request{User: subject})
		if d.Degraded {
			return false, errDegraded
		}
		return d.Admitted, err
	}, nil
}

var errDegraded = fmt.Errorf("decided without the store")

// ruleOf returns the rule's settings for an algorithm.
func ruleOf(a store.Algorithm, limit int) string {
	switch a {
	case store.SlidingLog:
		if limit <= 128 { // the default
			return ""
		}
	case store.TwoStage:
		return fmt.Sprintf(", algorithm: base, base: {limit: %d, window: 1h}", limit)
	}
	return ", algorithm: " + string(a)
}

// storeAlone is a MemoryStore without a gate: no rules, no keyed hashes.
func storeAlone(name string, algorithm store.Algorithm) contender {
	return contender{name, func(r *run, limit int, window time.Duration) (ask, func(), error) {
		st, stop := memoryStore(r)
		calls := sync.Pool{New: func() any {
			return &store.Call{Mode: store.Charge, Room: make([]store.Count, 1), Tallies: []store.Tally{{
				Algorithm: algorithm, Limit: limit, Window: store.Window{Length: window}, Cost: 1,
			}}}
		}}
		return func(ctx context.Context, subject string) (bool, error) {
			call := calls.Get().(*store.Call)
			defer calls.Put(call)
			call.Tallies[0].Key, call.Tallies[0].Subject = subject, subject
			counts, err := st.Decide(ctx, *call)
			return err == nil && counts[0].Reason == "", err
		}, stop, nil
	}}
}

// memoryStore returns a store with its cleaner running, and a function that stops it.
func memoryStore(r *run) (*memorystore.Store, func()) {
	store := memorystore.New(memorystore.Options{MaxSubjects: max(1<<18, 4*r.subjects)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = store.Run(ctx)
	}()
	return store, func() { cancel(); <-done }
}

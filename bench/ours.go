package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/redisclient"
)

const (
	withCache = 0 // deny cache of the default size
	noCache   = -1
)

// patience is the timeout of a decision here: a busy machine should slow contenders down, not make them decide without Redis.
const patience = 10 * time.Second

// gateOnRedis is a gate with one rule, with the client settings for decisions.
func gateOnRedis(name string, algorithm admission.Algorithm, cache int) contender {
	return contender{name, func(r *run, limit int, window time.Duration) (ask, func(), error) {
		opts, err := redisclient.ParseURL(r.redis.url())
		if err != nil {
			return nil, nil, err
		}
		opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = patience, patience, patience
		rdb := redis.NewUniversalClient(opts)
		ask, err := gate(admission.NewRedisStore(rdb), algorithm, limit, window, cache)
		return ask, func() { _ = rdb.Close() }, err
	}}
}

func gateOnMemory(name string, algorithm admission.Algorithm, cache int) contender {
	return contender{name, func(r *run, limit int, window time.Duration) (ask, func(), error) {
		store, stop := memoryStore(r)
		ask, err := gate(store, algorithm, limit, window, cache)
		return ask, stop, err
	}}
}

func gate(store admission.Store, algorithm admission.Algorithm, limit int, window time.Duration, cache int) (ask, error) {
	text := fmt.Sprintf("version: 1\nrules: [{name: bench, subject: user, limit: %d, window: %v%s}]", limit, window, ruleOf(algorithm, limit))
	rules, err := admission.ParseRules("bench.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	g, err := admission.New(store, rules, admission.Options{
		Secret: []byte("a secret of a benchmark"), Timeout: patience, DenyCache: cache,
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
func ruleOf(a admission.Algorithm, limit int) string {
	switch a {
	case admission.SlidingLog:
		if limit <= 128 { // the default
			return ""
		}
	case admission.TwoStage:
		return fmt.Sprintf(", algorithm: base, base: {limit: %d, window: 1h}", limit)
	}
	return ", algorithm: " + string(a)
}

// storeAlone is a MemoryStore without a gate: no rules, no keyed hashes.
func storeAlone(name string, algorithm admission.Algorithm) contender {
	return contender{name, func(r *run, limit int, window time.Duration) (ask, func(), error) {
		store, stop := memoryStore(r)
		calls := sync.Pool{New: func() any {
			return &admission.Call{Mode: admission.Charge, Room: make([]admission.Count, 1), Tallies: []admission.Tally{{
				Algorithm: algorithm, Limit: limit, Window: admission.Window{Length: window}, Cost: 1,
			}}}
		}}
		return func(ctx context.Context, subject string) (bool, error) {
			call := calls.Get().(*admission.Call)
			defer calls.Put(call)
			call.Tallies[0].Key, call.Tallies[0].Subject = subject, subject
			counts, err := store.Decide(ctx, *call)
			return err == nil && counts[0].Reason == "", err
		}, stop, nil
	}}
}

// memoryStore returns a store with its cleaner running, and a function that stops it.
func memoryStore(r *run) (*admission.MemoryStore, func()) {
	store := admission.NewMemoryStore(admission.MemoryOptions{MaxSubjects: max(1<<18, 4*r.subjects)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = store.Run(ctx)
	}()
	return store, func() { cancel(); <-done }
}

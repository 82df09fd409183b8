package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/tidegate/tidegate/semaphore"
)

const (
	permits     = 10
	semCallers  = 64
	idleWaiters = 10_000
	pollEvery   = 10 * time.Millisecond
	bookLease   = 10 * time.Second
)

// semaphores compares semaphores under contention.
func (r *run) semaphores(ctx context.Context) error {
	few := *r
	few.callers = semCallers
	for _, held := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond} {
		title := fmt.Sprintf("Permits acquired and released, %d callers on %d permits, held for %v", semCallers, permits, held)
		var most [4]atomic.Int64
		contenders := few.choose(
			permitsOf("semaphore, first in first out", openSemaphore, held, &most[0]),
			permitsOf("sorted set, polled each 10 ms", openPolled, held, &most[1]),
			permitsOf("sorted set with counter (fair), polled each 10 ms", openFair, held, &most[2]),
			permitsOf("sorted set in one script, polled each 10 ms", openScript, held, &most[3]),
		)
		if err := few.show(ctx, title, trial{contenders: contenders, limit: permits, subjects: 1, sample: 1}); err != nil {
			return err
		}
		fmt.Fprintf(r.out, "\nMost that held a permit at once: %d, %d, %d and %d.\n", most[0].Load(), most[1].Load(), most[2].Load(),
			most[3].Load())
	}
	if err := r.handOver(ctx); err != nil {
		return err
	}
	return r.idle(ctx)
}

// An opened is a semaphore in the comparison.
type opened struct {
	acquire func(ctx context.Context) (release func(), err error)
	close   func()
}

// permitsOf makes a contender of a semaphore: each request acquires, holds and releases a permit. It records the maximum held at once in
// most.
func permitsOf(name string, open func(r *run, limit int) (opened, error), held time.Duration, most *atomic.Int64) contender {
	return contender{name, func(r *run, limit int, _ time.Duration) (ask, func(), error) {
		o, err := open(r, limit)
		if err != nil {
			return nil, nil, err
		}
		var now atomic.Int64
		return func(ctx context.Context, _ string) (bool, error) {
			release, err := o.acquire(ctx)
			if err != nil {
				return false, err
			}
			n := now.Add(1)
			for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
			}
			if held > 0 {
				time.Sleep(held)
			}
			now.Add(-1)
			release()
			return true, nil
		}, o.close, nil
	}}
}

func openSemaphore(r *run, limit int) (opened, error) {
	rdb := r.redis.client()
	sem, err := semaphore.New(rdb, "bench", semaphore.Options{Limit: limit})
	if err != nil {
		return opened{}, err
	}
	running, stop := context.WithCancel(context.Background())
	go sem.Run(running) //nolint:errcheck // it returns nil when running ends
	return opened{
		acquire: func(ctx context.Context) (func(), error) {
			p, full, err := sem.Acquire(ctx)
			if full != nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			return func() { _ = p.Release() }, nil
		},
		close: func() {
			stop()
			_ = rdb.Close()
		},
	}, nil
}

// openPolled is the textbook counting semaphore: holders in a sorted set by their clock's time. A caller whose rank is too high removes
// itself and retries.
func openPolled(r *run, limit int) (opened, error) {
	rdb := r.redis.client()
	const key = "bench:holders"
	try := func(ctx context.Context, id string) (bool, error) {
		now := time.Now()
		tx := rdb.TxPipeline()
		tx.ZRemRangeByScore(ctx, key, "-inf", strconv.FormatInt(now.Add(-bookLease).UnixMicro(), 10))
		tx.ZAdd(ctx, key, redis.Z{Score: float64(now.UnixMicro()), Member: id})
		rank := tx.ZRank(ctx, key, id)
		if _, err := tx.Exec(ctx); err != nil {
			return false, err
		}
		if rank.Val() < int64(limit) {
			return true, nil
		}
		return false, rdb.ZRem(ctx, key, id).Err()
	}
	return polled(rdb, try, func(ctx context.Context, id string) { rdb.ZRem(ctx, key, id) }), nil
}

// openFair is the same with a counter instead of the clock, so that a fast clock gives no advantage.
func openFair(r *run, limit int) (opened, error) {
	rdb := r.redis.client()
	const times, owners, counter = "bench:{b}:times", "bench:{b}:owners", "bench:{b}:counter"
	remove := func(ctx context.Context, id string) error {
		tx := rdb.TxPipeline()
		tx.ZRem(ctx, times, id)
		tx.ZRem(ctx, owners, id)
		_, err := tx.Exec(ctx)
		return err
	}
	try := func(ctx context.Context, id string) (bool, error) {
		now := time.Now()
		tx := rdb.TxPipeline()
		tx.ZRemRangeByScore(ctx, times, "-inf", strconv.FormatInt(now.Add(-bookLease).UnixMicro(), 10))
		tx.ZInterStore(ctx, owners, &redis.ZStore{Keys: []string{owners, times}, Weights: []float64{1, 0}})
		number := tx.Incr(ctx, counter)
		if _, err := tx.Exec(ctx); err != nil {
			return false, err
		}
		tx = rdb.TxPipeline()
		tx.ZAdd(ctx, times, redis.Z{Score: float64(now.UnixMicro()), Member: id})
		tx.ZAdd(ctx, owners, redis.Z{Score: float64(number.Val()), Member: id})
		rank := tx.ZRank(ctx, owners, id)
		if _, err := tx.Exec(ctx); err != nil {
			return false, err
		}
		if rank.Val() < int64(limit) {
			return true, nil
		}
		return false, remove(ctx, id)
	}
	return polled(rdb, try, func(ctx context.Context, id string) { _ = remove(ctx, id) }), nil
}

var tryScript = redis.NewScript(`
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[4])
return 1`)

// openScript decides in one script, which enforces the limit.
func openScript(r *run, limit int) (opened, error) {
	rdb := r.redis.client()
	const key = "bench:holders"
	try := func(ctx context.Context, id string) (bool, error) {
		now := time.Now()
		n, err := tryScript.Run(ctx, rdb, []string{key}, now.Add(-bookLease).UnixMicro(), limit, now.UnixMicro(), id).Int()
		return n == 1, err
	}
	return polled(rdb, try, func(ctx context.Context, id string) { rdb.ZRem(ctx, key, id) }), nil
}

func polled(rdb *redis.Client, try func(ctx context.Context, id string) (bool, error), remove func(ctx context.Context, id string)) opened {
	return opened{
		acquire: func(ctx context.Context) (func(), error) {
			id := uuid.NewString()
			for {
				switch ok, err := try(ctx, id); {
				case err != nil:
					return nil, err
				case ok:
					return func() { remove(ctx, id) }, nil
				}
				time.Sleep(pollEvery)
			}
		},
		close: func() { _ = rdb.Close() },
	}
}

// handOver measures the time from a release in one process, as seen by Redis, until the next waiter in another process proceeds.
func (r *run) handOver(ctx context.Context) error {
	if err := r.redis.empty(ctx); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var sems [2]*semaphore.Semaphore
	for i := range sems {
		rdb := r.redis.client()
		defer rdb.Close()
		var err error
		if sems[i], err = semaphore.New(rdb, "bench", semaphore.Options{Limit: 1}); err != nil {
			return err
		}
		go sems[i].Run(running) //nolint:errcheck // it returns nil when running ends
	}
	tab := newTable("", "hand-overs", "p50", "p99", "longest")
	for _, way := range []struct {
		name string
		next func(i int) *semaphore.Semaphore
	}{
		{"to another process", func(i int) *semaphore.Semaphore { return sems[i%2] }},
		{"within a process", func(int) *semaphore.Semaphore { return sems[0] }},
	} {
		hist := newHistogram()
		held, _, err := way.next(0).Acquire(ctx)
		if err != nil {
			return err
		}
		n := 0
		for end := time.Now().Add(r.length * time.Duration(r.rounds)); time.Now().Before(end); {
			n++
			next := way.next(n)
			type got struct {
				p   *semaphore.Permit
				at  time.Time
				err error
			}
			there := make(chan got, 1)
			go func() {
				p, _, err := next.Acquire(ctx)
				there <- got{p, time.Now(), err}
			}()
			for { // until it is waiting
				st, err := sems[0].Status(ctx)
				if err != nil {
					return err
				}
				if st.Waiting > 0 {
					break
				}
			}
			from := time.Now()
			if err := held.Release(); err != nil {
				return err
			}
			g := <-there
			if g.err != nil {
				return g.err
			}
			_ = hist.RecordValue(int64(g.at.Sub(from)))
			held = g.p
		}
		if err := held.Release(); err != nil {
			return err
		}
		tab.add(way.name, strconv.Itoa(n), short(time.Duration(hist.ValueAtQuantile(50))), short(time.Duration(hist.ValueAtQuantile(99))),
			short(time.Duration(hist.Max())))
	}
	r.print(tab, "From the call of Release to the return of the next one's Acquire")
	return ctx.Err()
}

// idle measures the cost of many waiting callers.
func (r *run) idle(ctx context.Context) error {
	if err := r.redis.empty(ctx); err != nil {
		return err
	}
	rdb := r.redis.client()
	defer rdb.Close()
	sem, err := semaphore.New(rdb, "bench", semaphore.Options{Limit: 1})
	if err != nil {
		return err
	}
	running, end := context.WithCancel(ctx)
	defer end()
	go sem.Run(running) //nolint:errcheck // it returns nil when running ends
	held, _, err := sem.Acquire(ctx)
	if err != nil {
		return err
	}
	waiting, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range idleWaiters {
		wg.Go(func() { _, _, _ = sem.Acquire(waiting) })
	}
	defer wg.Wait()
	defer stop()
	for {
		st, err := sem.Status(ctx)
		if err != nil {
			return err
		}
		if st.Waiting == idleWaiters {
			break
		}
	}
	before, err := r.commands(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	select {
	case <-time.After(r.length * time.Duration(r.rounds)):
	case <-ctx.Done():
		return ctx.Err()
	}
	took := time.Since(start).Seconds()
	after, err := r.commands(ctx)
	if err != nil {
		return err
	}
	admin := r.redis.client()
	defer admin.Close()
	listening, err := admin.Do(ctx, "client", "list", "type", "pubsub").Text()
	if err != nil {
		return err
	}
	all := float64(after-before-1) / took
	tab := newTable("", "")
	tab.add("waiters in one process", strconv.Itoa(idleWaiters))
	tab.add("connections that listen", strconv.Itoa(strings.Count(listening, "\n")))
	tab.add("Redis commands a second, with those that scripts call", fmt.Sprintf("%.1f", all))
	tab.add("for each waiter", fmt.Sprintf("%.6f", all/idleWaiters))
	r.print(tab, "What waiting costs")
	return held.Release()
}

// commands returns how many commands Redis has executed, including those in scripts.
func (r *run) commands(ctx context.Context) (n int64, err error) {
	rdb := r.redis.client()
	defer rdb.Close()
	stats, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(stats) {
		if _, rest, ok := strings.Cut(line, ":calls="); ok {
			calls, _, _ := strings.Cut(rest, ",")
			c, err := strconv.ParseInt(calls, 10, 64)
			if err != nil {
				return 0, err
			}
			n += c
		}
	}
	return n, nil
}

package semaphore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/semaphore"
)

var (
	driftOps  = flag.Int("ops", 4000, "random operations of TestNothingDrifts")
	driftSeed = flag.Uint64("seed", 0, "seed of TestNothingDrifts; 0 takes one by chance")
)

// A ledger is the content of a semaphore in Redis, read key by key and counted here: holders with the ends of their leases, and waiters.
type ledger struct {
	now     int64 // Redis' clock, µs
	holders map[string]int64
	queue   map[string]bool
	entries map[string]string
	weights map[string]string
}

func readLedger(t *testing.T, rdb redis.UniversalClient, prefix string) ledger {
	t.Helper()
	ctx, pipe := soon(t), rdb.TxPipeline()
	now := pipe.Time(ctx)
	holders := pipe.ZRangeWithScores(ctx, prefix+":holders", 0, -1)
	queue := pipe.ZRange(ctx, prefix+":queue", 0, -1)
	entries, weights := pipe.HGetAll(ctx, prefix+":entries"), pipe.HGetAll(ctx, prefix+":weights")
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	l := ledger{now.Val().UnixMicro(), map[string]int64{}, map[string]bool{}, entries.Val(), weights.Val()}
	for _, z := range holders.Val() {
		l.holders[z.Member.(string)] = int64(z.Score)
	}
	for _, key := range queue.Val() {
		l.queue[key] = true
	}
	return l
}

// held is the weight of those whose lease has not ended, as their entries have it.
func (l ledger) held() (weight int) {
	for key, ends := range l.holders {
		var w int
		if _, err := fmt.Sscan(l.entries[key], &w); err != nil {
			w = 1 << 30
		}
		if ends > l.now {
			weight += w
		}
	}
	return weight
}

// check finds what should not be there.
func (l ledger) check() (problems []string) {
	for key := range l.holders {
		if l.entries[key] == "" || l.queue[key] {
			problems = append(problems, fmt.Sprintf("the holder %s: entry %q, in the queue %v", key, l.entries[key], l.queue[key]))
		}
		w, _, _ := strings.Cut(l.entries[key], " ")
		if weight := l.weights[key]; weight != w && (w != "1" || weight != "") {
			problems = append(problems, fmt.Sprintf("the holder %s weighs %s, and %q among the weights", key, w, weight))
		}
	}
	for key := range l.queue {
		if l.entries[key] == "" {
			problems = append(problems, "the waiter "+key+" has no entry")
		}
	}
	for key := range l.entries {
		if _, holds := l.holders[key]; !holds && !l.queue[key] {
			problems = append(problems, "the entry "+key+" is of nobody")
		}
	}
	for key := range l.weights {
		if _, holds := l.holders[key]; !holds {
			problems = append(problems, "the weight of "+key+" is of nobody")
		}
	}
	return problems
}

// A drifter does random things with permits, in a process that may end at any time, on a way that loses replies.
type drifter struct {
	t       *testing.T
	house   *house
	rdb     redis.UniversalClient
	names   []string
	ways    []client // of which some lose replies
	auditor *semaphore.Set

	mu      sync.Mutex
	sets    []*semaphore.Set
	grants  [][2]string // name and id, of which somebody may still think that it holds
	counts  sync.Map
	crashes atomic.Int64 // that were meant to be
}

const driftLease = semaphore.MinLease

func (d *drifter) newSet(way client) *semaphore.Set {
	set, err := semaphore.NewSet(way, semaphore.SetOptions{Namespace: d.house.namespace})
	if err != nil {
		d.t.Fatal(err)
	}
	running(d.t, set)
	return set
}

func (d *drifter) count(what string) {
	n, _ := d.counts.LoadOrStore(what, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// grant takes a permit that it knows of by chance, out of the list if forget is set.
func (d *drifter) grant(r *rand.Rand, forget bool) (name, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.grants) == 0 {
		return d.names[0], "" // which is no permit's
	}
	i := r.IntN(len(d.grants))
	g := d.grants[i]
	if forget {
		d.grants[i] = d.grants[len(d.grants)-1]
		d.grants = d.grants[:len(d.grants)-1]
	}
	return g[0], g[1]
}

func (d *drifter) step(r *rand.Rand) {
	i := r.IntN(len(d.ways))
	d.mu.Lock()
	set := d.sets[i]
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(20_000))*time.Microsecond)
	defer cancel()
	name := d.names[r.IntN(len(d.names))]
	s, err := set.Semaphore(name)
	if err != nil {
		d.t.Error(err)
		return
	}
	request := semaphore.Request{Weight: 1 + r.IntN(3)*r.IntN(2), Try: r.IntN(2) == 0}
	for _, other := range d.names {
		if other != name && r.IntN(4) == 0 {
			request.Also = append(request.Also, other)
		}
	}
	if r.IntN(5) == 0 {
		request.ID = fmt.Sprint("order ", r.IntN(10))
	}
	switch n := r.IntN(1000); {
	case n < 300:
		d.count("grants")
		g, _, err := s.Grant(ctx, request)
		d.judge(err)
		if g != nil {
			d.mu.Lock()
			d.grants = append(d.grants, [2]string{name, g.ID})
			d.mu.Unlock()
		}
	case n < 450:
		d.count("permits")
		p, _, err := s.AcquireWith(ctx, request)
		d.judge(err)
		if p != nil && r.IntN(100) > 0 { // else it is forgotten, and renews for ever
			_ = p.Release()
		}
	case n < 750:
		d.count("releases")
		of, id := d.grant(r, true)
		d.release(ctx, set, of, id)
	case n < 800:
		d.count("releases again")
		of, id := d.grant(r, false)
		d.release(ctx, set, of, id)
	case n < 970:
		d.count("renewals")
		of, id := d.grant(r, false)
		if s, err := set.Semaphore(of); err == nil {
			_, err := s.Renew(ctx, id)
			d.judge(err)
		}
	case n < 990:
		d.count("changes of a limit")
		_ = s.Define(ctx, semaphore.Definition{Limit: 3 + r.IntN(6), Lease: driftLease})
	case n < 998:
		if r.IntN(8) > 0 {
			return
		}
		d.count("definitions taken back")
		s = of(d.t, d.auditor, name) // of a process that does not die between the two
		if err := errors.Join(s.Undefine(context.Background()), s.Define(context.Background(), semaphore.Definition{Limit: 5, Lease: driftLease})); err != nil {
			d.t.Error(err)
		}
	default:
		if d.crashes.Add(1)%20 != 1 { // a dead process holds the others up for some seconds
			return
		}
		d.count("crashes")
		d.mu.Lock()
		d.sets[i] = d.newSet(d.ways[i])
		d.mu.Unlock()
		stop(set)
	}
}

// judge fails the test where the script has failed.
func (d *drifter) judge(err error) {
	if err != nil && strings.Contains(err.Error(), "ERR") {
		d.t.Error(err)
	}
}

func (d *drifter) release(ctx context.Context, set *semaphore.Set, name, id string) {
	if s, err := set.Semaphore(name); err == nil {
		d.judge(s.Release(ctx, id))
	}
}

// audit compares what the semaphores say of themselves with what Redis holds.
func (d *drifter) audit() {
	d.t.Helper()
	for _, name := range d.names {
		s := of(d.t, d.auditor, name)
		for {
			before, st := readLedger(d.t, d.rdb, d.prefix(name)), status(d.t, s)
			after := readLedger(d.t, d.rdb, d.prefix(name))
			if before.held() != after.held() || len(before.holders) != len(after.holders) || len(before.queue) != len(after.queue) {
				continue // a lease ended meanwhile, or a waiter has gone
			}
			if problems := after.check(); after.held() != st.InUse || len(after.queue) != st.Waiting || len(problems) > 0 {
				d.t.Fatalf("%s: %d in use and %d wait, but in Redis %d and %d; %q", name, st.InUse, st.Waiting, after.held(), len(after.queue), problems)
			}
			break
		}
	}
}

func (d *drifter) prefix(name string) string { return d.house.namespace + ":s:{:}:" + name }

// lossy is a client whose replies get lost.
func (h *house) lossy(chance float64) client {
	opts, err := redis.ParseURL(h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	var dialer net.Dialer
	opts.ContextTimeoutEnabled = true
	opts.ReadTimeout = 50 * time.Millisecond
	opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &faultyConn{Conn: conn, faults: faults{lossy: chance}}, nil
	}
	rdb := redis.NewClient(opts)
	h.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

package semaphore_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

// A holeConn drops one reply on demand.
type holeConn struct {
	net.Conn
	hole *atomic.Bool
}

func (c *holeConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.hole.CompareAndSwap(true, false) {
			return n, err
		}
	}
}

// A reply that never comes holds a process up for so short a time that it is not believed dead, though its client is one with the
// settings that go-redis has by itself.
func TestLostReplyKeepsThePlace(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testenv.Redis(t))
	opts, err := redis.ParseURL(h.addr)
	if err != nil {
		t.Fatal(err)
	}
	var hole atomic.Bool
	var dialer net.Dialer
	opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		return &holeConn{conn, &hole}, err
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	s := h.defined("report", 1, long)
	p := acquire(t, s, semaphore.Request{})
	waiter := queue(t, of(t, h.setOn(rdb, semaphore.SetOptions{}), "report"), semaphore.Request{}, 1)
	look, ctx := h.client(), soon(t)
	heard := func() (now, at int64) {
		pipe := look.TxPipeline()
		clock, scores := pipe.Time(ctx), pipe.ZRangeWithScores(ctx, h.namespace+":s:{:}:report:processes", 0, -1)
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		first := slices.MaxFunc(scores.Val(), func(a, b redis.Z) int { return int(a.Score - b.Score) })
		return clock.Val().UnixMicro(), int64(first.Score)
	}
	hole.Store(true)
	for hole.Load() { // until a heartbeat's reply is lost
		heard()
	}
	_, last := heard()
	for longest := int64(0); ; {
		now, at := heard()
		longest = max(longest, now-at)
		if longest >= (2 * time.Second).Microseconds() {
			t.Errorf("not heard of for %d µs", longest)
			break
		}
		if at > last {
			t.Logf("not heard of for %d µs at most", longest)
			break
		}
	}
	release(t, p)
	release(t, waiter.got())
}

// Nothing that is said to processes arrives: their waiters come in with a heartbeat.
func TestDeafWaitersAreServed(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testenv.Redis(t))
	deaf := dialWith(h.addr, faults{deaf: true})
	t.Cleanup(func() { _ = deaf.Close() })
	s := h.defined("report", 1, long)
	other := of(t, h.setOn(deaf, semaphore.SetOptions{}), "report")
	slowest := time.Duration(0)
	for range 5 {
		p := acquire(t, s, semaphore.Request{})
		waiter := queue(t, other, semaphore.Request{}, 1)
		release(t, p)
		released := time.Now()
		q := waiter.got()
		slowest = max(slowest, time.Since(released))
		if st := status(t, s); st.Totals.Abandoned > 0 || st.Totals.Lost > 0 {
			t.Errorf("%+v", st.Totals)
		}
		release(t, q)
	}
	t.Logf("the slowest of 5 came in %v after the release", slowest)
}

// The reply to a caller that does not wait is lost: the permit that it may have granted is not held.
func TestLostReplyToTry(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		set, w := h.setOnWay()
		s := h.defined("report", 1, long)
		lost, granted := errors.New("lost"), int64(0)
		var once sync.Once
		w.set(nil, func(cmd redis.Cmder) {
			if !slices.Contains(cmd.Args(), any("acquire")) {
				return
			}
			once.Do(func() {
				granted = status(t, s).Totals.Granted
				cmd.SetErr(lost)
			})
		})
		if _, _, err := of(t, set, "report").TryAcquire(soon(t)); !errors.Is(err, lost) || granted != 1 {
			t.Errorf("%d granted, %v", granted, err)
		}
		await(t, s, func(st semaphore.Status) bool { return st.InUse == 0 })
	})
}

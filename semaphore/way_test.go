package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

// A way is a hook that sees what is sent to Redis, and the replies.
type way struct {
	mu     sync.Mutex
	before func(redis.Cmder) // guarded by mu: may be nil, as the next
	after  func(redis.Cmder)
}

func (w *way) set(before, after func(redis.Cmder)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

func (w *way) get() (before, after func(redis.Cmder)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.before, w.after
}

func (w *way) DialHook(next redis.DialHook) redis.DialHook { return next }
func (w *way) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (w *way) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		before, _ := w.get()
		if before != nil {
			before(cmd)
		}
		err := next(ctx, cmd)
		if _, after := w.get(); after != nil { // also of what was sent before it was set
			after(cmd)
			if err == nil {
				err = cmd.Err() // that it may have set
			}
		}
		return err
	}
}

// answered returns what is closed when Redis has answered the next script with this operation.
func (w *way) answered(word string) <-chan struct{} {
	done := make(chan struct{})
	var once sync.Once
	w.set(nil, func(cmd redis.Cmder) {
		if slices.Contains(cmd.Args(), any(word)) {
			once.Do(func() { close(done) })
		}
	})
	return done
}

func (h *house) setOnWay() (*semaphore.Set, *way) {
	rdb, w := h.client(), &way{}
	rdb.AddHook(w)
	return h.setOn(rdb, semaphore.SetOptions{}), w
}

// A waiter gives up while its permit is on its way, which may not arrive: the permit is not held then, whether the request has an id or not.
func TestGivenUpWhileGranted(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		for i, id := range []string{"", "order 17", "", "order 17"} {
			set, w := h.setOnWay()
			s, other := of(t, set, "report"), h.defined("report", 1, long)
			p := acquire(t, s, semaphore.Request{})
			ctx, cancel := context.WithCancel(soon(t))
			waiter := call(ctx, t, s, semaphore.Request{ID: id})
			await(t, other, func(st semaphore.Status) bool { return st.Waiting == 1 })
			var once sync.Once
			w.set(nil, func(cmd redis.Cmder) {
				for _, arg := range cmd.Args() {
					if arg == "release" {
						once.Do(func() {
							cancel()
							<-waiter.done
							if i > 1 {
								cmd.SetErr(errors.New("the reply is lost"))
							}
						})
					}
				}
			})
			release(t, p)
			if waiter.permit != nil {
				t.Fatal("the waiter has got its permit before it gave up")
			}
			await(t, other, func(st semaphore.Status) bool { return st.InUse == 0 && st.Waiting == 0 })
			stop(set)
		}
	})
}

// A caller gives up while the reply that grants a permit is on its way. It is not held then, unless another caller with the same ID has got
// it before or afterwards, in this process or in another one.
func TestGivenUpAfterTheGrant(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 1, long)
		for _, c := range []struct {
			try      bool
			id       string
			oneHouse bool
			before   bool
			after    bool
			inUse    int
		}{
			{id: "", inUse: 0},
			{id: "order 17", inUse: 0},
			{id: "order 17", try: true, inUse: 0},
			{id: "order 17", before: true, inUse: 1},
			{id: "order 17", before: true, try: true, inUse: 1},
			{id: "order 17", before: true, oneHouse: true, inUse: 1},
			{id: "order 17", before: true, oneHouse: true, try: true, inUse: 1},
			{id: "order 17", after: true, inUse: 1},
			{id: "order 17", after: true, try: true, inUse: 1},
		} {
			set, w := h.setOnWay()
			r := semaphore.Request{ID: c.id, Try: c.try}
			other := s
			if c.oneHouse {
				other = of(t, set, "report")
			}
			var granted []*semaphore.Permit
			if c.before {
				granted = append(granted, acquire(t, other, r))
			}
			ctx, cancel := context.WithCancel(soon(t))
			var waiter *caller
			started := make(chan struct{})
			var once sync.Once
			w.set(nil, func(cmd redis.Cmder) {
				if slices.Contains(cmd.Args(), any("acquire")) {
					once.Do(func() {
						<-started
						if c.after {
							p, full, err := other.AcquireWith(soon(t), r)
							if p == nil {
								t.Error(full, err)
							} else {
								granted = append(granted, p)
							}
						}
						cancel()
						<-waiter.done
					})
				}
			})
			waiter = call(ctx, t, of(t, set, "report"), r)
			close(started)
			if err := waiter.failed(); !errors.Is(err, context.Canceled) {
				t.Errorf("%+v: %v", c, err)
			}
			if st := status(t, of(t, set, "report")); st.InUse != c.inUse || st.Waiting != 0 {
				t.Errorf("%+v: %+v", c, st)
			}
			for _, p := range granted {
				if err := p.Context().Err(); err != nil {
					t.Errorf("%+v: %v", c, err)
				}
				release(t, p)
			}
			if st := status(t, s); st.InUse != 0 {
				t.Fatalf("%+v: %+v after the release", c, st)
			}
			stop(set)
		}
	})
}

// A waiter leaves while its grant is on its way, and the same request is sent again at once, as the HTTP API does at the deadline. The second
// call keeps its permit, whatever the first one gives up.
func TestTriedAgainAfterGivenUp(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		set, w := h.setOnWay()
		s, other := of(t, set, "report"), h.defined("report", 1, long)
		p := acquire(t, s, semaphore.Request{})
		ctx, cancel := context.WithCancel(soon(t))
		defer cancel()
		waiter := call(ctx, t, s, semaphore.Request{ID: "order 17"})
		await(t, other, func(st semaphore.Status) bool { return st.Waiting == 1 })
		var second *caller
		var once sync.Once
		w.set(nil, func(cmd redis.Cmder) {
			if slices.Contains(cmd.Args(), any("release")) {
				once.Do(func() {
					cancel()
					<-waiter.done
					second = call(soon(t), t, s, semaphore.Request{ID: "order 17", Try: true})
					time.Sleep(20 * time.Millisecond) // it asks before this reply is read
				})
			}
		})
		release(t, p)
		q := second.got()
		if st := status(t, s); st.InUse != 1 { // sent after all that the two calls have sent
			t.Errorf("%+v", st)
		}
		release(t, q)
		if st := status(t, s); st.InUse != 0 || st.Waiting != 0 {
			t.Errorf("%+v after the release", st)
		}
	})
}

// Two processes wait with the same ID and both leave, the last one while its grant is on its way, which does not arrive. Nobody holds it.
func TestBothGivenUpWhileGranted(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		other := h.defined("report", 1, long)
		set1, way1 := h.setOnWay()
		set2, way2 := h.setOnWay()
		s := of(t, set1, "report")
		p := acquire(t, s, semaphore.Request{})
		r := semaphore.Request{ID: "order 17"}
		ctx, cancel := context.WithCancel(soon(t))
		defer cancel()
		last := call(ctx, t, s, r)
		await(t, other, func(st semaphore.Status) bool { return st.Waiting == 1 })
		ctx2, cancel2 := context.WithCancel(soon(t))
		defer cancel2()
		heard := way2.answered("acquire")
		first := call(ctx2, t, of(t, set2, "report"), r)
		<-heard
		heard = way2.answered("release")
		cancel2()
		<-first.done
		<-heard
		var once sync.Once
		way1.set(nil, func(cmd redis.Cmder) {
			if slices.Contains(cmd.Args(), any("release")) {
				once.Do(func() {
					cancel()
					<-last.done
					cmd.SetErr(errors.New("the reply is lost"))
				})
			}
		})
		release(t, p)
		if st := await(t, other, func(st semaphore.Status) bool { return st.InUse == 0 && st.Waiting == 0 }); st.Totals.Lost != 0 {
			t.Errorf("it was held for a lease: %+v", st)
		}
	})
}

// Two processes wait with the same ID. The one that gets the permit gives up before the reply: it goes to the other one, not to the next in
// the queue.
func TestGivenUpAfterTheGrantToTheOther(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 1, long)
		p := acquire(t, s, semaphore.Request{})
		set1, way1 := h.setOnWay()
		set2, way2 := h.setOnWay()
		r := semaphore.Request{ID: "order 17"}
		stays := call(soon(t), t, of(t, set1, "report"), r)
		await(t, s, func(st semaphore.Status) bool { return st.Waiting == 1 })
		closed := make(chan struct{})
		open := sync.OnceFunc(func() { close(closed) })
		t.Cleanup(open)
		way1.set(func(cmd redis.Cmder) {
			if strings.HasPrefix(cmd.Name(), "evalsha") { // its subscription may still be connecting
				<-closed
			}
		}, nil)
		ctx, cancel := context.WithCancel(soon(t))
		defer cancel()
		heard := way2.answered("acquire")
		leaves := call(ctx, t, of(t, set2, "report"), r)
		<-heard
		last := queue(t, s, semaphore.Request{}, 2)
		gone := make(chan struct{})
		var granted, released sync.Once
		way2.set(nil, func(cmd redis.Cmder) {
			if slices.Contains(cmd.Args(), any("release")) {
				released.Do(func() { close(gone) })
			}
			if reply, ok := cmd.(*redis.Cmd); ok && strings.Contains(fmt.Sprint(reply.Val()), "granted") {
				granted.Do(func() {
					cancel()
					<-leaves.done
				})
			}
		})
		release(t, p)
		leaves.refused()
		<-gone
		open()
		first, second := stays, last
		select {
		case <-stays.done:
		case <-last.done:
			t.Error("the last one has overtaken the one that stayed")
			first, second = last, stays
		}
		release(t, first.got())
		release(t, second.got())
	})
}

// A process is believed dead while its waiter is first for two semaphores, one of which is served meanwhile. When it is back, it waits for
// both again.
func TestBelievedDeadInOneOfTwo(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, h *house) {
		set, w := h.setOnWay()
		a, b := h.defined("a", 1, long), h.defined("b", 1, long)
		inA, inB := acquire(t, a, semaphore.Request{}), acquire(t, b, semaphore.Request{})
		both := queue(t, of(t, set, "b"), semaphore.Request{Also: []string{"a"}}, 1)
		behind := queue(t, a, semaphore.Request{}, 2)
		closed := make(chan struct{})
		w.set(func(redis.Cmder) { <-closed }, nil)
		release(t, inA)
		inA = behind.got()
		close(closed)
		for _, s := range []*semaphore.Semaphore{a, b} {
			await(t, s, func(st semaphore.Status) bool { return st.Waiting == 1 && st.InUse == 1 })
		}
		release(t, inB, inA)
		release(t, both.got())
	})
}

// No clock but Redis' is compared with a lease. What is sent holds no time of the client, and a Redis whose clock is an hour off hands out
// permits as any other: for a client an hour off this is the same.
func TestClocksAnHourApart(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Fatal("there is no C compiler to set Redis' clock with: make setup installs one")
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	for _, offset := range []int{-3600, 3600} {
		t.Run(strconv.Itoa(offset), func(t *testing.T) {
			text := `#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	static int (*real)(struct timeval *, void *);
	if (!real) real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
	int r = real(tv, tz);
	tv->tv_sec += ` + strconv.Itoa(offset) + `;
	return r;
}
`
			if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(soon(t), cc, "-shared", "-fPIC", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Setenv("LD_PRELOAD", library)
			server := testenv.StartRedis(t)
			_ = os.Unsetenv("LD_PRELOAD") // the children have the right time
			h := newHouse(t, server.URL())
			now, err := h.client().Time(soon(t)).Result()
			if off := time.Until(now).Seconds(); err != nil || math.Abs(off-float64(offset)) > 60 {
				t.Fatalf("Redis' clock is %v s off, %v", off, err)
			}
			checkNoClock(t, h)
			tr := newTrial(t, h, "report")
			for range processes {
				tr.spawn()
			}
			tr.busy(10)
			tr.judge()
		})
	}
}

// checkNoClock looks at all that a client sends while it acquires, waits, renews, loses and releases.
func checkNoClock(t *testing.T, h *house) {
	t.Helper()
	set, w := h.setOnWay()
	var mu sync.Mutex
	tokens, seen := map[int64]bool{}, 0
	w.set(func(cmd redis.Cmder) {
		mu.Lock()
		defer mu.Unlock()
		for _, arg := range cmd.Args() {
			n, err := strconv.ParseFloat(strings.TrimSpace(text(arg)), 64)
			if err != nil || tokens[int64(n)] {
				continue
			}
			seen++
			for unit := 1.0; unit <= 1e9; unit *= 1000 {
				if now := float64(time.Now().Unix()); math.Abs(n/unit-now) < 3*3600 {
					t.Errorf("the time is sent: %v", cmd.Args()[3:])
				}
			}
		}
	}, nil)
	s := of(t, set, "clock")
	define(t, s, 1, semaphore.MinLease)
	g, _, err := s.Grant(soon(t), semaphore.Request{})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	tokens[g.Token] = true // Redis' clock, not ours
	mu.Unlock()
	if _, err := s.Renew(soon(t), g.ID); err != nil {
		t.Error(err)
	}
	if _, full, err := s.TryAcquire(soon(t)); full == nil {
		t.Error(err)
	}
	waiter := call(soon(t), t, s, semaphore.Request{}) // until the lease ends
	<-waiter.done
	if waiter.err != nil || seen == 0 {
		t.Errorf("%v, %d numbers seen", waiter.err, seen)
	}
	mu.Lock()
	tokens[waiter.permit.Token()] = true
	mu.Unlock()
	release(t, waiter.permit)
	stop(set)
}

func text(arg any) string {
	switch arg := arg.(type) {
	case string:
		return arg
	case int:
		return strconv.Itoa(arg)
	case int64:
		return strconv.FormatInt(arg, 10)
	}
	return ""
}

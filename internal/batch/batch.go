// Package batch joins calls that are made at the same time: calls that arrive while others are under way make the next ones
// together. It is for calls whose fixed cost is large beside their own, such as scripts of Redis and statements of a database.
package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/lazydeadline"
)

// MaxWaiting is how many calls may wait.
const MaxWaiting = 16384

// linger is how long a goroutine waits for its next batch, because the stack of a new one would have to grow first.
const linger = 100 * time.Millisecond

var (
	// ErrNotRun means that a call was not in any batch.
	ErrNotRun = errors.New("batch: the call did not run")
	// ErrFull is an ErrNotRun: so many calls wait that a further one would wait in vain.
	ErrFull = fmt.Errorf("%w: too many calls wait", ErrNotRun)
)

// A Call is one of a batch. Whoever runs the batch sets Out or Err.
type Call[In, Out any] struct {
	In  In
	Out Out
	Err error

	ctx   context.Context
	began bool             // its batch has begun, guarded by the batcher's mu
	done  chan struct{}    // receives a value when Out and Err are set; nil for a call of Post
	timer *time.Timer      // of its deadline, or an earlier one, or nil
	then  func(Out, error) // of Post
}

// A Batcher runs calls in batches. A call runs at once, unless as many batches as may are under way or Rest lets it wait; those that arrive
// before a batch has taken its calls are in it. Up to as many goroutines as batches at a time wait for 100 ms for the next one; else nothing
// runs between calls. Make it with New or NewLate; it is safe for concurrent use.
type Batcher[In, Out any] struct {
	most     int // calls in a batch
	atOnce   int // batches under way
	weight   func(In) int
	heaviest int           // sum of the weights in a batch; used with weight
	more     chan struct{} // one for each batch that a spare goroutine has to run
	run      func(ctx context.Context, take func() []*Call[In, Out])
	rest     time.Duration
	enough   int // calls that do not wait for the end of a rest

	mu       sync.Mutex
	waiting  []*Call[In, Out] // guarded by mu
	underWay int              // guarded by mu
	filling  bool             // one of those under way has not taken its calls, guarded by mu
	spare    int              // goroutines that wait for a batch, guarded by mu
	latest   time.Time        // when a batch began, guarded by mu; used with rest
	full     bool             // the latest batch left calls, guarded by mu; used with rest
	pace     Pace             // guarded by mu; used with rest
	resting  bool             // a batch begins after the rest, guarded by mu
	idle     sync.Cond        // on mu: no batch is under way, and none rests

	ended sync.Pool // calls of Do, which are used again
}

// New returns a batcher that runs up to most calls in a batch and up to atOnce batches at a time. The context of run never ends, because
// the callers have different deadlines.
func New[In, Out any](most, atOnce int, run func(ctx context.Context, calls []*Call[In, Out])) *Batcher[In, Out] {
	return NewLate(most, atOnce, func(ctx context.Context, take func() []*Call[In, Out]) {
		if calls := take(); len(calls) > 0 {
			run(ctx, calls)
		}
	})
}

// NewLate is New for batches that wait before they use their calls, for a lock for example: calls that arrive meanwhile are in
// the same batch. Only one batch waits in this way at a time. The first time that run calls take, it begins the batch; take
// returns the same calls each time, or none if all were given up. It is for the goroutine of run. Calls that run does not take end with
// ErrNotRun.
func NewLate[In, Out any](most, atOnce int, run func(ctx context.Context, take func() []*Call[In, Out])) *Batcher[In, Out] {
	b := &Batcher[In, Out]{most: most, atOnce: atOnce, run: run, more: make(chan struct{}, atOnce)}
	b.idle.L = &b.mu
	return b
}

// Weigh also bounds the sum of the weights of the calls in a batch to heaviest; a call that alone is heavier makes a batch of its
// own. Call it before the first Do. It returns b.
func (b *Batcher[In, Out]) Weigh(heaviest int, weight func(In) int) *Batcher[In, Out] {
	b.heaviest, b.weight = heaviest, weight
	return b
}

// Rest makes batches begin at least rest after one another while that pays, see Pace: fewer batches then run the same calls. A batch of
// enough calls does not wait, nor does one of calls that the batch before had no room for, nor the first after a pause. So a call waits up to
// rest longer. Call it before the first Do. It returns b.
func (b *Batcher[In, Out]) Rest(rest time.Duration, enough int) *Batcher[In, Out] {
	b.rest, b.enough = rest, enough
	return b
}

// Do waits for the result of a call, or until ctx ends. A call whose ctx ends before its batch begins does not run: Do returns
// ErrNotRun and ctx's error. If the batch has begun, Do returns only ctx's error, and run still gets the call. Do returns ErrFull
// at once if too many calls wait.
func (b *Batcher[In, Out]) Do(ctx context.Context, in In) (out Out, err error) {
	c, ok := b.ended.Get().(*Call[In, Out])
	if !ok {
		c = &Call[In, Out]{done: make(chan struct{}, 1)}
	}
	c.In, c.ctx = in, ctx
	if !b.add(c, MaxWaiting) {
		return out, ErrFull
	}
	var ended <-chan struct{}
	var late <-chan time.Time
	if at, ok := lazydeadline.Only(ctx); ok {
		late = c.until(at)
	} else {
		ended = ctx.Done()
	}
	select {
	case <-c.done:
		return b.result(c)
	case <-ended:
	case <-late:
	}
	why := cmp.Or(ctx.Err(), context.DeadlineExceeded) // by its timer a deadline may pass before it does by a clock that was set
	b.mu.Lock()
	began := c.began
	b.mu.Unlock()
	if !began {
		return out, fmt.Errorf("%w: %w", ErrNotRun, why)
	}
	select {
	case <-c.done:
		return b.result(c)
	default:
		return out, why
	}
}

// until returns a channel that is ready at a time.
func (c *Call[In, Out]) until(at time.Time) <-chan time.Time {
	if c.timer == nil {
		c.timer = time.NewTimer(time.Until(at))
	} else {
		c.timer.Reset(time.Until(at))
	}
	return c.timer.C
}

// result returns the result of a call, which nothing else uses any more.
func (b *Batcher[In, Out]) result(c *Call[In, Out]) (Out, error) {
	out, err := c.Out, c.Err
	*c = Call[In, Out]{done: c.done, timer: c.timer}
	b.ended.Put(c)
	return out, err
}

// Post adds a call for which its caller does not wait, and returns at once. then, unless it is nil, is called with the result, and must not
// block. No such call is refused, however many wait.
func (b *Batcher[In, Out]) Post(in In, then func(Out, error)) {
	b.add(&Call[In, Out]{In: in, ctx: context.Background(), then: then}, math.MaxInt)
}

// Wait waits until no batch is under way, and none waits for the end of a rest.
func (b *Batcher[In, Out]) Wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.underWay > 0 || b.resting {
		b.idle.Wait()
	}
}

// add adds a call, unless most wait.
func (b *Batcher[In, Out]) add(c *Call[In, Out], most int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= most {
		return false
	}
	b.waiting = append(b.waiting, c)
	b.start()
	return true
}

// start runs a batch in a goroutine, if one has to be run now. The caller holds mu.
func (b *Batcher[In, Out]) start() {
	switch {
	case !b.begin():
	case b.spare > 0:
		b.spare--
		b.more <- struct{}{}
	default:
		go b.work()
	}
}

// begin reports whether the caller has to run a batch now, which counts as under way then. The caller holds mu.
func (b *Batcher[In, Out]) begin() bool {
	if b.filling || b.underWay == b.atOnce || len(b.waiting) == 0 {
		return false
	}
	if b.rest > 0 {
		now := time.Now()
		if left := b.restLeft(now); left > 0 {
			if !b.resting {
				b.resting = true
				time.AfterFunc(left, b.afterRest)
			}
			return false
		}
		b.latest = now
	}
	b.filling = true
	b.underWay++
	return true
}

// restLeft returns how long the next batch has to wait for the rest after the latest. The caller holds mu.
func (b *Batcher[In, Out]) restLeft(now time.Time) time.Duration {
	if left := b.rest - now.Sub(b.latest); left > 0 && !b.full && len(b.waiting) < b.enough && b.pace.Pays(b.rest, now) {
		return left
	}
	return 0
}

// afterRest begins the batch that waited for a rest to end, unless it has begun since.
func (b *Batcher[In, Out]) afterRest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.resting = false
	b.start()
	b.wakeWaiters()
}

// work runs a batch that has begun, and then further ones, until none has begun for a while.
func (b *Batcher[In, Out]) work() {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for again := true; again; again = b.another(timer) {
		var calls []*Call[In, Out]
		taken := false
		take := func() []*Call[In, Out] {
			if !taken {
				taken, calls = true, b.take()
			}
			return calls
		}
		b.run(context.Background(), take)
		ran := taken
		for _, c := range take() {
			if !ran {
				c.Err = ErrNotRun
			}
			c.end()
		}
	}
}

// another ends a batch, and reports whether the caller has to run another one.
func (b *Batcher[In, Out]) another(timer *time.Timer) bool {
	if b.end() {
		return true
	}
	timer.Reset(linger)
	select {
	case <-b.more:
		return true
	case <-timer.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.more:
		return true
	default:
		b.spare--
		return false
	}
}

// end passes the result on.
func (c *Call[In, Out]) end() {
	switch {
	case c.done != nil:
		c.done <- struct{}{}
	case c.then != nil:
		c.then(c.Out, c.Err)
	}
}

// take returns the calls that have waited longest.
func (b *Batcher[In, Out]) take() (calls []*Call[In, Out]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls = make([]*Call[In, Out], 0, min(len(b.waiting), b.most))
	sum, looked := 0, 0
	for _, c := range b.waiting {
		if len(calls) == b.most {
			break
		}
		wanted := c.ctx.Err() == nil
		if wanted && b.weight != nil {
			if sum += b.weight(c.In); sum > b.heaviest && len(calls) > 0 {
				break
			}
		}
		looked++
		if c.began = wanted; wanted {
			calls = append(calls, c)
		}
	}
	b.waiting = slices.Delete(b.waiting, 0, looked)
	b.filling = false
	if b.rest > 0 {
		b.pace.Add(len(calls), time.Now())
		b.full = len(b.waiting) > 0
	}
	b.start()
	return calls
}

// end ends a batch. It reports whether the caller has to run another one now; otherwise its goroutine is spare.
func (b *Batcher[In, Out]) end() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.underWay--
	again := b.begin()
	if !again {
		b.spare++
	}
	b.wakeWaiters()
	return again
}

// wakeWaiters ends Wait, unless a batch is under way or rests. The caller holds mu.
func (b *Batcher[In, Out]) wakeWaiters() {
	if b.underWay == 0 && !b.resting {
		b.idle.Broadcast()
	}
}

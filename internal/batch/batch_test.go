package batch_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/lazydeadline"
)

// bubble runs f in a bubble, whose goroutines have to end with it: those that wait for a batch do after a moment.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Second)
		f(t)
	})
}

// held is a batcher of sums of 1, whose batches wait for release.
func held(most, atOnce int) (b *batch.Batcher[int, int], sizes func() []int, release func()) {
	var (
		mu   sync.Mutex
		seen []int
		open = make(chan struct{})
	)
	b = batch.New(most, atOnce, func(_ context.Context, calls []*batch.Call[int, int]) {
		mu.Lock()
		seen = append(seen, len(calls))
		mu.Unlock()
		<-open
		for _, c := range calls {
			c.Out = c.In + 1
		}
	})
	return b, func() []int { mu.Lock(); defer mu.Unlock(); return slices.Clone(seen) }, func() { close(open) }
}

func TestCallsThatWaitShareBatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, sizes, release := held(10, 2)
		for i := range 2 + 25 {
			go func() {
				if out, err := b.Do(t.Context(), i); out != i+1 || err != nil {
					t.Errorf("Do(%d) = %d, %v", i, out, err)
				}
			}()
			synctest.Wait()
		}
		release()
		synctest.Wait()
		if got, want := sizes(), []int{1, 1, 10, 10, 5}; !slices.Equal(got, want) {
			t.Errorf("batches of %v, want %v", got, want)
		}
	})
}

// Weights bound a batch like the number of its calls does, in the order of the calls. One that is too heavy runs alone.
func TestABatchIsBoundedByWeight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var batches [][]int // guarded by synctest.Wait
		open := make(chan struct{})
		b := batch.New(3, 1, func(_ context.Context, calls []*batch.Call[int, int]) {
			var weights []int
			for _, c := range calls {
				weights = append(weights, c.In)
			}
			batches = append(batches, weights)
			<-open
		}).Weigh(10, func(weight int) int { return weight })
		given, giveUp := context.WithCancel(t.Context())
		for _, weight := range []int{1, 5, 5, 1, 50, 4, 99, 6, 1, 1, 1, 1} {
			ctx := t.Context()
			if weight == 99 {
				ctx = given // a call that was given up has no weight
			}
			go func() { _, _ = b.Do(ctx, weight) }()
			synctest.Wait()
		}
		giveUp()
		close(open)
		synctest.Wait()
		if want := [][]int{{1}, {5, 5}, {1}, {50}, {4, 6}, {1, 1, 1}, {1}}; !slices.EqualFunc(batches, want, slices.Equal) {
			t.Errorf("batches of %v, want %v", batches, want)
		}
	})
}

// A batch that waits for a lock, for example, also runs the calls that arrive meanwhile, and only one batch waits so.
func TestCallsThatArriveWhileABatchWaitsAreInIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ready, end := make(chan struct{}), make(chan struct{})
		var runs int
		var sizes []int // guarded by synctest.Wait, like runs
		b := batch.NewLate(10, 2, func(_ context.Context, take func() []*batch.Call[int, int]) {
			runs++
			<-ready
			sizes = append(sizes, len(take()))
			<-end
			for _, c := range take() {
				c.Out = c.In + 1
			}
		})
		call := func(n int) {
			for i := range n {
				go func() {
					if out, err := b.Do(t.Context(), i); out != i+1 || err != nil {
						t.Errorf("Do(%d) = %d, %v", i, out, err)
					}
				}()
				synctest.Wait()
			}
		}
		for i, want := range []struct{ runs, calls int }{{1, 4}, {2, 3}} {
			call(want.calls)
			if runs != want.runs {
				t.Errorf("%d batches are under way, want %d", runs, want.runs)
			}
			ready <- struct{}{}
			synctest.Wait()
			if len(sizes) != i+1 || sizes[i] != want.calls {
				t.Errorf("batches of %v, want one of %d", sizes, want.calls)
			}
		}
		call(5)
		if runs != 2 {
			t.Errorf("%d batches are under way, want 2", runs)
		}
		end <- struct{}{}
		close(ready)
		close(end)
		synctest.Wait()
		if want := []int{4, 3, 5}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %v, want %v", sizes, want)
		}
	})
}

// Posted calls are in batches like others, in their order, and none is refused.
func TestPostedCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, sizes, release := held(batch.MaxWaiting, 1)
		var results []int // guarded by synctest.Wait
		for i := range 1 + batch.MaxWaiting + 1 {
			b.Post(i, func(out int, err error) {
				if err != nil {
					t.Error(err)
				}
				results = append(results, out)
			})
			synctest.Wait()
		}
		b.Post(0, nil)
		release()
		b.Wait()
		if got, want := sizes(), []int{1, batch.MaxWaiting, 2}; !slices.Equal(got, want) {
			t.Errorf("batches of %v, want %v", got, want)
		}
		if len(results) != 2+batch.MaxWaiting || !slices.IsSorted(results) {
			t.Errorf("%d results", len(results))
		}
	})
}

func TestWaitOfAnIdleBatcher(t *testing.T) {
	b, _, _ := held(1, 1)
	b.Wait()
}

func TestCallsThatAreNotTakenFail(t *testing.T) {
	b := batch.NewLate(10, 1, func(context.Context, func() []*batch.Call[int, int]) {})
	if _, err := b.Do(t.Context(), 0); !errors.Is(err, batch.ErrNotRun) {
		t.Errorf("Do = %v, want ErrNotRun", err)
	}
}

func TestACallThatIsGivenUpDoesNotRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, sizes, release := held(10, 1)
		go func() { _, _ = b.Do(t.Context(), 0) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error)
		go func() { _, err := b.Do(ctx, 1); given <- err }()
		synctest.Wait()
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) || !errors.Is(err, batch.ErrNotRun) {
			t.Errorf("Do = %v, want ErrNotRun and context.Canceled", err)
		}
		release()
		synctest.Wait()
		if got := sizes(); len(got) != 1 {
			t.Errorf("batches of %v, want the first only", got)
		}
	})
}

func TestACallThatIsGivenUpLaterRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, sizes, release := held(10, 1)
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error)
		go func() { _, err := b.Do(ctx, 0); given <- err }()
		synctest.Wait()
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) || errors.Is(err, batch.ErrNotRun) {
			t.Errorf("Do = %v, want context.Canceled only", err)
		}
		release()
		synctest.Wait()
		if got := sizes(); len(got) != 1 {
			t.Errorf("batches of %v, want one", got)
		}
	})
}

func TestTooManyCallsAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, _, release := held(batch.MaxWaiting, 1)
		for i := range 1 + batch.MaxWaiting {
			go func() {
				if _, err := b.Do(t.Context(), i); err != nil {
					t.Error(err)
				}
			}()
			if i == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if _, err := b.Do(t.Context(), 0); !errors.Is(err, batch.ErrFull) {
			t.Errorf("Do = %v, want ErrFull", err)
		}
		release()
		synctest.Wait()
	})
}

// While calls come often, batches begin a rest after one another, and calls that arrive in it share one. A full batch does not wait.
func TestBatchesRestWhileItPays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const rest, enough = 10 * time.Millisecond, 8
		var sizes []int // guarded by synctest.Wait
		var began []time.Time
		b := batch.New(enough, 1, func(_ context.Context, calls []*batch.Call[int, int]) {
			sizes, began = append(sizes, len(calls)), append(began, time.Now())
		}).Rest(rest, enough)
		call := func(n int) {
			for range n {
				b.Post(0, nil)
			}
			synctest.Wait()
		}
		pace := func(apart time.Duration, n int) (mean float64) {
			sizes, began = nil, nil
			for range n {
				call(1)
				time.Sleep(apart)
			}
			b.Wait()
			return float64(n) / float64(len(sizes))
		}
		if mean := pace(11*time.Millisecond, 100); mean != 1 {
			t.Errorf("%v calls a batch though a rest has one at most, want 1", mean)
		}
		time.Sleep(time.Second)
		if mean := pace(2*time.Millisecond, 1000); mean < 4 || mean > 6 {
			t.Errorf("%v calls a batch, with a call each 2 ms and a rest of 10 ms, want 5", mean)
		}
		for i := 20; i < len(began); i++ {
			if apart := began[i].Sub(began[i-1]); apart < rest {
				t.Fatalf("two batches began %v after one another", apart)
			}
		}
		sizes = nil
		if call(enough - 1); len(sizes) != 0 {
			t.Errorf("batches of %v began in a rest", sizes)
		}
		if call(1); !slices.Equal(sizes, []int{enough}) {
			t.Errorf("batches of %v, want one that is full", sizes)
		}
		time.Sleep(time.Second)
		if call(1); len(sizes) != 2 {
			t.Error("the first call after a pause waits")
		}
	})
}

// Wait also waits for a batch whose rest has not ended.
func TestWaitForARest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0 // guarded by b.Wait
		b := batch.New(10, 1, func(_ context.Context, calls []*batch.Call[int, int]) { n += len(calls) }).Rest(50*time.Millisecond, 10)
		for range 3 {
			b.Post(0, nil)
			synctest.Wait()
			b.Post(0, nil)
		}
		if b.Wait(); n != 6 {
			t.Errorf("%d calls ran, want 6", n)
		}
	})
}

// A goroutine that waits for its next batch runs it, and ends when none comes.
func TestGoroutinesOfBatchesLinger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		b := batch.New(1, 2, func(context.Context, []*batch.Call[int, int]) { time.Sleep(time.Millisecond) })
		for range 10 {
			for range 4 {
				b.Post(0, nil)
			}
			b.Wait()
			synctest.Wait()
			if n := runtime.NumGoroutine() - before; n > 2 {
				t.Fatalf("%d goroutines for two batches at a time", n)
			}
		}
		if n := runtime.NumGoroutine() - before; n != 2 {
			t.Errorf("%d goroutines wait for a batch, want 2", n)
		}
		time.Sleep(time.Second)
		if n := runtime.NumGoroutine() - before; n != 0 {
			t.Errorf("%d goroutines are left", n)
		}
	})
}

// A caller that makes one call after the other gains nothing from rests, so they end soon.
func TestASequentialCallerIsNotHeldUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const calls, each, rest = 10_000, 300 * time.Microsecond, time.Millisecond
		b := batch.New(10, 1, func(context.Context, []*batch.Call[int, int]) { time.Sleep(each) }).Rest(rest, 10)
		began := time.Now()
		for range calls {
			if _, err := b.Do(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > calls*each*5/4 {
			t.Errorf("%d calls took %v, want little more than %v", calls, took, calls*each)
		}
	})
}

// Calls that did not fit into a batch, by their weight, do not rest.
func TestWhatDidNotFitDoesNotRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var began []time.Time // guarded by b.Wait
		b := batch.New(100, 1, func(context.Context, []*batch.Call[int, int]) { began = append(began, time.Now()) }).
			Weigh(4, func(int) int { return 1 }).Rest(10*time.Millisecond, 100)
		for range 1000 { // until rests pay
			b.Post(0, nil)
			time.Sleep(time.Millisecond)
		}
		b.Wait()
		time.Sleep(5 * time.Millisecond)
		began = nil
		for range 12 {
			b.Post(0, nil)
		}
		if b.Wait(); len(began) != 3 || !began[2].Equal(began[0]) {
			t.Errorf("batches began at %v, want three at once", began)
		}
	})
}

// A context of package lazydeadline has no channel, but ends a call as others do, whether its batch has begun or not.
func TestADeadlineEndsACall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, _, release := held(1, 1)
		defer release()
		within := func(most time.Duration) error {
			_, err := b.Do(lazydeadline.Detached(t.Context(), time.Now().Add(most)), 1)
			return err
		}
		began := time.Now()
		if err := within(time.Second); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, batch.ErrNotRun) || time.Since(began) != time.Second {
			t.Errorf("in a batch: %v after %v", err, time.Since(began))
		}
		if err := within(time.Minute); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, batch.ErrNotRun) || time.Since(began) != time.Minute+time.Second {
			t.Errorf("not in a batch: %v after %v", err, time.Since(began))
		}
	})
}

// Calls are used again, but none has the deadline or the result of another.
func TestACallIsNotAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		failed := errors.New("failed")
		b := batch.New(1, 2, func(_ context.Context, calls []*batch.Call[time.Duration, time.Duration]) {
			for _, c := range calls {
				if c.Out != 0 || c.Err != nil {
					t.Errorf("a call begins with %v, %v", c.Out, c.Err)
				}
				time.Sleep(c.In)
				if c.Out = c.In; c.In == 4 {
					c.Err = failed
				}
			}
		})
		ordinary, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i, c := range []struct {
			takes, most time.Duration // most 0: a context without a deadline
			want        error
		}{
			{1, 2, nil},
			{10, 20, nil}, // later than the first deadline
			{10, 5, context.DeadlineExceeded},
			{7, 20, nil}, // while the one that was given up runs
			{4, 20, failed},
			{3, 20, nil},
			{50, 0, nil}, // later than the latest deadline
			{3, 20, nil},
		} {
			ctx := ordinary
			if c.most > 0 {
				ctx = lazydeadline.Detached(t.Context(), time.Now().Add(c.most))
			}
			if out, err := b.Do(ctx, c.takes); !errors.Is(err, c.want) || err == nil && out != c.takes {
				t.Errorf("call %d: %v, %v, want %v", i, out, err, c.want)
			}
		}
	})
}

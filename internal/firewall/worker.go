package firewall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/asynqlog"
	"github.com/tidegate/tidegate/internal/loglimit"
	"github.com/tidegate/tidegate/semaphore"
)

const (
	checks       = 250 * time.Millisecond // interval of polling for tasks
	checksLater  = time.Second            // the same for delayed tasks
	goodbye      = 2 * time.Second        // for killing a program when the worker stops
	retryFirst   = 2 * time.Second        // until a failed program is run again; doubled each time
	retryMost    = 5 * time.Minute
	retryWithout = 5 * time.Second // after an error that the program did not cause
)

// WorkerOptions are the options of a Worker. All but Proxies and Logger are required.
type WorkerOptions struct {
	Namespace string
	Redis     redis.UniversalClient // for the semaphore and the breaker
	Queue     redis.UniversalClient // for Asynq
	Bans      *bans.Reader
	Rules     func() *rules.Set // returns the rules in force
	Proxies   []netip.Prefix    // trusted proxies
	Logger    *slog.Logger      // nil: slog.Default()
}

// A Worker runs the program. Make it with NewWorker. It is a prometheus.Collector.
type Worker struct {
	opts    WorkerOptions
	log     *slog.Logger
	client  *asynq.Client
	alone   *semaphore.Semaphore
	breaker *breaker
	runs    *prometheus.CounterVec

	within   time.Duration // timeout of a run
	own      func() ([]netip.Prefix, error)
	retry    func(failed int) time.Duration
	settling time.Duration // see follow

	opened  atomic.Int64 // unix ms until which the breaker is open, as last reported
	mu      sync.Mutex
	refused map[bans.Target]int64 // guarded by mu: changes already logged
}

// NewWorker starts no goroutine.
func NewWorker(opts WorkerOptions) (*Worker, error) {
	// A separate namespace: an operator's definition of a semaphore must not allow two concurrent runs.
	alone, err := semaphore.New(opts.Redis, "ban-script", semaphore.Options{Limit: 1, Namespace: opts.Namespace + "-bans"})
	if err != nil {
		return nil, fmt.Errorf("firewall: %w", err)
	}
	w := &Worker{
		opts: opts, log: opts.Logger, client: asynq.NewClientFromRedisClient(opts.Queue), alone: alone,
		breaker: newBreaker(opts.Redis, opts.Namespace), runs: newRuns(),
		within: scriptWithin, own: ownAddresses, retry: backoff, settling: settling, refused: map[bans.Target]int64{},
	}
	if w.log == nil {
		w.log = slog.Default()
	}
	return w, nil
}

// errScript is wrapped by errors of the program. Only these count as failures of a task.
var errScript = errors.New("firewall: the program failed")

// heldBack is the error for a ban that the breaker holds back.
type heldBack struct{ wait time.Duration }

func (e *heldBack) Error() string {
	return fmt.Sprintf("firewall: held back for %v: more bans than per_minute", e.wait)
}

// backoff returns how long to wait after this many failures.
func backoff(failed int) time.Duration { return min(retryFirst<<min(failed, 10), retryMost) }

// tries returns the minimum number of attempts for a ban of this length.
func tries(lasts time.Duration) int { return 20 + int(lasts/retryMost) }

// serve processes tasks until ctx ends.
func (w *Worker) serve(ctx context.Context) error {
	srv := asynq.NewServerFromRedisClient(w.opts.Queue, asynq.Config{
		Concurrency:              1,
		Queues:                   map[string]int{Queue(w.opts.Namespace): 1},
		TaskCheckInterval:        checks,
		DelayedTaskCheckInterval: checksLater,
		ShutdownTimeout:          goodbye,
		BaseContext:              func() context.Context { return ctx },
		IsFailure:                func(err error) bool { return errors.Is(err, errScript) },
		RetryDelayFunc:           w.delay,
		ErrorHandler:             asynq.ErrorHandlerFunc(w.failed),
		Logger:                   asynqlog.New(w.log),
		LogLevel:                 asynq.WarnLevel,
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc(Task, w.handle)
	if err := srv.Start(mux); err != nil {
		return fmt.Errorf("firewall: %w", err)
	}
	<-ctx.Done()
	srv.Shutdown()
	return ctx.Err()
}

func (w *Worker) delay(failed int, err error, _ *asynq.Task) time.Duration {
	var held *heldBack
	switch {
	case errors.As(err, &held):
		return held.wait + rand.N(time.Second)
	case errors.Is(err, errScript):
		return w.retry(failed)
	}
	return retryWithout
}

func (w *Worker) failed(ctx context.Context, _ *asynq.Task, err error) {
	var held *heldBack
	if errors.As(err, &held) || ctx.Err() != nil {
		return
	}
	w.log.WarnContext(ctx, "bans: could not send a change to the firewall; will retry", "error", err) // contains the target
}

// handle processes a task.
func (w *Worker) handle(ctx context.Context, t *asynq.Task) error {
	var p payload
	if err := json.Unmarshal(t.Payload(), &p); err != nil {
		return fmt.Errorf("%w: firewall: %w", asynq.SkipRetry, err)
	}
	target, err := bans.ParseTarget(string(p.Kind), p.Value)
	if err != nil {
		return fmt.Errorf("%w: firewall: %w", asynq.SkipRetry, err)
	}
	how := first
	if failed, _ := asynq.GetRetryCount(ctx); p.Later || failed > 0 {
		how = again
	}
	err = w.turn(ctx, target, how)
	var held *heldBack
	if errors.As(err, &held) && !p.Later {
		// The breaker counts a ban's first task only, so a ban that is held back continues in another task, marked as Later.
		id, _ := asynq.GetTaskID(ctx)
		tries, _ := asynq.GetMaxRetry(ctx)
		return enqueue(ctx, w.client, w.opts.Namespace, "later:"+id, payload{p.Kind, p.Value, true}, 0,
			asynq.ProcessIn(held.wait), asynq.MaxRetry(tries))
	}
	return err
}

// turn updates the firewall for a target, under the permit.
func (w *Worker) turn(ctx context.Context, target bans.Target, how asking) error {
	permit, full, err := w.alone.Acquire(ctx)
	if full != nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("firewall: wait for the permit: %w", err)
	}
	defer func() { _ = permit.Release() }() // on error the lease expires
	ctx, cancel := permit.WithContext(ctx)
	defer cancel()
	return w.agree(ctx, target, how)
}

// mostLooks is how often one task runs the program for a target that changes meanwhile. Later changes are left to the next task.
const mostLooks = 10

// agree runs the program, and again if the ban has changed in the meantime: see doc.go.
func (w *Worker) agree(ctx context.Context, target bans.Target, how asking) error {
	for look, change := 0, int64(0); look < mostLooks; look++ {
		b, at, _, err := w.opts.Bans.Find(ctx, target)
		if err != nil {
			return fmt.Errorf("firewall: look at the ban: %w", err)
		}
		if look > 0 && b.Change == change {
			return nil
		}
		change, b.Target = b.Change, target
		if err := w.apply(ctx, &b, b.Until.Sub(at), how); err != nil {
			return err
		}
	}
	return errors.New("firewall: the ban changes all the time")
}

// apply updates the firewall to match b, with left of its time remaining. A ban that the store does not have counts as lifted.
func (w *Worker) apply(ctx context.Context, b *bans.Ban, left time.Duration, how asking) error {
	rules := w.opts.Rules()
	script := scriptOf(rules)
	p, ok := b.Prefix()
	if !ok || len(script.Argv) == 0 {
		return nil
	}
	if !b.Lifted() {
		why := "it is over"
		if left > 0 {
			own, err := w.own()
			if err != nil {
				return err
			}
			if why = never(p, rules, own, w.opts.Proxies); why == "" {
				return w.ban(ctx, rules, b, p, left, how)
			}
			w.refuse(ctx, b, p, why)
		}
		// A ban that is now refused must be removed if the firewall has it, and so must one that has ended earlier than the firewall
		// expects.
		if sent, err := w.breaker.sent(ctx, b.Target); err != nil || !sent {
			return err
		}
		w.log.InfoContext(ctx, "bans: removing an entry from the firewall", "target", written(p), "why_not", why)
	}
	if err := w.run(ctx, script, "unban", p); err != nil {
		return err
	}
	return w.breaker.forget(ctx, b.Target)
}

func (w *Worker) ban(ctx context.Context, rules *rules.Set, b *bans.Ban, p netip.Prefix, left time.Duration, how asking) error {
	script := scriptOf(rules)
	a, err := w.breaker.allow(ctx, b.Target, left, how, script.PerMinute)
	if err != nil {
		return err
	}
	if how != free {
		w.observe(ctx, a)
	}
	if a.wait > 0 {
		w.runs.WithLabelValues("ban", "postponed").Inc()
		return &heldBack{a.wait}
	}
	return w.run(ctx, script, "ban", p, fmt.Sprint(seconds(left)), string(reasonOf(b, rules)))
}

// observe records the state of the breaker.
func (w *Worker) observe(ctx context.Context, a answer) {
	if a.wait > 0 && a.open == 0 {
		return // it is closed, and there is no room yet
	}
	until := int64(0)
	if a.open > 0 {
		until = time.Now().Add(a.open).UnixMilli()
	}
	switch before := w.opened.Swap(until); {
	case a.opened:
		w.log.WarnContext(ctx, "bans: more than per_minute; no more are sent to the firewall until a minute has passed without; "+
			"they are in force all the same")
	case before > 0 && a.wait == 0:
		w.log.InfoContext(ctx, "bans: sending bans to the firewall again")
	}
}

// run runs the program.
func (w *Worker) run(ctx context.Context, script Script, action string, target netip.Prefix, more ...string) error {
	err := execute(ctx, w.within, slices.Concat(script.Argv, []string{action, written(target)}, more))
	result := "ok"
	switch {
	case err == nil:
	case errors.Is(err, errSlow):
		result = "timeout"
	case ctx.Err() != nil: // the worker is stopping; another one will run it
		return err
	default:
		result = "failed"
	}
	w.runs.WithLabelValues(action, result).Inc()
	if err != nil {
		return fmt.Errorf("%w: %s %s: %w", errScript, action, written(target), err)
	}
	return nil
}

// refuse counts a ban that is not passed to the firewall, and logs it once.
func (w *Worker) refuse(ctx context.Context, b *bans.Ban, p netip.Prefix, why string) {
	w.runs.WithLabelValues("ban", "refused").Inc()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused[b.Target] == b.Change {
		return
	}
	if len(w.refused) > 1000 {
		clear(w.refused)
	}
	w.refused[b.Target] = b.Change
	w.log.WarnContext(loglimit.Keep(ctx), "bans: not sent to the firewall", "target", written(p), "why", why)
}

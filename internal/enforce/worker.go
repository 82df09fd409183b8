package enforce

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

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/semaphore"
)

const (
	checks       = 250 * time.Millisecond // between two looks whether there is something to do
	checksLater  = time.Second            // the same for tasks that are due later
	goodbye      = 2 * time.Second        // for a program to be killed when the worker stops
	retryFirst   = 2 * time.Second        // until a program that failed is run again; then twice as long each time
	retryMost    = 5 * time.Minute
	retryWithout = 5 * time.Second // after what was no fault of the program
)

// WorkerOptions of a Worker. All but Proxies and Logger are required.
type WorkerOptions struct {
	Namespace string
	Redis     redis.UniversalClient // of the semaphore and the breaker
	Queue     redis.UniversalClient // Asynq's
	Bans      *admission.BanReader
	Rules     func() *admission.Rules // those in force
	Proxies   []netip.Prefix          // that are trusted
	Logger    *slog.Logger            // nil: slog.Default()
}

// A Worker runs the program. Make it with NewWorker. It is a prometheus.Collector.
type Worker struct {
	opts    WorkerOptions
	log     *slog.Logger
	client  *asynq.Client
	alone   *semaphore.Semaphore
	breaker *breaker
	runs    *prometheus.CounterVec

	within   time.Duration // of a run
	own      func() ([]netip.Prefix, error)
	retry    func(failed int) time.Duration
	settling time.Duration // see follow

	opened  atomic.Int64 // unix ms up to which the breaker is open, as last heard of
	mu      sync.Mutex
	refused map[admission.BanTarget]int64 // guarded by mu: changes of which the log has heard
}

// NewWorker starts nothing. Run closes what it made.
func NewWorker(opts WorkerOptions) (*Worker, error) {
	// The namespace is its own: no definition of operators for theirs may let two programs run at once.
	alone, err := semaphore.New(opts.Redis, "ban-script", semaphore.Options{Limit: 1, Namespace: opts.Namespace + "-bans"})
	if err != nil {
		return nil, fmt.Errorf("enforce: %w", err)
	}
	w := &Worker{
		opts: opts, log: opts.Logger, client: asynq.NewClientFromRedisClient(opts.Queue), alone: alone,
		breaker: newBreaker(opts.Redis, opts.Namespace), runs: newRuns(),
		within: scriptWithin, own: ownAddresses, retry: backoff, settling: settling, refused: map[admission.BanTarget]int64{},
	}
	if w.log == nil {
		w.log = slog.Default()
	}
	return w, nil
}

// errScript is in the error of a program that failed, which is the only failure of a task.
var errScript = errors.New("enforce: the program failed")

// heldBack is the error of a ban that the program may not be run for yet.
type heldBack struct{ wait time.Duration }

func (e *heldBack) Error() string {
	return fmt.Sprintf("enforce: held back for %v: more bans than per_minute", e.wait)
}

// backoff is how long to wait after so many failures.
func backoff(failed int) time.Duration { return min(retryFirst<<min(failed, 10), retryMost) }

// tries is how often a program is run for a ban that lasts so long, at least.
func tries(lasts time.Duration) int { return 20 + int(lasts/retryMost) }

// serve does tasks until ctx ends.
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
		Logger:                   orders.AsynqLogger{Logger: w.log},
		LogLevel:                 asynq.WarnLevel,
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc(Task, w.handle)
	if err := srv.Start(mux); err != nil {
		return fmt.Errorf("enforce: %w", err)
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
	w.log.WarnContext(ctx, "bans: the firewall was not told, which is tried again", "error", err) // which names the target
}

// handle does a task.
func (w *Worker) handle(ctx context.Context, t *asynq.Task) error {
	var p payload
	if err := json.Unmarshal(t.Payload(), &p); err != nil {
		return fmt.Errorf("%w: enforce: %w", asynq.SkipRetry, err)
	}
	target, err := admission.ParseBanTarget(string(p.Kind), p.Value)
	if err != nil {
		return fmt.Errorf("%w: enforce: %w", asynq.SkipRetry, err)
	}
	how := first
	if failed, _ := asynq.GetRetryCount(ctx); p.Later || failed > 0 {
		how = again
	}
	err = w.turn(ctx, target, how)
	var held *heldBack
	if errors.As(err, &held) && !p.Later {
		// The breaker counts a ban once, so what is held back has to be known by another task.
		id, _ := asynq.GetTaskID(ctx)
		tries, _ := asynq.GetMaxRetry(ctx)
		return enqueue(ctx, w.client, w.opts.Namespace, "later:"+id, payload{p.Kind, p.Value, true}, 0,
			asynq.ProcessIn(held.wait), asynq.MaxRetry(tries))
	}
	return err
}

// turn makes the firewall agree with how a target stands, while nobody else does.
func (w *Worker) turn(ctx context.Context, target admission.BanTarget, how asking) error {
	permit, err := w.alone.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("enforce: %w", err)
	}
	defer func() { _ = permit.Release() }() // or else its lease ends
	ctx, cancel := permit.Under(ctx)
	defer cancel()
	return w.agree(ctx, target, how)
}

// A target that changes more often than that while it is looked at can wait for the next task.
const mostLooks = 10

// agree runs the program, and again if the ban has changed meanwhile: see doc.go.
func (w *Worker) agree(ctx context.Context, target admission.BanTarget, how asking) error {
	for look, change := 0, int64(0); look < mostLooks; look++ {
		b, at, _, err := w.opts.Bans.Find(ctx, target)
		if err != nil {
			return fmt.Errorf("enforce: look at the ban: %w", err)
		}
		if look > 0 && b.Change == change {
			return nil
		}
		change, b.BanTarget = b.Change, target
		if err := w.enforce(ctx, &b, b.Until.Sub(at), how); err != nil {
			return err
		}
	}
	return errors.New("enforce: the ban changes all the time")
}

// enforce makes the firewall agree with b, of which so much is left. A ban that nobody knows of is as one that was lifted.
func (w *Worker) enforce(ctx context.Context, b *admission.Ban, left time.Duration, how asking) error {
	rules := w.opts.Rules()
	script := rules.BanScript()
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
		// What the firewall was told of before this was refused must go. And a firewall that was told of a longer ban must hear that it is over.
		if knows, err := w.breaker.knows(ctx, b.BanTarget); err != nil || !knows {
			return err
		}
		w.log.InfoContext(ctx, "bans: the firewall still knows", "target", written(p), "why_not", why)
	}
	if err := w.run(ctx, script, "unban", p); err != nil {
		return err
	}
	return w.breaker.forget(ctx, b.BanTarget)
}

func (w *Worker) ban(ctx context.Context, rules *admission.Rules, b *admission.Ban, p netip.Prefix, left time.Duration, how asking) error {
	script := rules.BanScript()
	a, err := w.breaker.allow(ctx, b.BanTarget, left, how, script.PerMinute)
	if err != nil {
		return err
	}
	if how != free {
		w.heard(ctx, a)
	}
	if a.wait > 0 {
		w.runs.WithLabelValues("ban", "postponed").Inc()
		return &heldBack{a.wait}
	}
	return w.run(ctx, script, "ban", p, fmt.Sprint(seconds(left)), string(reasonOf(b, rules)))
}

// heard notes how the breaker stands.
func (w *Worker) heard(ctx context.Context, a answer) {
	if a.wait > 0 && a.open == 0 {
		return // it is closed, and there is no room yet
	}
	until := int64(0)
	if a.open > 0 {
		until = time.Now().Add(a.open).UnixMilli()
	}
	switch before := w.opened.Swap(until); {
	case a.opened:
		w.log.WarnContext(ctx, "bans: more than per_minute, so the firewall is told of no more until a minute has passed without; "+
			"they are in force all the same")
	case before > 0 && a.wait == 0:
		w.log.InfoContext(ctx, "bans: the firewall is told again")
	}
}

// run runs the program.
func (w *Worker) run(ctx context.Context, script admission.BanScript, action string, target netip.Prefix, more ...string) error {
	err := execute(ctx, w.within, slices.Concat(script.Argv, []string{action, written(target)}, more))
	result := "ok"
	switch {
	case err == nil:
	case errors.Is(err, errSlow):
		result = "timeout"
	case ctx.Err() != nil: // we go, and somebody else runs it
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

// refuse counts a ban that the firewall is not told of, and says so once.
func (w *Worker) refuse(ctx context.Context, b *admission.Ban, p netip.Prefix, why string) {
	w.runs.WithLabelValues("ban", "refused").Inc()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused[b.BanTarget] == b.Change {
		return
	}
	if len(w.refused) > 1000 {
		clear(w.refused)
	}
	w.refused[b.BanTarget] = b.Change
	w.log.WarnContext(ctx, "bans: the firewall is not told", "target", written(p), "why", why)
}

package asynqueue

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/asynqkeys"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders/internal/tasks"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// polls is a poller of some queues, and its polls.
type polls struct {
	*poller
	t           *testing.T
	empty, task string // scripts, by their SHA1
	done        chan struct{}
}

func newPolls(t *testing.T, queues int) *polls {
	rdb := redis.NewClient(&redis.Options{Addr: testenv.StartRedis(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	p := &polls{t: t, done: make(chan struct{})}
	p.empty, p.task = rdb.ScriptLoad(t.Context(), "return false").Val(), rdb.ScriptLoad(t.Context(), "return 'a task'").Val()
	p.poller = newPoller(rdb, queues, 64, newSignals(), p.done)
	p.idle, p.drained = time.Hour, time.Now()
	return p
}

// poll polls a queue with a script. The result is closed afterwards.
func (p *polls) poll(script string) <-chan struct{} {
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		p.EvalSha(p.t.Context(), script, []string{asynqkeys.Pending("q"), "paused", "active", asynqkeys.Key("q", "lease")})
	}()
	return polled
}

// waits reports an error unless the next poll waits for a signal, which it gets.
func (p *polls) waits(script string) {
	p.t.Helper()
	polled := p.poll(script)
	select {
	case <-polled:
		p.t.Error("it polled without a signal")
	case <-time.After(20 * time.Millisecond):
		p.signals.add()
		<-polled
	}
}

// TestAPollerPollsAsOftenAsTasksWereSignalled, and then waits until another one is, or until it is stopped.
func TestAPollerPollsAsOftenAsTasksWereSignalled(t *testing.T) {
	p := newPolls(t, 1)
	p.waits(p.task)
	p.waits(p.task)
	for range 3 {
		p.signals.add()
	}
	for range 3 {
		<-p.poll(p.task)
	}
	for range 3 {
		p.signals.add() // another worker finds those tasks
	}
	<-p.poll(p.empty)
	p.waits(p.empty)
	polled := p.poll(p.empty)
	close(p.done)
	<-polled
}

// TestASignalDuringAPoll is for the next one, however the poll ends.
func TestASignalDuringAPoll(t *testing.T) {
	p := newPolls(t, 1)
	p.signals.add()
	p.polled, p.before = 0, 1
	p.poller.poll(t.Context(), func(redis.Scripter) *redis.Cmd {
		p.signals.add()
		c := redis.NewCmd(t.Context())
		c.SetErr(redis.Nil)
		return c
	})
	<-p.poll(p.task)
	p.waits(p.task)
}

// TestOneSignalIsForARoundOfManyQueues: the server polls them in a different order each time, until it finds a task.
func TestOneSignalIsForARoundOfManyQueues(t *testing.T) {
	p := newPolls(t, 3)
	p.waits(p.empty)
	<-p.poll(p.empty)
	<-p.poll(p.empty)
	p.waits(p.empty)
	<-p.poll(p.task)
	p.waits(p.task)
}

// TestSignalsMayBeLost: after two tasks without a signal, the next polls do not wait for one, also if there are signals of others.
func TestSignalsMayBeLost(t *testing.T) {
	p := newPolls(t, 1)
	p.idle = time.Millisecond
	<-p.poll(p.task) // found after p.idle
	if !p.lost.IsZero() {
		t.Error("the signal of one task may be on its way")
	}
	<-p.poll(p.task)
	for range 3 {
		p.signals.add()
		for range 3 {
			<-p.poll(p.task)
		}
	}
	p.idle = time.Hour
	p.lost = p.lost.Add(-time.Hour)
	p.drained = time.Time{}
	<-p.poll(p.empty)
	p.waits(p.empty)
}

// TestABacklogIsDrained: tasks that were not signalled do not stay before those that are.
func TestABacklogIsDrained(t *testing.T) {
	p := newPolls(t, 1)
	p.drained = time.Now().Add(-2 * p.idle)
	for range 3 {
		p.signals.add()
		for range 5 {
			<-p.poll(p.task)
		}
	}
	p.lost = time.Time{}
	<-p.poll(p.empty)
	p.waits(p.task)
}

// TestAPollerWithoutRedis keeps the signals, and does not poll in a loop.
func TestAPollerWithoutRedis(t *testing.T) {
	p := newPolls(t, 1)
	p.signals.add()
	<-p.poll("no script") // Eval follows
	p.signals.take(1)
	<-p.poll(p.empty)
	redisAgain := p.UniversalClient
	p.UniversalClient = redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer p.UniversalClient.Close()
	p.signals.add()
	<-p.poll(p.task)
	p.UniversalClient = redisAgain
	began := time.Now()
	<-p.poll(p.task)
	if waited := time.Since(began); waited < pause {
		t.Errorf("it waited %v after a failure", waited)
	}
	p.waits(p.empty)
}

// pipelines is a hook that sends how many scripts each pipeline has, of those with any.
type pipelines chan int

func (p pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		scripts := 0
		for _, cmd := range cmds {
			if cmd.Name() == "evalsha" {
				scripts++
			}
		}
		if scripts > 0 {
			p <- scripts
		}
		return next(ctx, cmds)
	}
}

// end ends a task with a script, and sends the reply.
func (p *polls) end(script string) <-chan *redis.Cmd {
	ended := make(chan *redis.Cmd, 1)
	go func() {
		ended <- p.EvalSha(p.t.Context(), script, []string{asynqkeys.Key("q", "active"), asynqkeys.Key("q", "lease"), "task", "today", "all"})
	}()
	return ended
}

// TestEndsOfTasksShareTheRoundTripOfAPoll, and each gets its own reply. They wait for it for a moment, unless the server is to stop.
func TestEndsOfTasksShareTheRoundTripOfAPoll(t *testing.T) {
	p := newPolls(t, 1)
	scripts := make(pipelines, 1000)
	p.UniversalClient.(*redis.Client).AddHook(scripts)
	for together := 0; together != 3; { // a busy machine may begin the ends too late
		ended, other, polled := p.end(p.task), p.end("no script"), p.poll(p.empty)
		time.Sleep(endWithin / 5)
		p.signals.add()
		<-polled
		if c := <-ended; c.Val() != "a task" {
			t.Errorf("%v", c)
		}
		if c := <-other; !redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
			t.Errorf("%v", c)
		}
		for len(scripts) > 0 {
			together = <-scripts
		}
	}
	began := time.Now()
	if c := <-p.end(p.task); c.Val() != "a task" {
		t.Errorf("%v", c)
	}
	if took := time.Since(began); took < endWithin {
		t.Errorf("it waited %v for a poll", took)
	}
	close(p.done)
	for range 1000 {
		<-p.end(p.task)
	}
	if took := time.Since(began); took > 1000*endWithin {
		t.Errorf("%v for 1,000 ends while the server stops", took)
	}
}

// TestAllSlotsAreFreedAtOnce: while all are taken no poll comes, so no end waits for one.
func TestAllSlotsAreFreedAtOnce(t *testing.T) {
	p := newPolls(t, 1)
	const tasks = 200
	p.slots = 2
	began := time.Now()
	for range tasks {
		_ = p.handle(func() error { <-p.end(p.task); return nil })
	}
	if took := time.Since(began); took > tasks*endWithin/2 {
		t.Errorf("%v for %d tasks", took, tasks)
	}
}

// TestTasksEndWithThePollsOfAServer: it is Asynq that names the scripts' keys.
func TestTasksEndWithThePollsOfAServer(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: testenv.StartRedis(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	scripts := make(pipelines, 10_000)
	rdb.AddHook(scripts)
	q, handled, worked := New(rdb), make(chan struct{}, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		worked <- q.Work(ctx, tasks.Worker{
			Queues: []string{"q"}, Concurrent: 4, Logger: slog.New(slog.DiscardHandler),
			Handle: func(context.Context, tasks.Task) error { handled <- struct{}{}; return nil },
			Delay:  func(error) time.Duration { return time.Second },
		})
	}()
	for shared := false; !shared; {
		if err := q.Put(t.Context(), tasks.Task{Queue: "q", Type: "t"}, 0); err != nil {
			t.Fatal(err)
		}
		<-handled
		for len(scripts) > 0 {
			shared = <-scripts > 1 || shared // Put sends one, with its signal
		}
	}
	stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	states, err := q.Tasks(t.Context(), []string{"q"})
	if err != nil {
		t.Fatal(err)
	}
	for state, n := range states {
		if n > 0 {
			t.Errorf("%d tasks are %s", n, state)
		}
	}
}

// TestPutSignals: each task that workers may take now is signalled, also to a server that does not have the script.
func TestPutSignals(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: testenv.StartRedis(t).Addr()})
	defer rdb.Close()
	sub := rdb.Subscribe(t.Context(), asynqkeys.Pending("q"))
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	q := New(rdb)
	for _, delay := range []time.Duration{0, time.Hour, 0} {
		if err := q.Put(t.Context(), tasks.Task{Queue: "q", Type: "t"}, delay); err != nil {
			t.Fatal(err)
		}
	}
	if err := rdb.Publish(t.Context(), asynqkeys.Pending("q"), "last").Err(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(got) == 0 || got[len(got)-1] != "last" {
		m, err := sub.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Payload)
	}
	// The first task was put with two scripts, because the server had none.
	if want := []string{"", "", "", "last"}; !slices.Equal(got, want) {
		t.Errorf("signals %q, want %q", got, want)
	}
	if n := rdb.LLen(t.Context(), asynqkeys.Pending("q")).Val(); n != 2 {
		t.Errorf("%d tasks are pending", n)
	}
}

package semaphore_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/semaphore"
)

// Some proofs need more than one process: then the test binary starts itself again with a job, and reads what the child says it did.

const jobVariable = "SEMAPHORE_TEST_JOB"

// A job is what a child does: so many workers acquire, renew and release the permits of one semaphore until time is up.
type job struct {
	Addr, Namespace, Name string
	Definition            semaphore.Definition // for when Redis has lost it
	Label                 string               // of its workers, before their number
	Workers               int
	Keep                  int           // so many of them hold on to what they get until they lose it or time is up
	Once                  bool          // each of them acquires once, and releases at once
	For                   time.Duration // then time is up; 0: when its stdin is closed
	Lossy                 float64       // the chance that a reply is lost
	Deaf                  bool          // no message of pub/sub arrives
}

// An event is what a child says. Times are ns of CLOCK_MONOTONIC, which all processes of a machine share.
type event struct {
	What     what
	Token    int64
	At, Done int64 // an operation was called, and had returned
	Worker   int
}

type what string

const (
	acquired  what = "acquired"
	renewed   what = "renewed"
	releasing what = "releasing" // a release was called
	released  what = "released"
	lost      what = "lost" // the context has ended with ErrPermitLost
)

func monotonic() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic(errno)
	}
	return ts.Nano()
}

// runJob is the child's main.
func runJob(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if j.For > 0 {
		ctx, cancel = context.WithTimeout(ctx, j.For)
	}
	defer cancel()
	go func() { // the parent's death is this one's
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	rdb := dialWith(j.Addr, faults{lossy: j.Lossy, deaf: j.Deaf})
	defer rdb.Close()
	set, err := semaphore.NewSet(rdb, semaphore.SetOptions{
		Namespace: j.Namespace,
		Lookup:    func(context.Context, string) (semaphore.Definition, error) { return j.Definition, nil },
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() { _ = set.Run(running) })
	defer ended.Wait()
	defer stop()
	s, err := set.Semaphore(j.Name)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for i := range j.Workers {
		w := worker{job: j, semaphore: s, number: i}
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
	return nil
}

type worker struct {
	job       job
	semaphore *semaphore.Semaphore
	number    int
}

var say struct {
	sync.Mutex
	to *os.File
}

// tell writes an event immediately, so that a killed child has reported all its events.
func tell(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	say.Lock()
	defer say.Unlock()
	_, _ = say.to.Write(append(line, '\n'))
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		called := monotonic()
		p, _, _ := w.semaphore.AcquireWith(ctx, semaphore.Request{Holder: fmt.Sprint(w.job.Label, w.number)})
		if p == nil {
			periodic.Pause(ctx, 10*time.Millisecond) // Redis may be away
			continue
		}
		tell(event{What: acquired, Token: p.Token(), At: called, Done: monotonic(), Worker: w.number})
		w.hold(ctx, p)
		if w.job.Once {
			return
		}
	}
}

// hold holds p for a while, mostly a short one, and renews it by hand too, so that its renewals are in the history.
func (w *worker) hold(ctx context.Context, p *semaphore.Permit) {
	lease := w.job.Definition.Lease
	until := time.After(time.Duration(rand.Int64N(int64(10 * time.Millisecond))))
	switch {
	case w.number < w.job.Keep:
		until = nil
	case w.job.Once:
		until = time.After(0)
	case rand.IntN(25) == 0:
		until = time.After(time.Duration(rand.Int64N(int64(lease / 2))))
	}
	ticks := time.NewTicker(lease / 6)
	defer ticks.Stop()
	for over := false; !over; {
		select {
		case <-p.Context().Done():
			over = true
		case <-until:
			over = true
		case <-ctx.Done():
			over = true
		case <-ticks.C:
			called := monotonic()
			if p.Renew(p.Context()) == nil {
				tell(event{What: renewed, Token: p.Token(), At: called, Done: monotonic()})
			}
		}
	}
	if p.Context().Err() == nil {
		called := monotonic()
		tell(event{What: releasing, Token: p.Token(), At: called})
		if err := p.Release(); err == nil && !errors.Is(context.Cause(p.Context()), semaphore.ErrPermitLost) {
			tell(event{What: released, Token: p.Token(), At: called, Done: monotonic()})
		}
	}
	if errors.Is(context.Cause(p.Context()), semaphore.ErrPermitLost) {
		tell(event{What: lost, Token: p.Token(), At: monotonic()})
	}
}

// A child is another process that runs a job.
type child struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
	read   chan struct{} // closed when all has been read

	mu     sync.Mutex
	events []event
	told   chan struct{} // closed and replaced with each event
}

func spawn(t testing.TB, j job) *child {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.CommandContext(context.Background(), os.Args[0]), read: make(chan struct{}), told: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	c.cmd.Stderr = &c.stderr
	stdin, err1 := c.cmd.StdinPipe()
	stdout, err2 := c.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, c.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	go func() {
		defer close(c.read)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil { // one that was cut off is one that was not said
				c.hear(e)
			}
		}
	}()
	t.Cleanup(func() {
		if !c.gone() {
			c.kill()
		}
	})
	return c
}

func (c *child) hear(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
	close(c.told)
	c.told = make(chan struct{})
}

// said returns what it has said so far.
func (c *child) said() []event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]event(nil), c.events...)
}

// until waits until what it has said is enough.
func (c *child) until(enough func([]event) bool) {
	c.t.Helper()
	ctx := soon(c.t)
	for {
		c.mu.Lock()
		told := c.told
		c.mu.Unlock()
		if enough(c.said()) {
			return
		}
		select {
		case <-told:
		case <-c.read:
			if !enough(c.said()) {
				c.t.Fatalf("a child ended too early: %s", c.stderr.String())
			}
			return
		case <-ctx.Done():
			c.t.Fatalf("a child has said only %d things", len(c.said()))
		}
	}
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// gone reports whether the child was killed or has exited.
func (c *child) gone() bool { return c.cmd.ProcessState != nil }

// kill ends it as a crash would.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.read
	_ = c.cmd.Wait()
}

// end lets it come to its end, and fails the test where that is a bad one.
func (c *child) end() {
	c.t.Helper()
	if c.gone() {
		return
	}
	_ = c.stdin.Close()
	<-c.read
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("a child: %v\n%s", err, c.stderr.String())
	}
}

// beChild runs the job that the environment has, if any, instead of the tests.
func beChild() {
	text := os.Getenv(jobVariable)
	if text == "" {
		return
	}
	say.to = os.Stdout
	if err := runJob(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

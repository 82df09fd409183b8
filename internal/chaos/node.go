package chaos

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
)

// restartAfter is how long a node stays away when nothing else is said: what an init system takes.
const restartAfter = 100 * time.Millisecond

// node is one process of the product. Whenever it ends it is started again, as an init system would. Safe for concurrent use.
type node struct {
	name string
	path string
	env  []string
	live string // URL that answers 200 while the process is ready

	mu        sync.Mutex
	cmd       *exec.Cmd     // nil between an end and the next start
	failpoint string        // of the next start
	armed     bool          // the process that runs dies at a failpoint
	leaving   bool          // the process that runs was told to end
	clock     time.Duration // by which it is wrong, whichever process runs
	away      time.Duration // until the next start
	frozen    time.Time     // until when; zero: it runs
	killed    time.Time     // when a process last ended in any way
	changed   chan struct{}

	stop context.CancelFunc
	over chan struct{}
}

// newNode starts a process that logs into dir.
func newNode(ctx context.Context, dir, name, path, live string, env ...string) (*node, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	n := &node{name: name, path: path, env: env, live: live, away: restartAfter, changed: make(chan struct{}), stop: stop, over: make(chan struct{})}
	go func() {
		defer close(n.over)
		defer log.Close()
		n.run(ctx, log)
	}()
	return n, nil
}

// run keeps a process running until ctx ends.
func (n *node) run(ctx context.Context, log io.Writer) {
	for ctx.Err() == nil {
		n.mu.Lock()
		cmd := exec.Command(n.path) //nolint:noctx // its end is the node's business
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LOG_FORMAT=json"}, n.env...)
		if n.failpoint != "" {
			cmd.Env = append(cmd.Env, "FAILPOINT="+n.failpoint)
		}
		if n.clock != 0 {
			cmd.Env = append(cmd.Env, fmt.Sprintf("CLOCK_SHIFT=%d", int64(n.clock.Seconds())))
		}
		cmd.Stderr = log
		err := testenv.StartChild(cmd)
		if err == nil {
			n.cmd, n.frozen, n.armed, n.failpoint = cmd, time.Time{}, n.failpoint != "", ""
		}
		n.mu.Unlock()
		if err != nil {
			fmt.Fprintf(log, "chaos: start: %v\n", err)
		} else {
			ended := context.AfterFunc(ctx, func() { n.end(cmd) })
			_ = cmd.Wait()
			ended()
		}
		n.mu.Lock()
		n.cmd, n.armed, n.leaving, n.frozen, n.killed = nil, false, false, time.Time{}, time.Now()
		away := n.away
		n.away = restartAfter
		close(n.changed)
		n.changed = make(chan struct{})
		n.mu.Unlock()
		pause(ctx, away)
	}
}

// end asks a process to end, and makes it when it does not.
func (n *node) end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() }) // it may be gone
}

// close ends the process for good.
func (n *node) close() {
	n.stop()
	<-n.over
}

func (n *node) signal(s syscall.Signal) bool {
	return n.cmd != nil && n.cmd.Process.Signal(s) == nil
}

// kill is kill -9; the node stays away for so long.
func (n *node) kill(away time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = max(away, restartAfter)
	n.leaving = n.signal(syscall.SIGKILL)
	return n.leaving
}

// restart tells the process to end in order. The next one dies at the failpoint, if one is given, and its clock is wrong by so much more.
func (n *node) restart(failpoint string, clock time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return false
	}
	n.failpoint, n.leaving = failpoint, true
	n.clock += clock
	n.signal(syscall.SIGCONT)
	return n.signal(syscall.SIGTERM)
}

// freeze stops the process where it is, for so long at least: its connections stay, and its clock goes on.
func (n *node) freeze(d time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.signal(syscall.SIGSTOP) {
		return false
	}
	if until := time.Now().Add(d); until.After(n.frozen) {
		n.frozen = until
	}
	return true
}

// halt freezes the process with that pid, and tells whether it is the one that runs. It may have stopped by itself before.
func (n *node) halt(pid int, d time.Duration) bool { return n.is(pid) && n.freeze(d) }

// is tells whether the process that runs has that pid.
func (n *node) is(pid int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd != nil && n.cmd.Process.Pid == pid
}

// thaw lets the process run on, unless it was frozen for longer.
func (n *node) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Until(n.frozen) < 50*time.Millisecond {
		n.frozen = time.Time{}
		n.signal(syscall.SIGCONT)
	}
}

// ended waits until the process that runs now has ended.
func (n *node) ended(ctx context.Context) bool {
	n.mu.Lock()
	changed, running := n.changed, n.cmd != nil
	n.mu.Unlock()
	if !running {
		return true
	}
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}

// lastEnd is when a process of the node last ended; the zero time is never. ending tells whether the one that runs is going to.
func (n *node) lastEnd() (at time.Time, ending bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.killed, n.armed || n.leaving
}

// ready waits until the process answers that it is.
func (n *node) ready(ctx context.Context) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.live, http.NoBody)
		if err != nil {
			return err
		}
		said := "no answer"
		resp, err := quick.Do(req)
		if err == nil {
			body, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			said = string(body)
		}
		if !pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%s is not ready: %s", n.name, said)
		}
	}
}

// quick asks processes that may be dead or frozen, over a connection of its own each time.
var quick = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// pause waits and tells whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

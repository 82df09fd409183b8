package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

// restartAfter is the default time that a node stays down, like the restart delay of an init system.
const restartAfter = 100 * time.Millisecond

// node is one process of the product. Whenever it ends it is restarted, as an init system would do. Safe for concurrent use.
type node struct {
	name  string
	path  string
	env   []string
	live  string // URL that answers 200 while the process is ready
	log   *nodeLog
	clock *os.File // by how many seconds the clock of the process is wrong, see shiftedClock

	mu        sync.Mutex
	cmd       *exec.Cmd     // nil between an end and the next start
	failpoint string        // of the next start
	armed     bool          // the running process will die at a failpoint
	leaving   bool          // the running process was signalled to end
	wrong     time.Duration // shift of the clock, for every process of the node
	moved     time.Duration // a further one, for now
	away      time.Duration // down time until the next start
	frozen    time.Time     // until when; zero: not frozen
	killed    time.Time     // when a process last ended in any way
	changed   chan struct{}

	stop context.CancelFunc
	over chan struct{}
}

// newNode starts a process that logs into dir.
func newNode(ctx context.Context, dir, name, path, live string, env ...string) (*node, error) {
	log, err := newNodeLog(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	clock, err := os.Create(filepath.Join(dir, name+".clock"))
	if err != nil {
		return nil, errors.Join(err, log.close())
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	n := &node{name: name, path: path, env: env, live: live, log: log, clock: clock, away: restartAfter, changed: make(chan struct{}), stop: stop, over: make(chan struct{})}
	go func() {
		defer close(n.over)
		defer clock.Close()
		n.run(ctx)
		if err := log.close(); err != nil {
			panic("chaos: " + err.Error())
		}
	}()
	return n, nil
}

// run keeps a process running until ctx ends.
func (n *node) run(ctx context.Context) {
	for ctx.Err() == nil {
		n.mu.Lock()
		cmd := exec.Command(n.path)
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LOG_FORMAT=json", "CLOCK_FILE=" + n.clock.Name()}, n.env...)
		if n.failpoint != "" {
			cmd.Env = append(cmd.Env, "FAILPOINT="+n.failpoint)
		}
		err := n.setClock()
		if err == nil {
			err = n.log.start(cmd)
		}
		if err == nil {
			n.cmd, n.frozen, n.armed, n.failpoint = cmd, time.Time{}, n.failpoint != "", ""
		}
		n.mu.Unlock()
		if err != nil {
			fmt.Fprintf(n.log.file, "chaos: start: %v\n", err)
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
		periodic.Pause(ctx, away)
	}
}

// end terminates a process, and kills it after 10 seconds.
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

// kill sends SIGKILL; the node stays down for the duration away.
func (n *node) kill(away time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = max(away, restartAfter)
	n.leaving = n.signal(syscall.SIGKILL)
	return n.leaving
}

// restart terminates the process gracefully. The next one dies at the failpoint, unless it is "", and its clock is shifted by
// clock in addition.
func (n *node) restart(failpoint string, clock time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return false
	}
	n.failpoint, n.leaving = failpoint, true
	n.wrong += clock
	n.signal(syscall.SIGCONT)
	return n.signal(syscall.SIGTERM)
}

// setClock makes the clock as wrong as it has to be. The caller holds mu.
func (n *node) setClock() error {
	_, err := n.clock.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64((n.wrong+n.moved)/time.Second)), 0)
	return err
}

// moveClock shifts the clock of the running process and of the next ones by d, until it is called again.
func (n *node) moveClock(d time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moved = d
	return n.setClock()
}

// now returns the time by the clock of the process, to the second.
func (n *node) now(ctx context.Context) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.live, http.NoBody)
	if err != nil {
		return time.Time{}, err
	}
	resp, err := quick.Do(req)
	if err != nil {
		return time.Time{}, err
	}
	resp.Body.Close()
	return http.ParseTime(resp.Header.Get("Date"))
}

// freeze stops the process for at least d: its connections stay open, and its clock goes on.
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

// halt freezes the process if pid is the running one, and reports whether it is.
func (n *node) halt(pid int, d time.Duration) bool { return n.is(pid) && n.freeze(d) }

// is reports whether the running process has that pid.
func (n *node) is(pid int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd != nil && n.cmd.Process.Pid == pid
}

// thaw resumes the process, unless it was frozen for longer.
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

// lastEnd returns when a process of the node last ended; the zero time: never. ending reports whether the running one is about
// to end.
func (n *node) lastEnd() (at time.Time, ending bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.killed, n.armed || n.leaving
}

// ready waits until readyz answers 200.
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
		if !periodic.Pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%s is not ready: %s", n.name, said)
		}
	}
}

// quick is a client for processes that may be dead or frozen, with a new connection for each request.
var quick = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

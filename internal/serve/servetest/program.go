// Package servetest starts whole programs in tests, within the test's process or as separate processes, and calls them over
// HTTP.
package servetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// waitTimeout is long, for machines that are busy with other work.
const waitTimeout = 60 * time.Second

// Program is a running program. It is stopped with the test if it still runs.
type Program struct {
	t      testing.TB
	log    *logged
	signal func(syscall.Signal)
	ended  chan struct{}
	err    error // the program's result
}

// Start runs a program within this process; its context ends when it is stopped. The program logs JSON to the given writer.
func Start(t testing.TB, run func(ctx context.Context, stderr io.Writer) error) *Program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &Program{t: t, log: newLog(), ended: make(chan struct{}), signal: func(syscall.Signal) { cancel() }}
	go func() {
		defer close(p.ended)
		p.err = run(ctx, p.log)
		cancel()
	}()
	t.Cleanup(p.cleanup)
	return p
}

// Exec runs a program as a separate process, with the given variables added to a minimal environment.
func Exec(t testing.TB, path string, vars ...string) *Program {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path) // cleanup stops it gracefully
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LOG_FORMAT=json"}, vars...)
	// Not in the test's process group: the interrupt key is for the test, which stops its programs.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &Program{t: t, log: newLog(), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.signal = func(s syscall.Signal) { _ = cmd.Process.Signal(s) } // it may have ended
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
	}()
	t.Cleanup(p.cleanup)
	return p
}

// Addr waits until the program listens, and returns the address.
func (p *Program) Addr(listener string) string {
	p.t.Helper()
	addr, err := p.log.await(p.ended, func(e entry) bool { return e.Msg == "listening" && e.Listener == listener })
	if err != nil {
		p.t.Fatalf("the program does not listen as %s: %v: %v\n%s", listener, err, p.err, p.log)
	}
	return addr.Addr
}

// URL returns the base URL of a listener.
func (p *Program) URL(listener string) string {
	p.t.Helper()
	return "http://" + p.Addr(listener)
}

// Logged waits until the program has logged a message.
func (p *Program) Logged(message string) {
	p.t.Helper()
	if _, err := p.log.await(p.ended, func(e entry) bool { return e.Msg == message }); err != nil {
		p.t.Fatalf("the program did not log %q: %v: %v\n%s", message, err, p.err, p.log)
	}
}

// Output returns everything that the program has written; for a separate process this includes stdout.
func (p *Program) Output() string {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return string(p.log.text)
}

// Stop terminates the program, as SIGTERM does, and returns its result.
func (p *Program) Stop() error {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	return p.Wait()
}

// Kill ends a separate process like kill -9.
func (p *Program) Kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	_ = p.Wait() // "killed"
}

// Wait returns the program's result.
func (p *Program) Wait() error {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.err
	case <-time.After(waitTimeout):
		p.t.Fatalf("the program does not end\n%s", p.log)
		return nil
	}
}

// Refused returns why the program did not start, or nil as soon as it listens.
func (p *Program) Refused() error {
	p.t.Helper()
	if _, err := p.log.await(p.ended, func(e entry) bool { return e.Msg == "listening" }); err == nil {
		return nil
	}
	return p.Wait()
}

func (p *Program) cleanup() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(waitTimeout):
		p.signal(syscall.SIGKILL)
		p.t.Error("the program did not end after SIGTERM")
	}
	if p.t.Failed() {
		p.t.Logf("the program's log ends with:\n%s", p.log)
	}
}

// entry is the fields that are read from a log line.
type entry struct {
	Msg, Listener, Addr string
}

// logged is a log that tests can wait on.
type logged struct {
	mu      sync.Mutex
	text    []byte
	read    int // end of the part that entries were read from
	entries []entry
	grown   chan struct{} // closed with every write, and replaced
}

func newLog() *logged { return &logged{grown: make(chan struct{})} }

// Write accepts parts of lines, because a process may write them.
func (l *logged) Write(part []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, part...)
	for {
		end := bytes.IndexByte(l.text[l.read:], '\n')
		if end < 0 {
			break
		}
		var e entry
		if json.Unmarshal(l.text[l.read:l.read+end], &e) == nil { // otherwise it is no log line, such as a panic's
			l.entries = append(l.entries, e)
		}
		l.read += end + 1
	}
	close(l.grown)
	l.grown = make(chan struct{})
	return len(part), nil
}

// String returns the end of the log.
func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text[max(0, len(l.text)-8<<10):])
}

func (l *logged) await(ended <-chan struct{}, is func(entry) bool) (entry, error) {
	expired := time.After(waitTimeout)
	for over := false; ; {
		l.mu.Lock()
		entries, grown := l.entries, l.grown
		l.mu.Unlock()
		for _, e := range entries {
			if is(e) {
				return e, nil
			}
		}
		if over {
			return entry{}, errors.New("it has ended")
		}
		select {
		case <-grown:
		case <-ended:
			over = true
		case <-expired:
			return entry{}, fmt.Errorf("not within %v", waitTimeout)
		}
	}
}

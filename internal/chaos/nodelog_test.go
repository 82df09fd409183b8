package chaos

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
)

// nodeLog collects the stderr of the processes of a node in a file. Each process writes to a pipe, which block makes full. Safe for
// concurrent use.
type nodeLog struct {
	file    *os.File
	copying sync.WaitGroup

	mu      sync.Mutex
	pipe    *os.File      // of the latest process; guarded by mu
	blocked chan struct{} // closed by unblock; nil when nothing is blocked; guarded by mu
}

func newNodeLog(name string) (*nodeLog, error) {
	file, err := os.Create(name)
	return &nodeLog{file: file}, err
}

// start starts a process that writes to the log.
func (l *nodeLog) start(cmd *exec.Cmd) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	cmd.Stderr = w
	if err := testenv.StartChild(cmd); err != nil {
		r.Close()
		return err
	}
	l.mu.Lock()
	l.pipe = r
	l.mu.Unlock()
	l.copying.Go(func() {
		defer r.Close()
		for buf := make([]byte, 4096); ; {
			l.await()
			n, err := r.Read(buf)
			_, _ = l.file.Write(buf[:n]) // on a full disk the log ends here
			if err != nil {
				return // the process and its children have ended
			}
		}
	})
	return nil
}

func (l *nodeLog) await() {
	l.mu.Lock()
	blocked := l.blocked
	l.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
}

// block stops reading until unblock, and fills the pipe: a process that writes to it is blocked then.
func (l *nodeLog) block() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blocked != nil || l.pipe == nil {
		return errNothingThere
	}
	raw, err := l.pipe.SyscallConn()
	if err != nil {
		return err
	}
	l.blocked = make(chan struct{})
	var full error
	if err := raw.Control(func(fd uintptr) { full = fill(fmt.Sprintf("/proc/self/fd/%d", fd)) }); err != nil {
		return errNothingThere // the process has ended
	}
	return full
}

// fill writes spaces to a pipe until it is full.
func fill(pipe string) error {
	fd, err := syscall.Open(pipe, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(fd) }() // nothing is left to do about it
	for i, size := range []int{1 << 12, 1, 1 << 12, 1} {
		if i == 2 {
			time.Sleep(20 * time.Millisecond) // a read that was in flight has made room
		}
		for spaces := bytes.Repeat([]byte(" "), size); err == nil; {
			_, err = syscall.Write(fd, spaces)
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return err
		}
		err = nil
	}
	return nil
}

// unblock ends block.
func (l *nodeLog) unblock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blocked != nil {
		close(l.blocked)
		l.blocked = nil
	}
}

// close waits for the end of what the processes wrote; they must have ended.
func (l *nodeLog) close() error {
	l.unblock()
	l.copying.Wait()
	return l.file.Close()
}

// TestABlockedLog: while a log is blocked, its process cannot write to it, and afterwards nothing is missing.
func TestABlockedLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	log, err := newNodeLog(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.block(); !errors.Is(err, errNothingThere) {
		t.Errorf("without a process: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "while read line; do echo $line >&2; echo $line; done")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := log.start(cmd); err != nil {
		t.Fatal(err)
	}
	written := make(chan string)
	go func() {
		defer close(written)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			written <- lines.Text()
		}
	}()
	write := func(line string) {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	write("before")
	if line := <-written; line != "before" {
		t.Errorf("%q, want before", line)
	}
	if err := log.block(); err != nil {
		t.Fatal(err)
	}
	write("meanwhile")
	select {
	case line := <-written:
		t.Errorf("%q was written to a blocked log", line)
	case <-time.After(200 * time.Millisecond):
	}
	log.unblock()
	if line := <-written; line != "meanwhile" {
		t.Errorf("%q, want meanwhile", line)
	}
	in.Close()
	<-written
	if err := errors.Join(cmd.Wait(), log.close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil || !bytes.HasPrefix(text, []byte("before\n ")) || !bytes.HasSuffix(text, []byte(" meanwhile\n")) {
		t.Errorf("the log is %q, %v", text[:min(len(text), 20)], err)
	}
}

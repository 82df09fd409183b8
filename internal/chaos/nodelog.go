package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
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

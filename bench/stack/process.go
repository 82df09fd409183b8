// Package stack starts the measured programs as separate processes: servers, this project's programs, and those that they are compared with.
package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
)

// startWithin is the timeout for a program's first answer.
const startWithin = 60 * time.Second

// A Process is a running program.
type Process struct {
	Name string
	Addr string // HTTP address; empty: none
	cmd  *exec.Cmd
	log  string
	end  chan struct{}
}

// start runs a program that logs to a file in dir.
func start(dir, name, path string, args, env []string) (*Process, error) {
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Process{Name: name, log: log.Name(), end: make(chan struct{})}
	p.cmd = exec.Command(path, args...) //nolint:noctx // Stop ends it in order
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := testenv.StartChild(p.cmd); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		defer close(p.end)
		_ = p.cmd.Wait() // Stop does not need the error, and await detects an early end
	}()
	return p, nil
}

// await waits until a path is answered with 200.
func (p *Process) await(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		status, body, err := Call(ctx, "GET", "http://"+p.Addr+path, "")
		if status == http.StatusOK {
			return nil
		}
		select {
		case <-p.end:
			return p.failed(errors.New("ended"))
		case <-ctx.Done():
			return p.failed(errors.Join(fmt.Errorf("is not ready: %d %s", status, body), err))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Call makes one HTTP call on a new connection.
func Call(ctx context.Context, method, url, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Close = true
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// insist is Call with retries while the answer is 503, because the machine is busy.
func insist(ctx context.Context, method, url, body string) error {
	for start := time.Now(); ; {
		status, answer, err := Call(ctx, method, url, body)
		if err == nil && status < 300 {
			return nil
		}
		if status != http.StatusServiceUnavailable || time.Since(start) > startWithin {
			return errors.Join(fmt.Errorf("%s %s: %d %s", method, url, status, answer), err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failed adds the end of the program's log to err.
func (p *Process) failed(err error) error {
	text, _ := os.ReadFile(p.log)
	return fmt.Errorf("%s: %w\n%s", p.Name, err, text[max(0, len(text)-2000):])
}

// Stop terminates the program with SIGTERM, as an init system does.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.end:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.end
	}
}

// CPU returns the CPU time of the program in user and kernel mode.
func (p *Process) CPU() time.Duration { return ProcessCPU(p.cmd.Process.Pid) }

// Memory returns the memory that the program has of its own now, and the most that it has had, in bytes.
func (p *Process) Memory() (now, most int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			now = kb << 10
		} else if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); err == nil {
			most = kb << 10
		}
	}
	if err == nil && (now == 0 || most == 0) {
		err = fmt.Errorf("%s has ended", p.Name)
	}
	return now, most, err
}

// tick is the unit of /proc/PID/stat: USER_HZ is 100 on all Linux platforms of Go.
const tick = 10 * time.Millisecond

// ProcessCPU returns the CPU time of a process and of its terminated children.
func ProcessCPU(pid int) time.Duration {
	fields := stat(pid)
	var ticks int64
	for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * tick
}

// FamilyCPU returns ProcessCPU of a process and of its running children.
func FamilyCPU(pid int) time.Duration {
	sum := ProcessCPU(pid)
	for _, child := range children(pid) {
		sum += ProcessCPU(child)
	}
	return sum
}

// children returns the running children of a process.
func children(pid int) (found []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		child, _ := strconv.Atoi(filepath.Base(dir))
		if fields := stat(child); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			found = append(found, child)
		}
	}
	return found
}

// Waits returns how often the program has waited for something: the voluntary context switches of its threads.
func (p *Process) Waits() int64 { return waits(p.cmd.Process.Pid) }

// waits returns the voluntary context switches of the threads of a process that are running.
func waits(pid int) (sum int64) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/status", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread that has just ended has none
		for line := range strings.Lines(string(text)) {
			var n int64
			if _, err := fmt.Sscanf(line, "voluntary_ctxt_switches: %d", &n); err == nil {
				sum += n
			}
		}
	}
	return sum
}

// familyWaits returns waits of a process and of its running children.
func familyWaits(pid int) int64 {
	sum := waits(pid)
	for _, child := range children(pid) {
		sum += waits(child)
	}
	return sum
}

// stat returns the fields of /proc/PID/stat from the state on; the fields before it may contain spaces.
func stat(pid int) []string {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
}

// OwnCPU returns the CPU time of this process, which is the load generator.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

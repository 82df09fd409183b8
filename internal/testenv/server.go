package testenv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// server is one server process, with everything needed to restart it at the same address with the same data. It must not be used
// concurrently.
type server struct {
	name    string
	dir     string
	port    int
	command func(s *server) *exec.Cmd                  // builds the command for dir and port
	ready   func(ctx context.Context, s *server) error // returns nil when the process s.cmd itself answers
	reset   func(ctx context.Context, s *server) error // empties and prepares dir; may be nil
	cmd     *exec.Cmd
	exited  chan struct{}
}

// servers are the servers that have not been removed yet, for Main.
var servers struct {
	sync.Mutex
	all map[*server]struct{}
}

var errPortTaken = errors.New("port taken")

// create starts a new server on a free port.
func (s *server) create() error {
	dir, err := tempDir(s.name)
	if err != nil {
		return err
	}
	s.dir = dir
	servers.Lock()
	if servers.all == nil {
		servers.all = make(map[*server]struct{})
	}
	servers.all[s] = struct{}{}
	servers.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if s.reset != nil {
		if err := s.reset(ctx, s); err != nil {
			s.remove()
			return err
		}
	}
	for range 10 {
		s.port = freePort()
		if err = s.start(ctx); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		s.remove()
	}
	return err
}

// freePort picks a port below the range of outgoing connections: otherwise a client that redials a dead server could get the server's
// port for its own end, connect to itself, and prevent the server's restart. A Redis Cluster node opens a second port ten thousand above
// it.
func freePort() int {
	ports.Lock()
	defer ports.Unlock()
	for {
		port := 12000 + rand.IntN(10000)
		if !ports.given[port] && canListen(port) && canListen(port+10000) {
			ports.given[port] = true
			return port
		}
	}
}

// ports are never reused, because a dead server may be restarted on its port.
var ports = struct {
	sync.Mutex
	given map[int]bool // guarded by Mutex
}{given: make(map[int]bool)}

func canListen(port int) bool {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *server) logFile() string { return filepath.Join(s.dir, "log") }

// start starts the process and waits until it answers.
func (s *server) start(ctx context.Context) error {
	log, err := os.Create(s.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command(s)
	cmd.Stdout, cmd.Stderr = log, log
	if err := keeper.run(cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go background(func() {
		_ = cmd.Wait()
		close(exited)
	})

	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		err := s.answers(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			log := s.logTail()
			if strings.Contains(log, "Address already in use") {
				return fmt.Errorf("start %s: %w: %s", s.name, errPortTaken, log)
			}
			return fmt.Errorf("start %s: it exited: %s", s.name, log)
		case <-ctx.Done():
			s.kill()
			return fmt.Errorf("start %s: does not answer: %w: %s", s.name, err, s.logTail())
		case <-tick.C:
		}
	}
}

// answers dials before it calls a driver, because drivers retry and log.
func (s *server) answers(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr())
	if err != nil {
		return err
	}
	_ = conn.Close()
	return s.ready(ctx, s)
}

func (s *server) logTail() string {
	log, _ := os.ReadFile(s.logFile())
	return string(log[max(0, len(log)-2000):])
}

// restart starts a killed server again with its data; a running one is killed first.
func (s *server) restart() error {
	s.kill()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return s.start(ctx)
}

// kill kills the process and its children, and returns when they are gone.
func (s *server) kill() {
	if !s.running() {
		return
	}
	// A frozen process cannot fork children that we would miss.
	pid := s.cmd.Process.Pid
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	children := childrenOf(pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	<-s.exited
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	for _, child := range children {
		waitState(child, "ZX")
	}
}

// stop freezes the process and its children; connections stay open and nothing is answered.
func (s *server) stop() {
	if !s.running() {
		return
	}
	pid := s.cmd.Process.Pid
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	waitState(pid, "TZX")
	for _, child := range childrenOf(pid) {
		_ = syscall.Kill(child, syscall.SIGSTOP)
		waitState(child, "TZX")
	}
}

func (s *server) cont() {
	if !s.running() {
		return
	}
	pid := s.cmd.Process.Pid
	for _, child := range childrenOf(pid) {
		_ = syscall.Kill(child, syscall.SIGCONT)
	}
	_ = syscall.Kill(pid, syscall.SIGCONT)
}

func (s *server) running() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// remove shuts the server down for good, without SIGKILL, after which Postgres would leave shared memory behind.
func (s *server) remove() {
	if s.running() {
		s.cont()
		_ = s.cmd.Process.Signal(s.cmd.SysProcAttr.Pdeathsig)
		select {
		case <-s.exited:
		case <-time.After(10 * time.Second):
			s.kill()
		}
	}
	_ = os.RemoveAll(s.dir)
	servers.Lock()
	delete(servers.all, s)
	servers.Unlock()
}

// stat reads a process' state and parent; a process that is gone is in state X.
func stat(pid int) (state byte, parent int) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 'X', 0
	}
	// The format is: pid (command) state parent …, where the command may contain any character.
	fields := strings.Fields(string(line[strings.LastIndexByte(string(line), ')')+1:]))
	if len(fields) < 2 {
		return 'X', 0
	}
	parent, _ = strconv.Atoi(fields[1])
	return fields[0][0], parent
}

func childrenOf(pid int) []int {
	entries, _ := os.ReadDir("/proc")
	var children []int
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, parent := stat(child); parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// waitState waits until a process is in one of the states, because kill(2) returns before the signal is delivered.
func waitState(pid int, states string) {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if state, _ := stat(pid); strings.IndexByte(states, state) >= 0 {
			return
		}
	}
}

// findBinary returns the path of a program, or an error that names what to install.
func findBinary(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed; make setup installs it", name)
	}
	return path, nil
}

// keeper starts all servers from one OS thread. The kernel sends the parent-death signal when the thread that started the child ends, not
// the process: if the Go runtime ended that thread, its servers would be killed.
var keeper threadKeeper

type threadKeeper struct {
	sync.Mutex
	calls chan func()
}

func (k *threadKeeper) run(f func() error) error {
	k.Lock()
	defer k.Unlock()
	if k.calls == nil {
		calls := make(chan func())
		k.calls = calls
		go background(func() {
			runtime.LockOSThread() // never unlocked, so that the thread ends with the loop
			for call := range calls {
				call()
			}
		})
	}
	result := make(chan error, 1)
	k.calls <- func() { result <- f() }
	return <-result
}

func (k *threadKeeper) stop() {
	k.Lock()
	defer k.Unlock()
	if k.calls != nil {
		close(k.calls)
		k.calls = nil
	}
}

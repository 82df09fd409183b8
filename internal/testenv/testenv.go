// Package testenv gives tests the real servers that the product runs on: Redis, a Redis Cluster and Postgres, started on
// free loopback ports with data in a temporary folder, and gone with the test process however that ends.
//
// Redis, RedisCluster and Postgres hand out servers shared by the whole test binary: use unique names, never FLUSHDB.
// StartRedis and StartPostgres start one that a test may kill, freeze and restart.
// TEST_REDIS_URL and TEST_DATABASE_URL replace the shared servers by running ones.
//
// It needs Linux: servers are tied to the process by a parent-death signal and observed through /proc.
package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

const (
	startTimeout = 60 * time.Second // a machine busy with other packages' tests is slow to start a server
	pollInterval = 5 * time.Millisecond
)

// Main runs a package's tests, fails them if goroutines are left over, and takes the shared servers down:
//
//	func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
func Main(m *testing.M) int {
	redis.SetLogger(quiet{}) // tests lose servers on purpose
	code := m.Run()
	// Before the servers stop: a goroutine that waits for one would end with it and the leak stay hidden.
	if code == 0 {
		if err := goleak.Find(IgnoreServers(), ignoreRedial); err != nil {
			fmt.Fprintf(os.Stderr, "testenv: %v\n", err)
			code = 1
		}
	}
	stopAll()
	return code
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// IgnoreServers is for a test that looks for leaks itself: the goroutines behind the servers are not the test's.
func IgnoreServers() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/tidegate/tidegate/internal/testenv.background")
}

// ignoreRedial: a closed go-redis pool whose server was gone sleeps out its last second between two dials.
var ignoreRedial = goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")

// background is on the stack of each of them.
func background(f func()) { f() }

// lazy is a shared server, started by the first test that asks; a failed start fails all who ask.
type lazy[T any] struct {
	once  sync.Once
	value T
	err   error
}

func (l *lazy[T]) get(t testing.TB, start func() (T, error)) T {
	t.Helper()
	l.once.Do(func() { l.value, l.err = start() })
	if l.err != nil {
		t.Fatalf("testenv: %v", l.err)
	}
	return l.value
}

// scratch is the folder that holds the data of all servers of this process, locked while the process lives.
var scratch struct {
	sync.Mutex
	path string
	lock *os.File
}

// tempDir makes a folder for one server.
func tempDir(name string) (string, error) {
	scratch.Lock()
	defer scratch.Unlock()
	if scratch.path == "" {
		removeAbandoned()
		path, err := os.MkdirTemp("", "tidegate-test-")
		if err != nil {
			return "", err
		}
		// Postgres runs as another user when we are root, and has to pass through.
		if err := os.Chmod(path, 0o711); err != nil {
			return "", err
		}
		lock, err := os.Open(path)
		if err != nil {
			return "", err
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			return "", fmt.Errorf("lock %s: %w", path, err)
		}
		scratch.path, scratch.lock = path, lock
	}
	return os.MkdirTemp(scratch.path, name+"-")
}

// removeAbandoned removes what killed test processes left behind: folders that nobody holds the lock of. A young one may
// be between its making and its locking.
func removeAbandoned() {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), "tidegate-test-*"))
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if err == nil && time.Since(info.ModTime()) > time.Minute &&
			syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(path)
		}
		_ = f.Close()
	}
}

// stopAll kills every server still running and removes the data.
func stopAll() {
	servers.Lock()
	running := make([]*server, 0, len(servers.all))
	for s := range servers.all {
		running = append(running, s)
	}
	servers.Unlock()
	for _, s := range running {
		s.remove()
	}
	keeper.stop()

	scratch.Lock()
	defer scratch.Unlock()
	if scratch.path != "" {
		_ = os.RemoveAll(scratch.path)
		_ = scratch.lock.Close()
		scratch.path = ""
	}
}

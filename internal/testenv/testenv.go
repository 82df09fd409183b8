// Package testenv gives tests the real servers that the product runs on: Redis, a Redis Cluster and Postgres, started on
// free loopback ports with data in a temporary folder (in memory, if it has room), and gone with the test process however that ends.
//
// Redis, RedisCluster and Postgres hand out servers shared by the whole test binary: use unique names, never FLUSHDB.
// StartRedis and StartPostgres start one that a test may kill, freeze and restart.
// TEST_REDIS_URL and TEST_DATABASE_URL replace the shared servers by running ones.
//
// It needs Linux: servers are tied to the process by a parent-death signal and observed through /proc.
package testenv

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" { // a benchmark measures the disk as well
		scratch.parent = memory()
	}
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

// AtOnce has so many parallel tests run at once, unless -parallel says another number. Call it before Main, where tests wait more than
// they compute.
func AtOnce(tests int) {
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
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
	parent string // empty for that of temporary files
	path   string
	lock   *os.File
}

// memory is a folder of files in memory, if there is one with room for the data of tests: Postgres creates a database there with a tenth
// of the work, and no server waits for a disk that is busy. TMPDIR overrides it.
func memory() string {
	const folder, room = "/dev/shm", 4 << 30
	var stat syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(folder, &stat) != nil || stat.Bavail*uint64(stat.Bsize) < room {
		return ""
	}
	return folder
}

// tempDir makes a folder for one server.
func tempDir(name string) (string, error) {
	scratch.Lock()
	defer scratch.Unlock()
	if scratch.path == "" {
		removeAbandoned(cmp.Or(scratch.parent, os.TempDir()))
		path, err := os.MkdirTemp(scratch.parent, "tidegate-test-")
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
func removeAbandoned(parent string) {
	paths, _ := filepath.Glob(filepath.Join(parent, "tidegate-test-*"))
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

// Package testenv provides real servers for tests: Redis, a Redis Cluster and Postgres. They are started on free loopback ports with data
// in a temporary directory (in memory, if there is room), and stopped when the test process ends, even after a crash.
//
// Redis, RedisCluster and Postgres return servers shared by the whole test binary: use unique names, never FLUSHDB. StartRedis and
// StartPostgres start a server that a test may kill, freeze and restart. TEST_REDIS_URL and TEST_DATABASE_URL replace the shared servers
// by running ones. TEST_REDIS_SERVER (a program) and TEST_POSTGRES_BIN (a folder) replace the installed servers by other versions.
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

// Secret is a value of SECRET, or of another secret.
const Secret = "a-secret-of-the-tests-of-tidegate"

const (
	startTimeout = 60 * time.Second // long, because the tests of other packages may keep the machine busy
	pollInterval = 5 * time.Millisecond
)

// Main runs a package's tests, fails them if goroutines have leaked, and stops the shared servers:
//
//	func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
func Main(m *testing.M) int {
	redis.SetLogger(quiet{}) // tests kill servers on purpose
	sizeChecks()
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" { // benchmarks need the real disk
		scratch.parent = memory()
	}
	code := m.Run()
	// Check before the servers stop: a leaked goroutine that waits for a server would end with it and go unnoticed.
	if code == 0 {
		if err := goleak.Find(IgnoreServers(), ignoreRedial); err != nil {
			fmt.Fprintf(os.Stderr, "testenv: %v\n", err)
			code = 1
		}
	}
	stopAll()
	return code
}

// AtOnce sets the number of parallel tests, unless -parallel is given. Call it before Main in packages whose tests mostly wait.
func AtOnce(tests int) {
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// IgnoreServers is for tests that check for leaks themselves: it ignores the goroutines of the servers.
func IgnoreServers() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/tidegate/tidegate/internal/testenv.background")
}

// ignoreRedial ignores a go-redis pool that was closed while its server was down: its goroutine sleeps up to a second between two dials.
var ignoreRedial = goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")

// background is on the stack of each of these goroutines.
func background(f func()) { f() }

// lazy is a shared server, started by the first test that uses it; if the start fails, all its users fail.
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

// scratch is the directory with the data of all servers of this process, locked while the process lives.
var scratch struct {
	sync.Mutex
	parent string // empty: that of temporary files
	path   string
	lock   *os.File
}

// memory returns a directory of a memory file system with enough room, or "". Postgres creates a database there with a tenth of the work,
// and servers do not wait for a busy disk. TMPDIR overrides it.
func memory() string {
	const folder, room = "/dev/shm", 4 << 30
	var stat syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(folder, &stat) != nil || stat.Bavail*uint64(stat.Bsize) < room {
		return ""
	}
	return folder
}

// tempDir creates a directory for one server.
func tempDir(name string) (string, error) {
	scratch.Lock()
	defer scratch.Unlock()
	if scratch.path == "" {
		removeAbandoned(cmp.Or(scratch.parent, os.TempDir()))
		path, err := os.MkdirTemp(scratch.parent, "tidegate-test-")
		if err != nil {
			return "", err
		}
		// As root, Postgres runs as another user and must be able to traverse the directory.
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

// removeAbandoned removes the data of killed test processes: directories that are not locked. It keeps recent ones, which may not be
// locked yet.
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
	if sharedPrograms.value != "" {
		_ = os.RemoveAll(sharedPrograms.value)
	}

	scratch.Lock()
	defer scratch.Unlock()
	if scratch.path != "" {
		_ = os.RemoveAll(scratch.path)
		_ = scratch.lock.Close()
		scratch.path = ""
	}
}

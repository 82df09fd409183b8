package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// appendOnlyDir is the directory of Redis' append-only file.
const appendOnlyDir = "appendonlydir"

// Written is a position in a server's append-only file.
type Written struct {
	file string
	size int64
}

// Written returns what the server has written to its file so far.
func (r *RedisServer) Written() Written {
	r.t.Helper()
	file := r.appended()
	info, err := os.Stat(file)
	if err != nil {
		r.t.Fatalf("testenv: append-only file: %v", err)
	}
	return Written{file, info.Size()}
}

// Truncate removes what a killed server has written since, to simulate a crash of the machine: killing the server alone loses nothing,
// because the kernel has its writes. If the server has rewritten its file meanwhile, only what follows the rewrite is removed.
func (r *RedisServer) Truncate(to Written) {
	r.t.Helper()
	file := r.appended()
	if file != to.file {
		to = Written{file: file}
	}
	if err := os.Truncate(file, to.size); err != nil {
		r.t.Fatalf("testenv: append-only file: %v", err)
	}
}

// appended returns the current incremental part of the append-only file: the latest one, if the server has rewritten the file.
func (r *RedisServer) appended() string {
	parts, err := filepath.Glob(filepath.Join(r.s.dir, appendOnlyDir, "*.incr.aof"))
	if err != nil || len(parts) == 0 {
		r.t.Fatalf("testenv: the server at %s has no append-only file", r.Addr())
	}
	return slices.MaxFunc(parts, func(a, b string) int {
		if len(a) != len(b) { // the names are numbered
			return len(a) - len(b)
		}
		return slices.Compare([]byte(a), []byte(b))
	})
}

// Snapshot returns a dump of the server's data.
func (r *RedisServer) Snapshot() []byte {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	rdb := redisClient(r.Addr())
	defer rdb.Close()
	if err := rdb.Save(ctx).Err(); err != nil {
		r.t.Fatalf("testenv: snapshot: %v", err)
	}
	snapshot, err := os.ReadFile(filepath.Join(r.s.dir, "dump.rdb"))
	if err != nil {
		r.t.Fatalf("testenv: snapshot: %v", err)
	}
	return snapshot
}

// RestartFrom kills the server and starts it with the data of an earlier Snapshot.
func (r *RedisServer) RestartFrom(snapshot []byte) {
	r.t.Helper()
	r.s.kill()
	dir := filepath.Join(r.s.dir, appendOnlyDir)
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	const base = "appendonly.aof.1.base.rdb"
	for name, content := range map[string][]byte{
		base:                      snapshot,
		"appendonly.aof.manifest": fmt.Appendf(nil, "file %s seq 1 type b\n", base),
	} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
		}
	}
	if err != nil {
		r.t.Fatalf("testenv: restart from a snapshot: %v", err)
	}
	r.Restart()
}

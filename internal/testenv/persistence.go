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

// Written returns how many bytes the server has appended to its file so far.
func (r *RedisServer) Written() int64 {
	r.t.Helper()
	info, err := os.Stat(r.appended())
	if err != nil {
		r.t.Fatalf("testenv: append-only file: %v", err)
	}
	return info.Size()
}

// Truncate cuts the append-only file of a killed server to a size returned by Written, to simulate a crash of the machine: killing the
// server alone loses nothing, because the kernel has its writes.
func (r *RedisServer) Truncate(size int64) {
	r.t.Helper()
	if err := os.Truncate(r.appended(), size); err != nil {
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

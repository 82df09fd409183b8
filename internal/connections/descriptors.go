package connections

import (
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"syscall"
)

const (
	others     = 64   // descriptors for files, listeners, refusals and the runtime
	recommends = 4096 // descriptors; with fewer, clients get few connections
	internal   = 8    // an internal listener gets one in so many of the connections
	most       = 1 << 20
	weight     = 72 << 10 // bytes that a client's connection holds at most: one with the stream of a waiting room
)

// Shares are how many connections the listeners of a process may hold.
type Shares struct{ Public, Internal int }

// Divide returns the shares of a process that needs some descriptors for its own connections to servers, from its limit of open files
// (RLIMIT_NOFILE) and Go's memory limit (GOMEMLIMIT), half of which clients may hold. It warns about fewer than 4,096 open files.
// Whatever that limit is, the listeners share at least a quarter of it.
func Divide(servers int, log *slog.Logger) (Shares, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return Shares{}, fmt.Errorf("connections: read the limit of open files: %w", err)
	}
	memory := debug.SetMemoryLimit(-1)
	s := divide(int(min(limit.Cur, math.MaxInt32)), servers, memory)
	log.Info("connections of clients", slog.Int("public", s.Public), slog.Int("internal", s.Internal), slog.Uint64("open_files", limit.Cur),
		slog.Int64("memory_limit", memory))
	if limit.Cur < recommends {
		log.Warn("the limit of open files is low: raise it to at least 4096 (ulimit -n, LimitNOFILE, or nofile of the container)",
			slog.Uint64("limit", limit.Cur), slog.Int("public_connections", s.Public), slog.Int("internal_connections", s.Internal))
	}
	return s, nil
}

func divide(descriptors, servers int, memory int64) Shares {
	left := max(descriptors-servers-others, descriptors/4, 2)
	left = min(left, max(int(min(memory/2/weight, most)), 2))
	s := Shares{Internal: max(left/internal, 1)}
	s.Public = left - s.Internal
	return s
}

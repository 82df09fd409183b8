package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/tidegate/tidegate/internal/simulation"
)

const (
	module       = "github.com/tidegate/tidegate/"
	guestPackage = module + "internal/simulation/guest"
)

// host runs worlds, each in a WebAssembly machine of its own.
type host struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	memory  memories
	cover   string // folder for what worlds have executed; empty: it is not measured
}

// covered are the packages whose statements are counted, and the guest, which writes the counts when it ends.
var covered = "-coverpkg=" + strings.Join([]string{
	guestPackage, module + "orders/...", module + "waitingroom/...", module + "semaphore/...", module + "admission/...", module + "login/...",
}, ",")

// newCoverHost is newHost for worlds that write what they have executed into a folder.
func newCoverHost(ctx context.Context, folder string) (*host, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	h, err := newHost(ctx, "-cover", covered)
	if err == nil {
		h.cover = folder
	}
	return h, err
}

// newHost builds the guest of this source tree, and compiles it. Both are cached by their contents; with further arguments of go build, only
// the first is.
func newHost(ctx context.Context, further ...string) (_ *host, err error) {
	folder, err := os.MkdirTemp("", "simulate")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "guest.wasm")
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file}, further...)
	build := exec.CommandContext(ctx, "go", append(args, guestPackage)...)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("simulate: build the guest: %w", err)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	config := wazero.NewRuntimeConfigCompiler().WithMemoryLimitPages(maxMemory >> 16)
	if len(further) == 0 {
		cache, err := cacheOf(program)
		if err != nil {
			return nil, err
		}
		config = config.WithCompilationCache(cache)
	}
	h := &host{runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	wasi_snapshot_preview1.MustInstantiate(ctx, h.runtime)
	if h.module, err = h.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, atOnce()), program); err != nil {
		return nil, fmt.Errorf("simulate: compile the guest: %w", err)
	}
	return h, nil
}

// atOnce is how much is done at the same time.
func atOnce() int { return runtime.GOMAXPROCS(0) }

// began is when all worlds begin.
var began = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()

// kept is how many guests stay compiled: each takes some 90 MB.
const kept = 3

// cacheOf returns the cache of a compiled guest, and removes those of guests that were used longest ago.
func cacheOf(program []byte) (wazero.CompilationCache, error) {
	home, err := os.UserCacheDir()
	if err != nil {
		return wazero.NewCompilationCache(), nil //nolint:nilerr // then it is compiled again next time
	}
	all := filepath.Join(home, "tidegate-simulate")
	own := filepath.Join(all, fmt.Sprintf("%x", sha256.Sum256(program)))
	cache, err := wazero.NewCompilationCacheWithDir(own)
	if err != nil {
		return nil, err
	}
	if err := os.Chtimes(own, time.Now(), time.Now()); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(all)
	if err != nil {
		return nil, err
	}
	used := func(e os.DirEntry) time.Time {
		info, err := e.Info()
		if err != nil {
			return time.Time{} // another run has removed it
		}
		return info.ModTime()
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return used(b).Compare(used(a)) })
	for _, e := range entries[min(kept, len(entries)):] {
		if err := os.RemoveAll(filepath.Join(all, e.Name())); err != nil {
			return nil, err
		}
	}
	return cache, nil
}

// longest is how long a world may take, in its own time.
const longest = 30 * time.Minute

var errEndless = fmt.Errorf("simulate: the world did not end within %v", longest)

// outcome is what became of a world.
type outcome struct {
	simulation.Result

	Hash string // of the trace
}

// run runs a world; without a shape, one that its number draws. The trace goes to trace as well.
func (h *host) run(ctx context.Context, number uint64, shape *simulation.Shape, trace io.Writer) (o outcome, err error) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], number)
	now := began
	hash := fnv.New128a()
	var result bytes.Buffer
	last := &tail{}
	args := []string{"guest", strconv.FormatUint(number, 10)}
	if shape != nil {
		text, err := json.Marshal(shape)
		if err != nil {
			return o, err
		}
		args = append(args, string(text))
	}
	config := wazero.NewModuleConfig().WithName("").WithArgs(args...).WithStdout(&result).WithStderr(io.MultiWriter(hash, trace, last)).
		WithEnv("GOGC", "1600").
		WithRandSource(chacha{rand.NewChaCha8(key)}).
		WithWalltime(func() (int64, int32) { return now / 1e9, int32(now % 1e9) }, sys.ClockResolution(1)).
		WithNanotime(func() int64 {
			if now += 20; now > began+int64(longest) { // 20 ns: a loop that looks at the clock ends
				panic(errEndless)
			}
			return now
		}, sys.ClockResolution(1)).
		WithNanosleep(func(ns int64) { now += ns })
	if h.cover != "" {
		config = config.WithEnv("GOCOVERDIR", "/cover").WithFSConfig(wazero.NewFSConfig().WithDirMount(h.cover, "/cover"))
	}
	instance, err := h.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, &h.memory), h.module, config)
	if instance != nil {
		err = errors.Join(err, instance.Close(ctx))
	}
	var exit *sys.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 0) {
		return o, fmt.Errorf("%w: %s", err, last)
	}
	if err := json.Unmarshal(result.Bytes(), &o.Result); err != nil {
		return o, fmt.Errorf("simulate: no result: %w: %s", err, last)
	}
	o.Hash = hex.EncodeToString(hash.Sum(nil))
	return o, nil
}

// chacha is the only source of chance of a guest.
type chacha struct{ *rand.ChaCha8 }

// tail keeps the end of a text.
type tail struct{ text []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	if len(t.text) > 4096 {
		t.text = append(t.text[:0], t.text[len(t.text)-2048:]...)
	}
	return len(b), nil
}

func (t *tail) String() string { return string(bytes.TrimSpace(t.text)) }

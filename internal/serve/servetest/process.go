package servetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
)

// A Process is cmd/api as a process of its own, over Redis and Postgres, so that its resource use can be measured apart from its test's.
type Process struct {
	Public, Internal string // URLs

	pid int
}

// StartProcess starts a Process with header identity; settings are further lines NAME=value of its environment. It runs until the
// test ends.
func StartProcess(t testing.TB, settings ...string) *Process {
	t.Helper()
	public, internal := testenv.FreeAddr(), testenv.FreeAddr()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(testenv.Programs(t), "api"))
	cmd.Env = append([]string{
		"REDIS_URL=" + testenv.Redis(t), "DATABASE_URL=" + testenv.Postgres(t), "MIGRATE=true",
		"NAMESPACE=bench-" + strings.ToLower(rand.Text()[:10]),
		"IDENTITY=header", "SECRET=" + testenv.Secret, "LISTEN=" + public, "INTERNAL_LISTEN=" + internal,
	}, settings...)
	if err := testenv.StartChild(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has nothing to keep
		_ = cmd.Wait()
	})
	p := &Process{Public: "http://" + public, Internal: "http://" + internal, pid: cmd.Process.Pid}
	Until(t, http.StatusOK, func() Answer { return Call("GET", p.Internal+"/readyz", "") })
	return p
}

// CPU returns how long the process has run on a core, to 10 ms. It needs Linux.
func (p *Process) CPU(t testing.TB) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // the name before may hold anything
	ticks := 0
	for _, field := range fields[11:13] { // in user mode, and in the kernel
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}

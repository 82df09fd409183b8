//go:build failpoints

package failpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("STEP_CHILD") != "" {
		Step(LeaderOpens)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func arm(t *testing.T, step, what string) (claimed string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, step), []byte(what), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, step+"."+strconv.Itoa(os.Getpid()))
}

// TestStall: an armed step stops the first process that reaches it, and only that one.
func TestStall(t *testing.T) {
	claimed := arm(t, LeaderSeals, "stall 20ms\n")
	began := time.Now()
	Step(LeaderWaits)
	if _, err := os.Stat(claimed); err == nil {
		t.Fatal("another step claimed it")
	}
	Step(LeaderSeals)
	if took := time.Since(began); took < 20*time.Millisecond {
		t.Errorf("went on after %v", took)
	}
	if _, err := os.Stat(claimed); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(claimed, []byte("stall 1h"), 0o600); err != nil { // a claimed step no longer stops a process
		t.Fatal(err)
	}
	Step(LeaderSeals)
}

func TestFreeze(t *testing.T) {
	arm(t, LeaderOpens, "freeze")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "STEP_CHILD=1", "FAILPOINT_DIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	claimed := filepath.Join(dir, LeaderOpens+"."+strconv.Itoa(cmd.Process.Pid))
	for end := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		if _, err := os.Stat(claimed); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, stopped: %v", err, status.Stopped())
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGCONT: %v", err)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, what := range []string{"", "stop", "stall", "stall 3"} {
		func() {
			arm(t, LeaderLoads, what)
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, LeaderLoads) {
					t.Errorf("%q: %q", what, text)
				}
			}()
			Step(LeaderLoads)
		}()
	}
}

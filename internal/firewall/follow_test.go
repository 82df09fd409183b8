package firewall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/bans"
)

// A firewall that has lost its state gets all bans in force when a worker starts, and these runs are not counted.
func TestFirewallForgot(t *testing.T) {
	t.Parallel()
	s := newSite(t, recorder)
	s.obey("bans: {per_minute: 1, run: " + s.argv() + "}")
	var want []string
	for i := range 5 {
		s.ban(address(fmt.Sprintf("203.0.113.%d", i)), time.Hour)
		want = append(want, fmt.Sprintf("<ban><203.0.113.%d><3600><operator>", i))
	}
	s.ban(bans.Target{Kind: bans.User, Value: "ann"}, time.Hour)
	s.lift(address("203.0.113.0"))
	for start := range 2 {
		w := s.worker()
		stop := s.run(w.Run)
		s.await("all are told", func() bool { return w.count("ban", "ok") == 4 })
		stop()
		got := s.file("log")
		slices.Sort(got)
		if !slices.Equal(got, want[1:]) {
			t.Errorf("start %d: %q", start, got)
		}
		s.write("log", "")
	}
	if err := os.Remove(filepath.Join(s.folder, "log")); err != nil {
		t.Fatal(err)
	}
}

// A ban at which the program fails is left to a task, and the others are passed on.
func TestFirewallForgotAndIsAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, strings.Replace(recorder, "file=", "[ \"$3\" != 203.0.113.7 ] || exit 1\nfile=", 1))
	for _, ip := range []string{"203.0.113.6", "203.0.113.7", "203.0.113.8"} {
		s.ban(address(ip), time.Hour)
	}
	w := s.worker()
	s.run(w.Run)
	s.awaitLine("<ban><203.0.113.8><3600><operator>")
	s.await("it fails again", func() bool { return w.count("ban", "failed") > 1 })
	if n := w.count("ban", "ok"); n != 2 {
		t.Errorf("two others are told %d times", n)
	}
	s.write("program", recorder)
	s.awaitLine("<ban><203.0.113.7><3600><operator>")
}

// A new program gets all bans as soon as it can be run; and later those for which APIs with old rules made no task.
func TestAnotherProgram(t *testing.T) {
	s := newSite(t, recorder)
	run := s.argv()
	s.obey("bans: {per_minute: 1}")
	w := s.worker()
	s.ban(address("203.0.113.7"), time.Hour)
	var p pass
	step := func(when string, want ...string) {
		t.Helper()
		if err := w.step(t.Context(), &p); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		s.wrote(when, want...)
	}
	step("without a program", "")
	s.obey("bans: {run: " + run + "}")
	const ban7, ban8 = "<ban><203.0.113.7><3600><operator>", "<ban><203.0.113.8><3600><operator>"
	step("with one", ban7)
	step("once", "")
	s.ban(address("203.0.113.8"), time.Hour)
	s.lift(address("203.0.113.7"))
	step("not settled", "")
	if in := time.Until(p.due); in <= 0 || in > settling {
		t.Errorf("it hears what has changed in %v", in)
	}
	p.due = time.Now()
	step("settled", ban8, "<unban><203.0.113.7>")
	step("once", "")
	s.obey("bans: {per_minute: 2, run: " + run + "}")
	step("the same program", "")
	s.obey("lists: {office: {values: [203.0.113.8]}}\nbans: {allow: office, run: " + run + "}")
	step("with an exception", "<unban><203.0.113.8>")
	step("once", "")
	s.obey("bans: {run: [/bin/sh, " + run[1:] + "}")
	step("another program", ban8)
	s.obey("bans: {run: [" + fmt.Sprintf("%q", s.folder+"/none") + "]}")
	if err := w.step(t.Context(), &p); err == nil {
		t.Error("a program that is not there was taken")
	}
	if can := w.metric("tidegate_ban_script_executable"); can != 0 {
		t.Errorf("executable: %v", can)
	}
	s.obey("bans: {run: " + run + "}")
	step("back to the first", ban8)
}

// A worker waits for a program that is not there yet.
func TestProgramComesLater(t *testing.T) {
	t.Parallel()
	s := newSite(t, recorder)
	program := filepath.Join(s.folder, "program")
	if err := os.Chmod(program, 0o644); err != nil { //nolint:gosec // it is not to be run yet
		t.Fatal(err)
	}
	w := s.worker()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.awaitScript(over); !errors.Is(err, context.Canceled) { // it looks once
		t.Errorf("a program that cannot be run is begun with: %v", err)
	}
	s.run(s.gate.Run, w.Run)
	s.ban(address("203.0.113.7"), time.Hour)
	s.await("a task", func() bool {
		return s.rdb.LLen(t.Context(), "asynq:{"+Queue(s.namespace)+"}:pending").Val() == 1
	})
	if err := os.Chmod(program, 0o755); err != nil { //nolint:gosec // it is
		t.Fatal(err)
	}
	s.awaitLine("<ban><203.0.113.7><3600><operator>")
	if n := w.count("ban", "failed"); n != 0 {
		t.Errorf("failed %d times", n)
	}
}

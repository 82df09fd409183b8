package firewall

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate/tidegate/bans"
)

// Whatever people call themselves, their rules and their reasons, the program gets the same few words.
func TestArguments(t *testing.T) {
	const hostile = "$(touch pwned); `id` \"'\\ | & > < * ? ~ {a,b} -rf --help"
	for _, c := range []struct {
		kind, value, rule, reason string
		want                      string
	}{
		{"ip", "203.0.113.7", "", hostile, "<ban><203.0.113.7><60><operator>"},
		{"ip", "203.0.113.7", hostile, hostile, "<ban><203.0.113.7><60><rule>"},
		{"ip", "203.0.113.7", "login-ip-30-in-10m-ban" + hostile, hostile, "<ban><203.0.113.7><60><rule>"},
		{"ip", "203.0.113.7", "login-ip-30-in-10m-ban", hostile, "<ban><203.0.113.7><60><login>"},
		{"ip", "::ffff:203.0.113.7", "r", "", "<ban><203.0.113.7><60><rule>"},
		{"ip", "2001:db8::1:2:3:4", "r", "", "<ban><2001:db8::/64><60><rule>"},
		{"network", "203.0.113.9/24", "r", "", "<ban><203.0.113.0/24><60><rule>"},
		{"network", "203.0.113.9/32", "r", "", "<ban><203.0.113.9><60><rule>"},
		{"network", "2001:db8::1/48", "r", "", "<ban><2001:db8::/48><60><rule>"},
	} {
		t.Run(c.kind+" "+c.value+" "+c.want, func(t *testing.T) {
			s := newSite(t, recorder)
			w := s.worker()
			target, err := bans.ParseTarget(c.kind, c.value)
			if err != nil {
				t.Fatal(err)
			}
			s.order(bans.Order{Target: target, Rule: c.rule, Reason: c.reason, For: time.Minute})
			s.handle(w, target)
			s.wrote("banned", c.want)
			s.lift(target)
			s.handle(w, target)
			s.wrote("lifted", strings.Replace(strings.Split(c.want, ">")[0], "ban", "unban", 1)+">"+strings.Split(c.want, ">")[1]+">")
		})
	}
}

// A task with a target that is none does nothing, for good.
func TestHostileTasks(t *testing.T) {
	s := newSite(t, recorder)
	w := s.worker()
	for _, target := range []bans.Target{
		{Kind: "ip", Value: "203.0.113.7; rm -rf /"}, {Kind: "ip", Value: "-h"}, {Kind: "network", Value: "0.0.0.0/0"}, {Kind: "planet", Value: "earth"},
	} {
		if err := w.handle(t.Context(), task(target)); err == nil || !strings.Contains(err.Error(), "skip retry") {
			t.Errorf("%v: %v", target, err)
		}
	}
	s.wrote("hostile", "")
}

func TestNothingOfOursIsInherited(t *testing.T) {
	t.Setenv("SECRET", "s3cret")
	for fd := 3; fd < 10; fd++ {
		syscall.CloseOnExec(fd) // what the tests inherited themselves
	}
	s := newSite(t, "#!/bin/sh\n{ /usr/bin/env; pwd; cat; ls -l /proc/self/fd | grep -c redis; ls /proc/$$/fd; } >\"$1\"\n")
	w := s.worker()
	s.ban(address("203.0.113.7"), time.Minute)
	s.handle(w, address("203.0.113.7"))
	seen := map[string]bool{}
	for _, line := range s.file("log") {
		if name, _, ok := strings.Cut(line, "="); ok && name != "PATH" && name != "PWD" && name != "_" && name != "SHLVL" && name != "OLDPWD" {
			t.Errorf("in the environment: %s", line) // those are the shell's own
		}
		seen[line] = true
	}
	if !seen[scriptPath] || !seen["/"] {
		t.Errorf("%q", s.file("log"))
	}
	for _, fd := range []string{"3", "4", "5", "6", "7", "8", "9"} {
		if seen[fd] {
			t.Errorf("it has a file %s", fd)
		}
	}
}

// hang has a child, and both hold the file until they are dead.
const hang = `#!/bin/sh
exec 9>"${1%/*}/alive"
printf 'trying\n%s' "$(head -c 5000 /dev/zero | tr '\0' x)"
/bin/sleep 1000 &
`

func TestSlowProgramIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"it waits":                  hang + "wait\n",
		"it ignores signals":        strings.Replace(hang, "exec", "trap '' TERM INT HUP\nexec", 1) + "wait\nwait\n",
		"it leaves a child with it": hang,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, script)
			alive := filepath.Join(s.folder, "alive")
			if err := syscall.Mkfifo(alive, 0o600); err != nil {
				t.Fatal(err)
			}
			dead := make(chan error, 1)
			go func() {
				f, err := os.Open(alive)
				if err == nil {
					_, err = io.Copy(io.Discard, f) // until nobody holds it
					f.Close()
				}
				dead <- err
			}()
			w := s.worker()
			if w.within != 5*time.Second {
				t.Errorf("a program has %v", w.within)
			}
			w.within = 2 * time.Second
			s.ban(address("203.0.113.7"), time.Minute)
			err := w.handle(t.Context(), task(address("203.0.113.7")))
			if !errors.Is(err, errScript) || !strings.Contains(err.Error(), "failed: ban 203.0.113.7: ") || !strings.Contains(err.Error(), `it wrote "trying\nxxx`) || len(err.Error()) > scriptOutput+500 {
				t.Errorf("%v", err)
			}
			if err := <-dead; err != nil {
				t.Error(err)
			}
			if n := w.count("ban", "timeout") + w.count("ban", "failed"); n != 1 {
				t.Errorf("counted %d", n)
			}
		})
	}
}

// A worker that stops does not wait for the program, and does not call that the program's failure.
func TestStopKillsTheProgram(t *testing.T) {
	s := newSite(t, "#!/bin/sh\necho begun >\"$1\"\nexec sleep 1000\n")
	w := s.worker()
	s.ban(address("203.0.113.7"), time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.handle(ctx, task(address("203.0.113.7"))) }()
	s.awaitLine("begun")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, errScript) {
		t.Error(err)
	}
}

func TestProgramsThatCannotBeRun(t *testing.T) {
	s := newSite(t, recorder)
	for name, err := range map[string]error{
		"none":     execute(t.Context(), time.Minute, []string{filepath.Join(s.folder, "none")}),
		"a folder": execute(t.Context(), time.Minute, []string{s.folder}),
		"fails":    execute(t.Context(), time.Minute, []string{"/bin/sh", "-c", "exit 3"}),
	} {
		if err == nil {
			t.Error(name)
		}
	}
	if err := runnable(scriptOf(s.rules.Load())); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(filepath.Join(s.folder, "program"), 0o644); err != nil { //nolint:gosec // it is not to be run
		t.Fatal(err)
	}
	if runnable(scriptOf(s.rules.Load())) == nil {
		t.Error("whoever may not be run can be")
	}
}

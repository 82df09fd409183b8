package firewall

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
)

// From a ban to the program and back, with everything that runs in an API and in a worker.
func TestWholeChain(t *testing.T) {
	t.Parallel()
	s := newSite(t, recorder)
	w := s.worker()
	s.run(s.gate.Run, w.Run)
	target := address("203.0.113.7")
	order := bans.Order{Target: target, Rule: "login-ip-30-in-10m-ban", For: 10 * time.Minute, Growing: true}
	s.order(order)
	s.awaitLine("<ban><203.0.113.7><600><login>")
	s.lift(target)
	s.awaitLine("<unban><203.0.113.7>")
	s.order(order)
	s.awaitLine("<ban><203.0.113.7><1200><login>") // the second in a row
	s.ban(target, time.Minute)                     // an operator makes it shorter
	s.awaitLine("<ban><203.0.113.7><60><operator>")
	if open, can := w.metric("tidegate_ban_script_breaker_open"), w.metric("tidegate_ban_script_executable"); open != 0 || can != 1 {
		t.Errorf("breaker %v, executable %v", open, can)
	}
}

// Tasks come late, twice and in any order; what counts is how the ban stands.
func TestLastStateWins(t *testing.T) {
	const ban, unban = "<ban><203.0.113.7><3600><operator>", "<unban><203.0.113.7>"
	target := address("203.0.113.7")
	for name, c := range map[string]struct {
		happens func(s *site)
		want    string
	}{
		"banned, then lifted": {func(s *site) { s.ban(target, time.Hour); s.lift(target) }, unban},
		"lifted, then banned": {func(s *site) { s.ban(target, time.Minute); s.lift(target); s.ban(target, time.Hour) }, ban},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, recorder)
			w := s.worker()
			c.happens(s)
			for range 4 { // either event's task, twice
				s.handle(w, target)
				s.wrote("in any order", c.want)
			}
		})
	}
}

// pausing waits for a line from a pipe whenever it bans.
const pausing = `#!/bin/sh
if [ "$2" = ban ]; then echo begun >"${1%/*}/begun"; read -r _ <"${1%/*}/pipe"; fi
printf '%s\n' "$2" >>"$1"
`

// A ban that is lifted while the program still bans is lifted by the same turn, even if the task of the lift comes too early or never.
func TestChangeDuringARun(t *testing.T) {
	s := newSite(t, pausing)
	pipe := filepath.Join(s.folder, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	w := s.worker()
	w.within = time.Minute
	target := address("203.0.113.7")
	s.ban(target, time.Hour)
	done := make(chan error)
	go func() { done <- w.handle(t.Context(), task(target)) }()
	s.await("the program runs", func() bool { return s.file("begun")[0] == "begun" })
	s.lift(target)
	if err := os.WriteFile(pipe, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.wrote("in one turn", "ban", "unban")
}

// While one worker's program runs, that of another waits, whatever the targets.
func TestOneRunAtATime(t *testing.T) {
	s := newSite(t, pausing)
	pipe := filepath.Join(s.folder, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for i, w := range []*Worker{s.worker(), s.worker()} {
		w.within = time.Minute
		target := address(fmt.Sprint("203.0.113.", i))
		s.ban(target, time.Hour)
		go func() { done <- w.handle(t.Context(), task(target)) }()
	}
	watch := s.worker()
	s.await("one runs and one waits", func() bool {
		st, err := watch.alone.Status(t.Context())
		return err == nil && st.InUse == 1 && len(st.Waiters) == 1 && s.file("begun")[0] == "begun"
	})
	for range 2 {
		if err := os.WriteFile(pipe, []byte("go\n"), 0o600); err != nil { // it waits until it is read
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	s.wrote("one after the other", "ban", "ban")
}

// firewall keeps a file for each target that is banned, and notes if two of it run at once.
const firewall = `#!/bin/sh
dir=${1%/*}
mkdir "$dir/busy" 2>/dev/null || echo overlap >>"$1"
case $2 in
ban) : >"$dir/banned-$3" ;;
unban) rm -f "$dir/banned-$3" ;;
esac
rmdir "$dir/busy"
`

func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	s := newSite(t, firewall)
	s.obey("bans: {per_minute: 100000, run: " + s.argv() + "}")
	s.run(s.gate.Run, s.worker().Run, s.worker().Run)
	var wg sync.WaitGroup
	banned := map[string]*bool{}
	for i := range 4 {
		ip, is := fmt.Sprintf("203.0.113.%d", i), new(bool)
		banned[ip] = is
		wg.Go(func() {
			for range 10 {
				if *is = rand.N(2) == 0; *is {
					s.ban(address(ip), time.Hour)
				} else {
					s.lift(address(ip))
				}
			}
		})
	}
	wg.Wait()
	for ip, is := range banned {
		s.await(fmt.Sprint(ip, " banned: ", *is), func() bool {
			_, err := os.Stat(filepath.Join(s.folder, "banned-"+ip))
			return (err == nil) == *is
		})
	}
	s.idle()
	for ip, is := range banned {
		if _, err := os.Stat(filepath.Join(s.folder, "banned-"+ip)); (err == nil) != *is {
			t.Errorf("%s: banned %t, the firewall says %v", ip, *is, err)
		}
	}
	s.wrote("two workers", "")
}

// idle waits until no task is left.
func (s *site) idle() {
	s.t.Helper()
	s.await("no tasks", func() bool {
		for _, list := range []string{"pending", "active"} {
			if s.rdb.LLen(s.t.Context(), "asynq:{"+Queue(s.namespace)+"}:"+list).Val() > 0 {
				return false
			}
		}
		for _, set := range []string{"scheduled", "retry"} {
			if s.rdb.ZCard(s.t.Context(), "asynq:{"+Queue(s.namespace)+"}:"+set).Val() > 0 {
				return false
			}
		}
		return true
	})
}

func TestFailsTwiceThenWorks(t *testing.T) {
	t.Parallel()
	s := newSite(t, "#!/bin/sh\necho \"$2\" >>\"$1\"\n[ \"$(wc -l <\"$1\")\" -ge 3 ] || exit 1\n")
	w := s.worker()
	s.run(s.gate.Run, w.serve)
	s.ban(address("203.0.113.7"), time.Hour)
	s.await("it works", func() bool { return w.count("ban", "ok") == 1 })
	s.idle()
	s.wrote("at last", "ban", "ban", "ban")
	if n := w.count("ban", "failed"); n != 2 {
		t.Errorf("failed %d times", n)
	}
}

// A program that failed is run again for the same ban, and it is new bans that open the breaker.
func TestRetriesDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	s := newSite(t, "#!/bin/sh\nexit 1\n")
	s.obey("bans: {per_minute: 1, run: " + s.argv() + "}")
	w := s.worker()
	s.run(s.gate.Run, w.serve)
	s.ban(address("203.0.113.7"), time.Hour)
	s.await("it is held back", func() bool { return w.count("ban", "postponed") > 0 })
	if open := w.metric("tidegate_ban_script_breaker_open"); open != 0 {
		t.Errorf("breaker %v", open)
	}
}

func TestBackoff(t *testing.T) {
	for failed, want := range map[int]time.Duration{0: 2 * time.Second, 1: 4 * time.Second, 5: 64 * time.Second, 8: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := backoff(failed); got != want {
			t.Errorf("after %d failures %v, want %v", failed, got, want)
		}
	}
	if n := tries(24 * time.Hour); n < 288 {
		t.Errorf("%d tries within a day", n)
	}
	w := &Worker{retry: backoff}
	if d := w.delay(3, fmt.Errorf("x: %w", errScript), nil); d != 16*time.Second {
		t.Errorf("after a failure %v", d)
	}
	if d := w.delay(3, errors.New("redis is away"), nil); d != retryWithout {
		t.Errorf("after something else %v", d)
	}
}

// A ban that is over is not passed on: the firewall either has it, perhaps for longer, or needs no unban.
func TestOver(t *testing.T) {
	s := newSite(t, recorder)
	w := s.worker()
	known, unknown := address("203.0.113.7"), address("203.0.113.8")
	s.ban(known, time.Hour)
	s.handle(w, known)
	s.wrote("long", "<ban><203.0.113.7><3600><operator>")
	s.ban(known, time.Millisecond)
	s.ban(unknown, time.Millisecond)
	s.await("they are over", func() bool {
		b, at, _, err := w.opts.Bans.Find(t.Context(), unknown)
		return err == nil && at.After(b.Until)
	})
	s.handle(w, known)
	s.handle(w, unknown)
	s.wrote("over", "<unban><203.0.113.7>")
	s.handle(w, address("203.0.113.9")) // of whom nobody knows
	s.wrote("forgotten", "<unban><203.0.113.9>")
}

// A rule may be named like one of logins, and a login rule may have gone by the time that the program is run.
func TestReasons(t *testing.T) {
	parse := func(text string) *rules.Set {
		t.Helper()
		set, err := rules.Parse("rules.yaml", []byte("version: 1\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	logins := parse("login: [{count: ip, limit: 5, window: 1m, then: ban, for: 10m}]")
	named := parse("rules: [{name: login-form-flood, subject: ip, limit: 1, window: 1s}]")
	for _, c := range []struct {
		set  *rules.Set
		rule string
		want reason
	}{
		{logins, "", byOperator},
		{logins, "login-ip-5-in-1m-ban", byLogin},
		{logins, "login-ip-30-in-10m-ban", byRule},
		{named, "login-ip-30-in-10m-ban", byLogin},
		{named, "login-form-flood", byRule},
		{named, "login", byRule},
	} {
		if got := reasonOf(&bans.Ban{Rule: c.rule, Reason: "login"}, c.set); got != c.want {
			t.Errorf("%q: %s, want %s", c.rule, got, c.want)
		}
	}
}

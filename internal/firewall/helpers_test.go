package firewall

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(8) // programs that take their time
	os.Exit(testenv.Main(m))
}

// recorder writes each argument down between < and >. Its first argument is the file.
const recorder = `#!/bin/sh
file=$1; shift
line=
for arg in "$@"; do line="$line<$arg>"; done
printf '%s\n' "$line" >>"$file"
`

// A site is an installation: a Redis, rules, and a folder with the program and what it writes.
type site struct {
	t         *testing.T
	rdb       *redis.Client
	namespace string
	folder    string
	rules     atomic.Pointer[rules.Set]
	gate      *admission.Gate // of the API
}

func newSite(t *testing.T, script string) *site {
	t.Helper()
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, rdb: redis.NewClient(opts), namespace: strings.ToLower("firewall-" + rand.Text()[:10]), folder: t.TempDir()}
	t.Cleanup(func() { s.rdb.Close() })
	s.write("program", script)
	s.obey("bans: {run: " + s.argv() + "}")
	s.gate, err = admission.NewWithStore(redisstore.New(s.rdb), s.rules.Load(), admission.Options{
		Secret: []byte(strings.Repeat("s", 32)), Namespace: s.namespace, Timeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
		History: NewHistory(nowhere{}, s.rdb, s.namespace, s.rules.Load),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type nowhere struct{}

func (nowhere) Record(context.Context, []bans.Event) error { return nil }

// argv is the program with the file that it writes to, as rules name it.
func (s *site) argv() string {
	return fmt.Sprintf("[%q, %q]", filepath.Join(s.folder, "program"), filepath.Join(s.folder, "log"))
}

func (s *site) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.folder, name)
	if err := os.WriteFile(path+".new", []byte(content), 0o755); err != nil { //nolint:gosec // it is to be run
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil { // one that is run cannot be written
		s.t.Fatal(err)
	}
}

// obey puts other rules into force.
func (s *site) obey(sections string) {
	s.t.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules: [{name: r, subject: user, limit: 1, window: 1s}]\n"+sections), Section)
	if err != nil {
		s.t.Fatal(err)
	}
	s.rules.Store(set)
	if s.gate != nil {
		if err := s.gate.SetRules(set); err != nil {
			s.t.Error(err)
		}
	}
}

// worker makes one that nothing runs yet.
func (s *site) worker(proxies ...netip.Prefix) *Worker {
	s.t.Helper()
	w, err := NewWorker(WorkerOptions{
		Namespace: s.namespace, Redis: s.rdb, Queue: s.rdb, Bans: bans.NewReader(bans.NewRedisStore(s.rdb), s.namespace),
		Rules: s.rules.Load, Proxies: proxies, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	w.retry = func(int) time.Duration { return 0 }
	return w
}

// run runs parts until the returned function is called, or the test ends.
func (s *site) run(parts ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() {
			if err := part(ctx); err != nil && !errors.Is(err, context.Canceled) {
				s.t.Error(err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	s.t.Cleanup(stop)
	return stop
}

func address(ip string) bans.Target {
	t, err := bans.ParseTarget("ip", ip)
	if err != nil {
		panic(err)
	}
	return t
}

// ban bans by an operator's order.
func (s *site) ban(target bans.Target, length time.Duration) bans.Ban {
	s.t.Helper()
	return s.order(bans.Order{Target: target, For: length})
}

func (s *site) order(o bans.Order) bans.Ban {
	s.t.Helper()
	b, err := s.gate.Ban(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *site) lift(target bans.Target) {
	s.t.Helper()
	if _, err := s.gate.Lift(s.t.Context(), target); err != nil {
		s.t.Fatal(err)
	}
}

// handle hands a worker the task of a target.
func (s *site) handle(w *Worker, target bans.Target) {
	s.t.Helper()
	if err := w.handle(s.t.Context(), task(target)); err != nil {
		s.t.Fatal(err)
	}
}

func task(target bans.Target) *asynq.Task {
	return asynq.NewTask(Task, fmt.Appendf(nil, `{"kind":%q,"value":%q}`, target.Kind, target.Value))
}

var lengths = regexp.MustCompile(`^(<ban><.*><)(\d+)(><\w+>)$`)

// file returns what a program has written, in lines. Lengths of bans are rounded up to minutes: a busy machine may take its time.
func (s *site) file(name string) []string {
	content, err := os.ReadFile(filepath.Join(s.folder, name))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	for i, line := range lines {
		if m := lengths.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[2])
			lines[i] = fmt.Sprint(m[1], (n+59)/60*60, m[3])
		}
	}
	return lines
}

// wrote fails the test unless the program was run like this, and empties the log.
func (s *site) wrote(when string, want ...string) {
	s.t.Helper()
	if got := strings.Join(s.file("log"), "\n"); got != strings.Join(want, "\n") {
		s.t.Errorf("%s it was run as\n%s\nwant\n%s", when, got, strings.Join(want, "\n"))
	}
	_ = os.Remove(filepath.Join(s.folder, "log"))
}

// await waits for what others do.
func (s *site) await(what string, is func() bool) {
	s.t.Helper()
	patience := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-patience:
			s.t.Fatalf("waited for: %s; log: %q", what, s.file("log"))
		case <-tick.C:
		}
	}
}

// awaitLine waits until the program was run like this.
func (s *site) awaitLine(line string) {
	s.t.Helper()
	s.await(line, func() bool {
		for _, l := range s.file("log") {
			if l == line {
				return true
			}
		}
		return false
	})
}

// count is how often the program was run with that result.
func (w *Worker) count(action, result string) int {
	return int(w.metric("tidegate_ban_script_runs_total", action, result))
}

// metric is the value of a metric with those labels, or -1 if there is none.
func (w *Worker) metric(name string, labels ...string) float64 {
	registry := prometheus.NewRegistry()
	registry.MustRegister(w)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(values, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

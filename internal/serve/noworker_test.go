package serve

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestNoWorkerRuns: an API without a worker serves for 30 s, and readyz, the page and the refusals name what is missing.
func TestNoWorkerRuns(t *testing.T) {
	t.Parallel()
	env := environment(testenv.Redis(t), databases.Postgres(t))
	s := openShop(t, startAPI(t, env), 10)
	s.bought("alice")
	readyz := func(status int, want string) {
		t.Helper()
		servetest.Until(t, status, func() servetest.Answer {
			a := servetest.Once("GET", s.URL("public")+"/readyz", "")
			if !strings.Contains(string(a.Body), want) {
				a.Status = 0
			}
			return a
		})
	}
	readyz(http.StatusOK, `"degraded":["commits"]`)
	slow := func(condition string) bool { return !strings.HasPrefix(condition, "commits: ") } // Redis, on a busy machine: another frame follows
	shown := func(workers, conditions int) livepage.Process {
		t.Helper()
		return s.frame(func(f *livepage.Frame) bool { // the first ones may have been made before
			p := f.Process
			return p.Workers != nil && *p.Workers == workers && len(p.Degraded) == conditions && !slices.ContainsFunc(p.Degraded, slow)
		}).Process
	}
	if p := shown(0, 1); p.Processes != 1 || !strings.HasPrefix(p.Degraded[0], "commits: no worker has committed orders") ||
		!strings.Contains(p.Degraded[0], "orders that wait: 1, the oldest for ") || !strings.Contains(p.Degraded[0], "new orders are accepted for ") {
		t.Errorf("the page shows %+v", p)
	}
	readyz(http.StatusServiceUnavailable, "; no new orders are accepted")
	if a := s.place("bob"); a.Status != http.StatusServiceUnavailable {
		t.Errorf("an order without a worker: %v", a)
	}

	startWorker(t, env)
	readyz(http.StatusOK, `"ok"`)
	shown(1, 0)
	s.confirmed(s.bought("bob"), "bob")
}

// frame returns the first frame of the live page that is as wanted.
func (s saleAPI) frame(wanted func(*livepage.Frame) bool) *livepage.Frame {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.URL("internal")+"/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for frames := 0; frames < 60 && lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), `data: {"seq":`)
		if !ok {
			continue
		}
		frames++
		f := &livepage.Frame{}
		if err := json.Unmarshal([]byte(`{"seq":`+data), f); err != nil {
			s.t.Fatal(err)
		}
		if wanted(f) {
			return f
		}
	}
	s.t.Fatalf("no such frame: %v", lines.Err())
	return nil
}

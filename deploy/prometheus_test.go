package deploy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// prometheus is a running one that scrapes a world, set up by deploy/prometheus.
type prometheus struct {
	t   *testing.T
	url string
}

func startPrometheus(t *testing.T, w world) prometheus {
	t.Helper()
	dir := t.TempDir()
	token, file := filepath.Join(dir, "token"), filepath.Join(dir, "prometheus.yml")
	config, err := os.ReadFile("prometheus/prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"/tmp/metrics-token", token},
		{"api:8081", w.api.Addr("internal")},
		{"worker:8082", w.worker.Addr("worker")},
		{"scrape_interval: 5s", "scrape_interval: 2s"},
		{"scrape_timeout: 4s", "scrape_timeout: 2s"},
		{"evaluation_interval: 5s", "evaluation_interval: 1s"},
	} {
		if !strings.Contains(string(config), change[0]) {
			t.Fatalf("prometheus.yml has no %q", change[0])
		}
		config = []byte(strings.ReplaceAll(string(config), change[0], change[1]))
	}
	alerts, err := os.ReadFile("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{token: []byte(scraper), file: config, filepath.Join(dir, "alerts.yml"): alerts} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Before 3.8, as Debian has it, the flag below stands for the setting.
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", file).CombinedOutput(); strings.Contains(string(out), "scrape_native_histograms not found") {
		config = []byte(strings.Replace(string(config), "scrape_native_histograms: true", "", 1))
		if err := os.WriteFile(file, config, 0o600); err != nil {
			t.Fatal(err)
		}
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort())
	var said strings.Builder
	cmd := exec.CommandContext(t.Context(), "prometheus", "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr, "--enable-feature=native-histograms", "--log.level=warn")
	cmd.Stderr = &said
	if err := testenv.StartChild(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Log(said.String())
		}
	})
	p := prometheus{t, "http://" + addr}
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", p.url+"/-/ready", "") })
	return p
}

// get reads the data of an answer of the API.
func (p prometheus) get(path string, data any) {
	p.t.Helper()
	a := servetest.Call("GET", p.url+path, "")
	if a.Status != http.StatusOK {
		p.t.Fatalf("%s: %v", path, a)
	}
	var answer struct{ Data json.RawMessage }
	a.Into(p.t, &answer)
	if err := json.Unmarshal(answer.Data, data); err != nil {
		p.t.Fatal(err)
	}
}

// found tells how many series an expression finds.
func (p prometheus) found(expr string) int {
	p.t.Helper()
	var data struct{ Result []any }
	p.get("/api/v1/query?query="+url.QueryEscape(expr), &data)
	return len(data.Result)
}

// until waits for a condition that holds sooner or later.
func (p prometheus) until(what string, is func() (bool, any)) {
	p.t.Helper()
	servetest.Until(p.t, http.StatusOK, func() servetest.Answer {
		is, instead := is()
		if is {
			return servetest.Answer{Status: http.StatusOK}
		}
		return servetest.Answer{Err: fmt.Errorf("waiting for %s, there is %v", what, instead)}
	})
}

// A real Prometheus, as deploy/ sets it up, scrapes the real programs with the token that may do nothing else; every panel of the dashboard
// shows something, every metric that is named is there, every alert is evaluated, and none is raised while all is well.
func TestPrometheusTakesWhatIsDeployed(t *testing.T) {
	w := start(t)
	p := startPrometheus(t, w)
	p.until("both to be scraped thrice", func() (bool, any) {
		up := p.found(`count_over_time(up{job=~"tidegate-(api|worker)"}[1m]) >= 3 and up == 1`)
		return up == 2, up
	})
	if p.found("histogram_count(tidegate_decision_duration_seconds) > 0") != 1 {
		t.Error("histograms are not native")
	}
	if p.found(`tidegate_http_request_duration_seconds{listener="public",code=~"2.."}`) == 0 {
		t.Error("requests have other labels than TidegateErrors asks for")
	}
	w.order("bob")

	expressions := map[string]string{}
	for _, panel := range dashboard(t) {
		for i, target := range panel.Targets {
			expressions[fmt.Sprintf("panel %s, query %d", panel.Title, i)] = shown.Replace(target.Expr)
		}
	}
	for _, alert := range alerts(t) {
		expr, _, _ := strings.Cut(alert.Expr, " > ")
		expressions["alert "+alert.Name] = expr
	}
	var names []string
	p.get("/api/v1/label/__name__/values", &names)
	known := map[string]bool{brokenOnly: true, "ALERTS": true}
	for _, name := range names {
		known[name] = true
	}
	for of, expr := range expressions {
		if i := slices.IndexFunc(metricName.FindAllString(expr, -1), func(name string) bool { return !known[name] }); i >= 0 {
			t.Errorf("%s: nobody tells %s", of, metricName.FindAllString(expr, -1)[i])
			continue
		}
		onlyTrouble := strings.Contains(expr, "> 0") || strings.Contains(expr, brokenOnly) ||
			strings.HasPrefix(of, "alert ") && !slices.Contains(slowness, strings.TrimPrefix(of, "alert "))
		if !onlyTrouble {
			p.until(of+": "+expr, func() (bool, any) { return p.found(expr) > 0, "nothing" })
		}
	}

	var rules struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	p.until("all rules to be evaluated, and none to be raised", func() (bool, any) { // for a moment a late scrape may raise one
		p.get("/api/v1/rules", &rules)
		var raised []string
		for _, group := range rules.Groups {
			for _, rule := range group.Rules {
				if rule.State != "inactive" || rule.Health != "ok" {
					raised = append(raised, fmt.Sprintf("%s is %s, %s: %s", rule.Name, rule.State, rule.Health, rule.LastError))
				}
			}
		}
		return len(rules.Groups) > 0 && len(raised) == 0, raised
	})
}

var (
	metricName = regexp.MustCompile(`\b(tidegate|go|process)_[a-z0-9_]+|\bALERTS\b`)
	shown      = strings.NewReplacer("$__rate_interval", "10s", "$sale", ".*", "$listener", "public")
)

type panel struct {
	ID      int
	Title   string
	Targets []struct{ Expr string }
	GridPos struct{ X, Y, W, H int }
}

func dashboard(t *testing.T) []panel {
	t.Helper()
	content, err := os.ReadFile("grafana/tidegate.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Panels []panel }
	if err := json.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Panels) == 0 {
		t.Fatal("no panels")
	}
	return file.Panels
}

// Panels have ids of their own and do not cover each other.
func TestPanelsHavePlaces(t *testing.T) {
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, panel := range dashboard(t) {
		if ids[panel.ID] {
			t.Errorf("%s has an id that another has", panel.Title)
		}
		ids[panel.ID] = true
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				at := [2]int{panel.GridPos.X + x, panel.GridPos.Y + y}
				if taken[at] != "" || at[0] >= 24 {
					t.Fatalf("%s covers %s", panel.Title, taken[at])
				}
				taken[at] = panel.Title
			}
		}
	}
}

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
	"time"

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
		{"dns_sd_configs: [{names: [api], type: A, port: 8081}]", "static_configs: [{targets: [" + w.api.Addr("internal") + "]}]"},
		{"dns_sd_configs: [{names: [worker], type: A, port: 8082}]", "static_configs: [{targets: [" + w.worker.Addr("worker") + "]}]"},
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
	addr := testenv.FreeAddr()
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
// shows something, every metric that is named is there, every alert is evaluated, none is raised while all is well, and
// some are while Redis does not answer.
func TestPrometheusTakesWhatIsDeployed(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := startPrometheus(t, w)
	p.until("both to be scraped thrice", func() (bool, any) {
		up := p.found(`count_over_time(up{job=~"tidegate-(api|worker)"}[1m]) >= 3 and up == 1`)
		return up == 2, up
	})
	if p.found("histogram_count(tidegate_decision_duration_seconds) > 0") != 1 {
		t.Error("histograms are not native")
	}
	w.order("bob")

	expressions, quiet := map[string]string{}, map[string]bool{} // quiet: finds nothing while all is well
	for _, panel := range dashboard(t) {
		for i, target := range panel.Targets {
			of := fmt.Sprintf("panel %s, query %d", panel.Title, i)
			expressions[of] = shown.Replace(target.Expr)
			quiet[of] = strings.Contains(target.Expr, "> 0") || strings.Contains(target.Expr, brokenOnly)
		}
	}
	for _, alert := range alerts(t) {
		of := "alert " + alert.Name
		expressions[of], quiet[of] = alert.Expr, true
		if strings.Contains(alert.Expr, "histogram_quantile") { // what took some time took more than none
			expressions[of], quiet[of] = overLimit.ReplaceAllString(alert.Expr, "> 0"), false
		}
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
		if !quiet[of] {
			p.until(of+": "+expr, func() (bool, any) { return p.found(expr) > 0, "nothing" })
		}
	}

	p.staysCalm()

	// A Redis that accepts connections and answers nothing is the worst that can happen to it.
	w.redis.Stop()
	defer w.redis.Continue()
	for _, alert := range alerts(t) {
		if slices.Contains([]string{"TidegateDegraded", "TidegateErrors", "TidegateNumbersMissing"}, alert.Name) {
			buyer := 0
			p.until(alert.Name+" to be raised", func() (bool, any) {
				buyer++ // who has an order is told of it without Redis
				w.order(fmt.Sprint(alert.Name, "-", buyer))
				return p.found(alert.Expr) > 0, "nothing"
			})
		}
	}
}

// staysCalm waits until no alert has been raised for two evaluations. For a moment a late scrape may raise one.
func (p prometheus) staysCalm() {
	p.t.Helper()
	var rules struct {
		Groups []struct {
			LastEvaluation time.Time
			Rules          []struct{ Name, State, Health, LastError string }
		}
	}
	var since time.Time
	p.until("all rules to be evaluated, and none to be raised", func() (bool, any) {
		p.get("/api/v1/rules", &rules)
		var raised []string
		var last time.Time
		for _, group := range rules.Groups {
			if group.LastEvaluation.After(last) {
				last = group.LastEvaluation
			}
			for _, rule := range group.Rules {
				if rule.State != "inactive" || rule.Health != "ok" {
					raised = append(raised, fmt.Sprintf("%s is %s, %s: %s", rule.Name, rule.State, rule.Health, rule.LastError))
				}
			}
		}
		if since.IsZero() || len(raised) > 0 {
			since = last
		}
		return len(rules.Groups) > 0 && len(raised) == 0 && last.Sub(since) >= 2*time.Second, raised
	})
}

var (
	overLimit  = regexp.MustCompile(`> [0-9.]+`)
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

package metrics_test

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/internal/reload"
)

type gate struct {
	rules *rules.Set
	stats admission.Stats
}

func (g *gate) Stats() admission.Stats { return g.stats }
func (g *gate) Rules() *rules.Set      { return g.rules }

// scrape returns the samples of this program's own metrics.
func scrape(t *testing.T, m *metrics.Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	samples := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if at := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, "tidegate_") {
			samples[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	for _, other := range []string{"go_goroutines", "process_cpu_seconds_total"} {
		if !strings.Contains(w.Body.String(), "\n"+other+" ") {
			t.Errorf("no %s", other)
		}
	}
	return samples
}

func TestStats(t *testing.T) {
	g := &gate{rules: rules.Default(), stats: admission.Stats{
		Version: "abc", Degraded: true, Processes: 3, Bans: 4, Denials: 5, DenyHits: 6, DenyMisses: 7, StoreCalls: 8,
		Memory: []memorystore.Stats{{Subjects: 9, Reclaimed: 10, Evicted: 11, Cleaned: 12 * time.Second}, {}},
	}}
	m := metrics.New("v1.2.3")
	m.Gate(g)
	want := map[string]string{
		`tidegate_build_info{version="v1.2.3"}`: "1",
		"tidegate_admission_degraded":           "1", "tidegate_deny_cache_entries": "5", "tidegate_deny_cache_hits_total": "6",
		"tidegate_deny_cache_misses_total": "7", `tidegate_rules_info{version="abc"}`: "1",
		"tidegate_bans": "4", "tidegate_processes": "3", "tidegate_decision_round_trips_total": "8",
		`tidegate_memory_subjects{shard="0"}`: "9", `tidegate_memory_reclaimed_total{shard="0"}`: "10",
		`tidegate_memory_evicted_total{shard="0"}`: "11", `tidegate_memory_cleaned_seconds{shard="0"}`: "12",
		`tidegate_memory_subjects{shard="1"}`: "0", `tidegate_memory_reclaimed_total{shard="1"}`: "0",
		`tidegate_memory_evicted_total{shard="1"}`: "0", `tidegate_memory_cleaned_seconds{shard="1"}`: "0",
	}
	got := scrape(t, m)
	maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasPrefix(name, "tidegate_decision_duration") })
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	g.stats.Degraded = false
	if got := scrape(t, m); got["tidegate_admission_degraded"] != "0" {
		t.Errorf("%v", got)
	}
}

func TestReloads(t *testing.T) {
	m := metrics.New("test")
	m.Reloads(func() []reload.State {
		return []reload.State{
			{Setting: "RULES_FILE", Loaded: time.Now().Add(-time.Hour)},
			{Setting: "JWT_JWKS_URL", Loaded: time.Now().Add(-2 * time.Hour), Failed: true},
		}
	})
	got := scrape(t, m)
	if got[`tidegate_reload_failed{setting="RULES_FILE"}`] != "0" || got[`tidegate_reload_failed{setting="JWT_JWKS_URL"}`] != "1" {
		t.Errorf("%v", got)
	}
	for setting, hours := range map[string]string{"RULES_FILE": "3600", "JWT_JWKS_URL": "7200"} {
		if age := got[`tidegate_reload_age_seconds{setting="`+setting+`"}`]; !strings.HasPrefix(age, hours+".") {
			t.Errorf("%s is %s s old", setting, age)
		}
	}
}

// However many users, addresses and tiers there are, there are as many series as the rules make.
func TestPitfall_P18_NoLabelHasAUsersValue(t *testing.T) {
	set, err := rules.Parse("rules.yaml", []byte(`
version: 1
rules:
  - {name: api, subject: [caller], limit: {gold: 10, default: 1}, window: 1m}
  - {name: later, subject: [caller], limit: 1, window: 1h, shadow: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{rules: set}
	m := metrics.New("test")
	m.Gate(g)
	for i := range 1000 {
		user := fmt.Sprintf("user-%d", i)
		for _, tier := range []string{"", "gold", "silver", user} {
			m.Decided(&admission.Request{User: user, Tier: tier, Route: "/" + user}, &admission.Decision{
				Action: rules.Deny, Rule: "api", Rules: []admission.Verdict{{Rule: "api"}, {Rule: "later", Shadow: true}, {Rule: "later", Shadow: true}},
			}, time.Millisecond)
		}
		m.Decided(&admission.Request{Device: user}, &admission.Decision{Admitted: true, Action: rules.Allow}, time.Millisecond)
	}
	want := map[string]string{
		`tidegate_decisions_total{action="deny",rule="api",tier="registered"}`:  "1000",
		`tidegate_decisions_total{action="deny",rule="api",tier="gold"}`:        "1000",
		`tidegate_decisions_total{action="deny",rule="api",tier="other"}`:       "2000",
		`tidegate_decisions_total{action="allow",rule="none",tier="anonymous"}`: "1000",
	}
	got := scrape(t, m)
	maps.DeleteFunc(got, func(name, _ string) bool {
		return !strings.HasPrefix(name, "tidegate_decisions")
	})
	if !maps.Equal(got, want) {
		t.Errorf("%v", slices.Sorted(maps.Keys(got)))
	}

	// Other rules name other tiers.
	if g.rules, err = rules.Parse("rules.yaml", []byte("version: 1\nrules:\n  - {name: api, subject: [caller], limit: {silver: 10, default: 1}, window: 1m}\n")); err != nil {
		t.Fatal(err)
	}
	m.Decided(&admission.Request{Tier: "silver"}, &admission.Decision{Action: rules.Allow, Rule: "api"}, time.Millisecond)
	if got := scrape(t, m)[`tidegate_decisions_total{action="allow",rule="api",tier="silver"}`]; got != "1" {
		t.Errorf("%q", got)
	}
}

package deploy_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// A metric as docs/metrics.md has it, and as a process tells it.
type metric struct{ kind, labels, help string }

// metrics are what a process tells of its own, by name.
func (w world) metrics(t *testing.T, process string) map[string]metric {
	t.Helper()
	url := w.worker.URL("worker")
	if process == "api" {
		url = w.api.URL("internal")
	}
	a := servetest.Call("GET", url+"/metrics", "", "Authorization", "Bearer "+scraper)
	if a.Status != http.StatusOK {
		t.Fatal(a)
	}
	all := map[string]metric{}
	for _, described := range describedLine.FindAllStringSubmatch(string(a.Body), -1) {
		sample := regexp.MustCompile(`(?m)^` + described[1] + `(?:_count)?(?:\{(.*)\})? `).FindStringSubmatch(string(a.Body))
		if sample == nil {
			t.Fatalf("%s tells no %s", process, described[1])
		}
		var labels []string
		for _, label := range labelName.FindAllStringSubmatch(sample[1], -1) {
			labels = append(labels, label[1])
		}
		all[described[1]] = metric{described[3], strings.Join(labels, ", "), described[2]}
	}
	return all
}

var (
	describedLine = regexp.MustCompile(`(?m)^# HELP (tidegate_\S+) (.*)\n# TYPE \S+ (\S+)$`)
	labelName     = regexp.MustCompile(`([a-z_]+)="(?:[^"\\]|\\.)*"`)
	tableRow      = regexp.MustCompile("(?m)^\\| `(tidegate_[a-z_]+)` \\| (.*) \\| (.*) \\| (.*) \\| (.*) \\|$")
)

// brokenOnly is told only of a sale that does not add up; internal/metrics tests it.
const brokenOnly = "tidegate_broken_invariants"

// docs/metrics.md has every metric that the programs tell, in the programs' words, and no other.
func TestMetricsAreDescribed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]map[string]metric{"api": {}, "worker": {}}
	for _, row := range tableRow.FindAllStringSubmatch(string(page), -1) {
		for process := range strings.SplitSeq(row[4], ", ") {
			if described[process] == nil || row[5] == "" {
				t.Fatalf("%s is told by %q: %q", row[1], process, row[5])
			}
			described[process][row[1]] = metric{row[2], strings.TrimPrefix(row[3], "–"), row[5]}
		}
	}
	if _, ok := described["api"][brokenOnly]; !ok {
		t.Errorf("%s is not described", brokenOnly)
	}
	delete(described["api"], brokenOnly)

	w := start(t)
	for process, want := range described {
		// What was read for a scrape before may be from before the sale.
		got := map[string]metric{}
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			if got = w.metrics(t, process); maps.Equal(got, want) {
				return servetest.Answer{Status: http.StatusOK}
			}
			return servetest.Answer{Err: fmt.Errorf("%s: %s", process, difference(got, want))}
		})
	}
}

func difference(got, want map[string]metric) string {
	var all []string
	for name := range got {
		if want[name] != got[name] {
			all = append(all, fmt.Sprintf("%s is %+v, described as %+v", name, got[name], want[name]))
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			all = append(all, name+" is described, and not told")
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

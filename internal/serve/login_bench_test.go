package serve

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// BenchmarkLoginAttemptLoopback measures the whole API process over HTTP, in alternating turns: reserving attempts by the
// default rules, and charging one plain rule. attempts/rule is their ratio within the turns.
func BenchmarkLoginAttemptLoopback(b *testing.B) {
	rules := filepath.Join(b.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules: [{name: plain, subject: user, limit: 10, window: 1m}]"), 0o600); err != nil {
		b.Fatal(err)
	}
	env := environment(testenv.Redis(b), databases.Postgres(b))
	api := startAPI(b, func(name string) string {
		if name == "RULES_FILE" {
			return rules
		}
		return env(name)
	})
	const callers, turns = 64, 2048
	client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	turn := func(path, body, want string) time.Duration {
		began := time.Now()
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range turns / callers {
					i := next.Add(1)
					resp, err := client.Post(api.URL("internal")+path, "application/json", strings.NewReader(fmt.Sprintf(body, i, i>>8&255, i&255)))
					if err != nil {
						b.Error(err)
						return
					}
					answer, _ := io.ReadAll(resp.Body)
					resp.Body.Close()
					if !strings.Contains(string(answer), want) {
						b.Errorf("%s answers %d %s", path, resp.StatusCode, answer)
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(began)
	}
	var rule, attempts time.Duration
	total := 0
	for b.Loop() {
		total += turns
		rule += turn("/v1/admit", `{"subject":{"user":"user-%d","ip":"10.1.%d.%d"}}`, `"admitted":true`)
		attempts += turn("/v1/login/attempts", `{"name":"user-%d","ip":"10.1.%d.%d"}`, `"decision":`)
	}
	b.ReportMetric(float64(total)/rule.Seconds(), "rule/s")
	b.ReportMetric(float64(total)/attempts.Seconds(), "attempts/s")
	b.ReportMetric(rule.Seconds()/attempts.Seconds(), "attempts/rule")
}

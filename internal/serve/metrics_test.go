package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestPitfall_P18_CallersMakeNoSeries: requests of any kind do not increase the number of series.
func TestPitfall_P18_CallersMakeNoSeries(t *testing.T) {
	t.Parallel()
	s := openShop(t, startAPI(t, environment(testenv.Redis(t), databases.Postgres(t))), 10)
	series := func() int {
		a := servetest.Call("GET", s.URL("internal")+"/metrics", "")
		if a.Status != http.StatusOK || strings.Contains(string(a.Body), "evil") {
			t.Fatal(a)
		}
		count := 0
		for line := range strings.Lines(string(a.Body)) {
			// A machine too busy to answer in time creates the series of 503 at any time.
			if strings.HasPrefix(line, "tidegate_") && !strings.Contains(line, `"503"`) && !strings.Contains(line, `"store_unavailable"`) && !strings.Contains(line, `"unavailable"`) {
				count++
			}
		}
		return count
	}
	attack := func(from, to int) {
		for i := from; i < to; i++ {
			evil := fmt.Sprintf("evil%d", i)
			for _, base := range []string{s.URL("public"), s.URL("internal")} {
				servetest.Call("EVIL"+fmt.Sprint(i), base+"/"+evil, "")
				servetest.Call("POST", base+"/v1/sales/"+evil+"/orders", `{"item":"`+evil+`"}`, "X-User-ID", evil, "X-Request-ID", evil)
			}
			servetest.Call("GET", s.URL("internal")+"/v1/semaphores/"+evil, "")
			servetest.Call("POST", s.URL("internal")+"/v1/admit", `{"subject":{"user":"`+evil+`","tier":"`+evil+`"},"attributes":{"route":"/`+evil+`","method":"`+evil+`"}}`)
			servetest.Call("POST", s.URL("internal")+"/v1/login/attempts", `{"name":"`+evil+`","ip":"203.0.113.7"}`)
		}
	}
	attack(0, 100) // some are the first of their kind
	series()       // these too are requests
	before := series()
	attack(100, 300)
	// 800 callers more; a machine too busy to answer in time creates a few series for what it could not do.
	if now := series(); now > before+50 {
		t.Errorf("%d series, then %d", before, now)
	}
}

// TestMetricsWhileRedisHangs: metrics are served while Redis hangs, without outdated values.
func TestMetricsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	s := openShop(t, startAPI(t, environment(server.URL(), databases.Postgres(t))), 10)
	told := func(outbox bool) {
		t.Helper()
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			a := servetest.Call("GET", s.URL("internal")+"/metrics", "")
			body := string(a.Body)
			if !strings.Contains(body, "\ngo_goroutines ") || !strings.Contains(body, "\ntidegate_dead_letters 0\n") {
				t.Fatal(a)
			}
			if strings.Contains(body, "\ntidegate_outbox_orders ") != outbox || strings.Contains(body, "\ntidegate_queue_tasks{") != outbox {
				a.Status = 0
			}
			return a
		})
	}
	told(true)
	server.Stop()
	told(false)
	server.Continue()
	told(true)
}

package serve

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMetricsOfThePrograms(t *testing.T) {
	env := environment(testenv.Redis(t), testenv.Postgres(t))
	api, worker := startAPI(t, env), startWorker(t, env)
	s := openShop(t, api, 10)
	s.confirmed(s.bought("alice"), "alice")
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return s.quiet() }) // and verified
	for at, want := range map[string]string{
		api.URL("internal"):  "\ntidegate_invariant_violations{sale=\"concert\"} 0\n",
		worker.URL("worker"): "\ngo_goroutines ",
	} {
		if a := servetest.Call("GET", at+"/metrics", ""); a.Status != http.StatusOK || !strings.Contains(string(a.Body), want) {
			t.Errorf("no %q in %v", want, a)
		}
	}
}

package serve

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/reports"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestReportSharesItsBudgetWithHTTP: a task of the worker waits for a permit that is held over HTTP, in the same queue as HTTP
// callers.
func TestReportSharesItsBudgetWithHTTP(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	shared := environment(testenv.Redis(t), databases.Postgres(t))
	env := func(name string) string {
		if name == "REPORTS" {
			return folder
		}
		return shared(name)
	}
	api := startAPI(t, shared)
	startWorker(t, env)
	s := openShop(t, api, 10)
	for i := range 3 {
		s.bought(fmt.Sprint("user-", i))
	}
	at := api.URL("internal") + "/v1/semaphores/" + reports.Semaphore
	var status struct {
		Limit, Waiting int
		Waiters        []struct{ Holder string }
	}
	servetest.Call("GET", at, "").Into(t, &status)
	var permit struct {
		ID string `json:"permit_id"`
	}
	for range status.Limit {
		a := servetest.Call("POST", at+"/permits", `{"holder":"curl"}`)
		if a.Status != http.StatusCreated {
			t.Fatal(a)
		}
		a.Into(t, &permit)
	}
	redis, err := OpenRedis(config.URL(env("REDIS_URL")), config.URL(env("REDIS_URL")), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer redis.CloseAfter(nil)
	file, err := reports.Enqueue(t.Context(), redis.Queue, env("NAMESPACE"), "concert")
	if err != nil {
		t.Fatal(err)
	}
	for status.Waiting == 0 {
		servetest.Call("GET", at, "").Into(t, &status)
	}
	if w := status.Waiters[0].Holder; !strings.HasPrefix(w, reports.OrdersTask+" ") {
		t.Errorf("%s waits", w)
	}
	if files, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(files) != 0 {
		t.Errorf("%v without a permit, %v", files, err)
	}
	if a := servetest.Call("DELETE", at+"/permits/"+permit.ID, ""); a.Status != http.StatusNoContent {
		t.Fatal(a)
	}
	content, err := os.ReadFile(filepath.Join(folder, file))
	for limit := time.Now().Add(time.Minute); os.IsNotExist(err) && time.Now().Before(limit); content, err = os.ReadFile(filepath.Join(folder, file)) {
		runtime.Gosched()
	}
	if err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(string(content), "\n"); rows != 4 || !strings.Contains(string(content), ",user-2,") {
		t.Errorf("%s", content)
	}
}

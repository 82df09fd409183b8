package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// startTidegate starts an embedded server with the rules of the example.
func startTidegate(t *testing.T) embedded.Place {
	t.Helper()
	at := make(chan embedded.Place, 1)
	folder := t.TempDir()
	servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		args := []string{
			"-listen", "127.0.0.1:0", "-internal-listen", "127.0.0.1:0", "-tidegate-data", folder, "-log-format", "json", "-rules-file", "rules.yaml",
		}
		cfg, err := config.API(args, func(string) string { return "" }, stderr)
		if err != nil {
			return err
		}
		return embedded.Run(ctx, cfg, cfg.Logger(stderr), func(p embedded.Place) { at <- p })
	})
	place := <-at
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", place.Internal+"/v1/semaphores/heavy", "") })
	return place
}

// Requests and tasks together are two at a time, and all are done.
func TestTwoAtOnce(t *testing.T) {
	opts, err := redis.ParseURL(startTidegate(t).Redis)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	caps, err := semaphore.NewSet(rdb, semaphore.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go caps.Run(t.Context()) //nolint:errcheck // it returns nil when the test ends
	heavy, err := caps.Semaphore("heavy")
	if err != nil {
		t.Fatal(err)
	}
	const each = 6
	var (
		mu        sync.Mutex
		now, most int
		second    = make(chan struct{}) // closed when two are at work
		done      = make(chan string, 2*each)
	)
	report := func(_ context.Context, name string, token int64) error {
		mu.Lock()
		if now++; now > most {
			if most = now; most == 2 {
				close(second)
			}
		}
		mu.Unlock()
		<-second
		mu.Lock()
		now--
		mu.Unlock()
		if token == 0 {
			return errors.New("no fencing token")
		}
		done <- name
		return nil
	}
	worker := newWorker(rdb)
	if err := worker.Start(tasks(heavy, rdb, report)); err != nil {
		t.Fatal(err)
	}
	defer worker.Shutdown()
	e := echo.New()
	routes(e, heavy, asynq.NewClientFromRedisClient(rdb), report)
	server := httptest.NewServer(e)
	defer server.Close()

	var wg sync.WaitGroup
	for i := range each {
		for method, want := range map[string]int{"GET": http.StatusOK, "POST": http.StatusAccepted} {
			wg.Go(func() {
				if a := servetest.Call(method, fmt.Sprintf("%s/reports/%s-%d", server.URL, method, i), ""); a.Status != want {
					t.Errorf("%s: %v", method, a)
				}
			})
		}
	}
	wg.Wait()
	made := map[string]bool{}
	for len(made) < 2*each {
		made[<-done] = true
	}
	if most != 2 {
		t.Errorf("%d at once", most)
	}
}

// lines is an output whose lines can be waited for.
type lines struct{ said chan string }

func (l lines) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		l.said <- string(line)
	}
	return len(p), nil
}

var link = regexp.MustCompile(`http://[^/]+/reports/`)

// The program shares its cap with callers of the HTTP API.
func TestTheProgram(t *testing.T) {
	place := startTidegate(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, ended := lines{make(chan string, 10)}, make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-listen", "127.0.0.1:0", "-takes", "1ms"}, func(name string) string {
			return map[string]string{"REDIS_URL": place.Redis}[name]
		}, out)
	}()
	reports := link.FindString(<-out.said)

	semaphore := place.Internal + "/v1/semaphores/heavy"
	var permit struct {
		ID string `json:"permit_id"`
	}
	servetest.Call("POST", semaphore+"/permits", `{"holder":"somebody else","weight":2}`).Into(t, &permit)
	first := make(chan servetest.Answer, 1)
	go func() { first <- servetest.Call("GET", reports+"first", "") }()
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		a := servetest.Call("GET", semaphore, "")
		if !strings.Contains(string(a.Body), `"waiting":1`) {
			a.Status = 0
		}
		return a
	})
	if a := servetest.Call("DELETE", semaphore+"/permits/"+permit.ID, ""); a.Status != http.StatusNoContent {
		t.Fatal(a)
	}
	if a := <-first; a.Status != http.StatusOK || string(a.Body) != "first is ready\n" {
		t.Error(a)
	}
	if a := servetest.Call("POST", reports+"second", ""); a.Status != http.StatusAccepted {
		t.Error(a)
	}
	for _, name := range []string{"first", "second"} {
		if said := <-out.said; !strings.HasPrefix(said, name+" is ready, under token ") {
			t.Errorf("%q", said)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

package semaphoreecho_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/semaphore/semaphoreecho"
)

const long = time.Minute // more than any test waits

// open returns the semaphore "report" of the test's namespace, as one process sees it.
func open(t *testing.T, url string, limit int) *semaphore.Semaphore {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { rdb.Close() })
	sem, err := semaphore.New(rdb, "report", semaphore.Options{Limit: limit, Namespace: "echo-" + strings.ToLower(t.Name())})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = sem.Run(ctx) }()
	return sem
}

// serve serves /x behind the middleware and returns its URL.
func serve(t *testing.T, handler echo.HandlerFunc, limit echo.MiddlewareFunc) string {
	t.Helper()
	e := echo.New()
	e.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true, LogErrorFunc: func(_ echo.Context, err error, _ []byte) error { return err }}))
	e.Any("/x", handler, limit)
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	return s.URL + "/x"
}

// get returns the whole answer.
func get(ctx context.Context, t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return nil, ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	return res, string(body)
}

// await waits until the semaphore stands so.
func await(t *testing.T, sem *semaphore.Semaphore, inUse, waiting int) semaphore.Status {
	t.Helper()
	for {
		st, err := sem.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.InUse == inUse && st.Waiting == waiting {
			return st
		}
		runtime.Gosched()
	}
}

func TestNeverMoreThanTheLimit(t *testing.T) {
	var inside, most, served atomic.Int64
	handler := func(c echo.Context) error {
		n := inside.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		runtime.Gosched()
		inside.Add(-1)
		served.Add(1)
		return c.NoContent(http.StatusNoContent)
	}
	var urls []string
	for range 2 { // as many processes
		urls = append(urls, serve(t, handler, semaphoreecho.Limit(open(t, testenv.Redis(t), 2), long)))
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if res, body := get(t.Context(), t, urls[i%2]); res.StatusCode != http.StatusNoContent {
				t.Errorf("%d %s", res.StatusCode, body)
			}
		})
	}
	wg.Wait()
	if most.Load() > 2 || served.Load() != 100 {
		t.Errorf("%d at once, %d served", most.Load(), served.Load())
	}
	await(t, open(t, testenv.Redis(t), 2), 0, 0)
}

func TestRefusal(t *testing.T) {
	sem := open(t, testenv.Redis(t), 1)
	for name, wait := range map[string]time.Duration{"at once": 0, "after waiting": 20 * time.Millisecond} {
		permit, _, err := sem.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		url := serve(t, func(echo.Context) error { t.Error("let in"); return nil }, semaphoreecho.Limit(sem, wait))
		res, body := get(t.Context(), t, url)
		want := `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Service Unavailable","status":503,"reason":"at_capacity","position":1}`
		if res.StatusCode != 503 || body != want || res.Header.Get("Content-Type") != "application/problem+json" || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v %s", name, res.StatusCode, res.Header, body)
		}
		if res.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: Retry-After %q", name, res.Header.Get("Retry-After"))
		}
		if err := permit.Release(); err != nil {
			t.Error(err)
		}
	}
	await(t, sem, 0, 0)
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	for wait, want := range map[time.Duration]string{0: "1", time.Millisecond: "1", time.Second: "1", time.Second + 1: "2", time.Minute: "60"} {
		w := httptest.NewRecorder()
		c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/x", nil), w)
		if err := semaphoreecho.Refuse(c, &semaphore.Refusal{Position: 7, Wait: wait}); err != nil {
			t.Error(err)
		}
		var p struct{ Position int }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Position != 7 || w.Header().Get("Retry-After") != want {
			t.Errorf("%v: %v %s %v", wait, w.Header(), w.Body, err)
		}
	}
}

func TestHangingUpFreesThePermit(t *testing.T) {
	sem := open(t, testenv.Redis(t), 1)
	url := serve(t, func(c echo.Context) error {
		<-c.Request().Context().Done()
		return context.Cause(c.Request().Context())
	}, semaphoreecho.Limit(sem, long))
	holds, hangUp := context.WithCancel(t.Context())
	waits, giveUp := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { get(holds, t, url) })
	await(t, sem, 1, 0)
	wg.Go(func() { get(waits, t, url) })
	await(t, sem, 1, 1)
	giveUp()
	await(t, sem, 1, 0)
	hangUp()
	await(t, sem, 0, 0)
}

func TestPanicFreesThePermit(t *testing.T) {
	sem := open(t, testenv.Redis(t), 1)
	url := serve(t, func(echo.Context) error { panic("a bug") }, semaphoreecho.Limit(sem, 0))
	for range 3 {
		if res, body := get(t.Context(), t, url); res.StatusCode != 500 {
			t.Errorf("%d %s", res.StatusCode, body)
		}
	}
	await(t, sem, 0, 0)
}

func TestLostPermitEndsTheRequest(t *testing.T) {
	sem, operator := open(t, testenv.Redis(t), 1), open(t, testenv.Redis(t), 1)
	url := serve(t, func(c echo.Context) error {
		ctx := c.Request().Context()
		if semaphoreecho.PermitOf(ctx).Token() == 0 {
			t.Error("no token")
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, semaphore.ErrPermitLost) {
			t.Errorf("the cause is %v", cause)
		}
		return ctx.Err()
	}, semaphoreecho.LimitWith(sem, semaphoreecho.Config{Request: func(echo.Context) (semaphore.Request, error) {
		return semaphore.Request{Holder: "ann"}, nil
	}}))
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if res, body := get(t.Context(), t, url); res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" {
			t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
		}
	})
	holder := await(t, operator, 1, 0).Holders[0]
	if holder.Holder != "ann" {
		t.Errorf("held by %s", holder.Holder)
	}
	if err := operator.Release(t.Context(), holder.ID); err != nil {
		t.Error(err)
	}
}

func TestStreamKeepsThePermitToItsEnd(t *testing.T) {
	sem := open(t, testenv.Redis(t), 1)
	next := make(chan struct{})
	url := serve(t, func(c echo.Context) error {
		for range 2 {
			if _, err := io.WriteString(c.Response(), "line\n"); err != nil {
				return err
			}
			c.Response().Flush()
			<-next
		}
		return nil
	}, semaphoreecho.Limit(sem, 0))
	res, err := http.Get(url) //nolint:gosec // the test's own server
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for range 2 {
		if _, err := io.ReadFull(res.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		await(t, sem, 1, 0)
		if other, body := get(t.Context(), t, url); other.StatusCode != 503 {
			t.Errorf("%d %s", other.StatusCode, body)
		}
		next <- struct{}{}
	}
	await(t, sem, 0, 0)
}

func TestRequestsNeverShareAPermit(t *testing.T) {
	sem := open(t, testenv.Redis(t), 5)
	both := make(chan struct{})
	url := serve(t, func(c echo.Context) error {
		both <- struct{}{}
		return c.String(http.StatusOK, fmt.Sprint(semaphoreecho.PermitOf(c.Request().Context()).Token()))
	}, semaphoreecho.LimitWith(sem, semaphoreecho.Config{Request: func(echo.Context) (semaphore.Request, error) {
		return semaphore.Request{ID: "the same", Weight: 2}, nil
	}}))
	tokens := make(chan string, 2)
	for range 2 {
		go func() {
			_, body := get(t.Context(), t, url)
			tokens <- body
		}()
	}
	await(t, sem, 4, 0)
	<-both
	<-both
	if a, b := <-tokens, <-tokens; a == b {
		t.Errorf("both had the token %s", a)
	}
}

// If the semaphore cannot decide, no request is admitted.
func TestErrorsGoToEcho(t *testing.T) {
	server := testenv.StartRedis(t)
	sem := open(t, server.URL(), 1)
	var failed error
	errOf := func(limit echo.MiddlewareFunc) (int, error) {
		failed = nil
		e := echo.New()
		e.HTTPErrorHandler = func(err error, c echo.Context) { failed = err; e.DefaultHTTPErrorHandler(err, c) }
		e.GET("/x", func(echo.Context) error { t.Error("let in"); return nil }, limit)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/x", nil))
		return w.Code, failed
	}
	asks := func(r semaphore.Request, err error) echo.MiddlewareFunc {
		return semaphoreecho.LimitWith(sem, semaphoreecho.Config{Request: func(echo.Context) (semaphore.Request, error) { return r, err }})
	}
	for _, tt := range []struct {
		name  string
		limit echo.MiddlewareFunc
		want  int
		is    error
	}{
		{"the caller is unknown", asks(semaphore.Request{}, echo.ErrUnauthorized), 401, echo.ErrUnauthorized},
		{"no such semaphore", asks(semaphore.Request{Also: []string{"none"}}, nil), 503, semaphore.ErrUnknown},
		{"wrong", asks(semaphore.Request{Weight: -1}, nil), 500, semaphore.ErrInvalid},
		{"too heavy", asks(semaphore.Request{Weight: 2}, nil), 503, semaphore.ErrTooHeavy},
	} {
		if code, err := errOf(tt.limit); code != tt.want || !errors.Is(err, tt.is) {
			t.Errorf("%s: %d %v", tt.name, code, err)
		}
	}
	server.Kill()
	for _, wait := range []time.Duration{0, long} {
		if code, err := errOf(semaphoreecho.Limit(sem, wait)); code != 503 || err == nil {
			t.Errorf("without Redis, waiting %v: %d %v", wait, code, err)
		}
	}
}

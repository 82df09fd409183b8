package admissionecho_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionecho"
	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

type fake struct {
	decision admission.Decision
	err      error
}

func (f fake) Charge(context.Context, admission.Request) (admission.Decision, error) {
	return f.decision, f.err
}

// Echo's callers get what net/http's get.
func TestSameAnswersAsNetHTTP(t *testing.T) {
	window := []admission.Verdict{{Rule: "api", Limit: 10, Window: time.Minute, RetryAfter: time.Second + 1}}
	for name, gate := range map[string]fake{
		"admitted":   {decision: admission.Decision{Admitted: true, Rules: []admission.Verdict{{Rule: "api", Limit: 10, Window: time.Minute, Admitted: true, Remaining: 9}}}},
		"limited":    {decision: admission.Decision{Reason: admission.RateLimited, RetryAfter: time.Second + 1, Rules: window}},
		"banned":     {decision: admission.Decision{Reason: admission.Banned, RetryAfter: time.Hour}},
		"challenged": {decision: admission.Decision{Reason: admission.CaptchaRequired}},
		"no store":   {err: admission.ErrUnavailable},
		"invalid":    {err: admission.ErrInvalidRequest},
	} {
		e := echo.New()
		e.GET("/x", func(c echo.Context) error {
			if _, ok := admissionhttp.DecisionOf(c.Request().Context()); !ok {
				t.Errorf("%s: no decision in the context", name)
			}
			return c.NoContent(http.StatusNoContent)
		}, admissionecho.Middleware(gate, func(echo.Context) (admission.Request, error) { return admission.Request{}, nil }))
		plain := admissionhttp.Middleware(gate, func(*http.Request) (admission.Request, error) { return admission.Request{}, nil })(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
		var answers []string
		for _, h := range []http.Handler{e, plain} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/x", nil))
			answers = append(answers, fmt.Sprint(w.Code, w.Header(), w.Body))
		}
		if answers[0] != answers[1] {
			t.Errorf("%s: %s and %s", name, answers[0], answers[1])
		}
	}
}

func TestErrorsOfTheCaller(t *testing.T) {
	for err, want := range map[error]int{
		echo.ErrUnauthorized:                            401,
		fmt.Errorf("wrapped: %w", echo.ErrUnauthorized): 401,
		errors.New("no user in the session"):            400,
	} {
		e := echo.New()
		e.GET("/x", func(echo.Context) error { t.Error("let in"); return nil },
			admissionecho.Middleware(fake{}, func(echo.Context) (admission.Request, error) { return admission.Request{}, err }))
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/x", nil))
		if w.Code != want {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
}

func Example() {
	set, err := rules.Parse("rules.yaml", []byte(`
version: 1
rules:
  - {name: exports, match: {route: "/projects/:id/export"}, subject: [user], limit: 1, window: 1h}
`))
	if err != nil {
		panic(err)
	}
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	store := memorystore.New(memorystore.Options{Now: func() time.Time { return noon }})
	gate, err := admission.NewWithStore(store, set, admission.Options{Secret: []byte("16 random bytes or more")})
	if err != nil {
		panic(err)
	}
	e := echo.New()
	e.Use(admissionecho.Middleware(gate, func(c echo.Context) (admission.Request, error) {
		user := c.Request().Header.Get("X-User") // set by a proxy that is trusted
		if user == "" {
			return admission.Request{}, echo.ErrUnauthorized
		}
		return admission.Request{User: user, Route: c.Path(), Method: c.Request().Method}, nil
	}))
	e.GET("/projects/:id/export", func(c echo.Context) error { return c.String(http.StatusOK, "project "+c.Param("id")) })

	for _, path := range []string{"/projects/1/export", "/projects/2/export"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "exports";q=1;w=3600 "exports";r=0;t=3600
	// 429 "exports";q=1;w=3600 "exports";r=0;t=3600
}

package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/dashboard"
	loginhttp "github.com/tidegate/tidegate/internal/httpapi/login"
	"github.com/tidegate/tidegate/internal/httpapi/permits"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/koala/koalahttp"
	"github.com/tidegate/tidegate/internal/loadshed"
	"github.com/tidegate/tidegate/internal/seal"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/internal/strictjson"
	"github.com/tidegate/tidegate/orders"
)

// Config holds the parts of an API. The caller owns all of them.
type Config struct {
	Orders   Orders        // required
	Gate     Gate          // required
	Identity auth.Identity // required

	// Bans is the history of bans. Nil: no history.
	Bans BanHistory
	// Live records every decision and shows it on the page. Nil: no page.
	Live *Live
	// Audit stores what operators changed. Nil: nothing is stored.
	Audit Audit
	// Semaphores are the semaphores of the API. Nil: none, and no routes for them.
	Semaphores *semregistry.Registry
	// Captcha makes the challenges that rules ask for, and verifies solutions. Nil: challenges cannot be solved.
	Captcha captcha.Provider
	// CaptchaLimit limits how often challenges are requested on the public listener, and how often solutions are sent (under
	// the route /x-captcha), independent of the rules. Nil: only the rules limit that.
	CaptchaLimit Charger
	// Secret keys values that callers must not be able to forge or guess. Required with Semaphores, Captcha, and Live with
	// Tokens.
	Secret []byte
	// PreviousSecret is the former Secret after a change: what it signed is still accepted. Nil: there is none.
	PreviousSecret []byte
	// Login throttles logins. Nil: no throttling, and no routes for it.
	Login loginhttp.Throttle
	// LoginHistory is the history of failed logins. Nil: no history.
	LoginHistory loginhttp.History
	// Settled is called for every outcome of a login attempt: success, failure, error, or "other" and "late" for outcomes that
	// arrive after another one. It must be safe for concurrent use. Nil: not called.
	Settled func(result string)
	// Koala decides by a rule file in Koala's format. Nil: there is none, and no routes for it.
	Koala koalahttp.Service
	// Metrics serves GET /metrics on the internal listener. Nil: no such route.
	Metrics http.Handler
	// Decided is called for every decision that charged, or would have charged. It must be safe for concurrent use, and must
	// not retain req or d. Nil: not called.
	Decided func(req *admission.Request, d *admission.Decision, took time.Duration)
	// Served is called for every request after it was answered. It must be safe for concurrent use. Nil: not called.
	Served func(Served)
	// Verified receives the checks whenever a sale is verified. It must be safe for concurrent use. Nil: not called.
	Verified func(sale string, checks []orders.Check)
	// Tokens of the internal listener. Nil: none, and then the caller must
	// bind that listener to loopback.
	Tokens *auth.Tokens
	// DemoSecrets names the settings whose secrets this repository publishes.
	DemoSecrets []string
	// Sessions stores which of the page's sessions have ended. Nil: only this process remembers that.
	Sessions auth.SessionStore
	// CORSOrigins are the origins whose pages may read the public listener's responses, such as https://shop.example, or "*"
	// for all. Empty: none.
	CORSOrigins []string
	// TrustedProxies may set the client in X-Forwarded-For, and the user. Loopback may set the user unless it forwards a
	// client's request.
	TrustedProxies []netip.Prefix
	// Tracer makes a span of each request and decision. Nil disables tracing, which costs nothing then.
	Tracer trace.Tracer
	// Logger receives internal errors. Nil: slog.Default().
	Logger *slog.Logger
	// Version of the program, for health and documentation.
	Version string
	// DecideWithin is the maximum time for the rules and the reservation of an order together. Zero: 200 ms.
	DecideWithin time.Duration
}

// API is the handlers of both listeners. Made by New; safe for concurrent use.
type API struct {
	orders    Orders
	ready     func(context.Context) error
	gate      Gate
	bans      BanHistory
	audit     Audit
	forbidden forbiddenCalls // that are audited
	live      *Live
	feed      *dashboard.Feed // nil: there is no page
	newOrders *loadshed.RunQueue
	reads     *loadshed.RunQueue // of orders and sales
	capacity  *loadshed.Capacity // for orders
	metrics   http.Handler
	decided   func(*admission.Request, *admission.Decision, time.Duration)
	served    func(Served)
	identity  auth.Identity
	tokens    *auth.Tokens
	demo      []string
	guard     *auth.Guard
	sessions  *auth.Sessions
	proxies   auth.Proxies
	tracer    trace.Tracer // nil: none
	log       *slog.Logger
	errors    request.ErrorWriter
	version   string
	within    time.Duration
	draining  atomic.Bool

	captcha      captcha.Provider
	captchaLimit func(context.Context, admission.Request) (admission.Decision, error) // nil: none

	reader       *sales.Reader
	placer       *sales.Placer
	changes      *sales.Changes
	letters      *sales.DeadLetters
	orderFeed    *sales.Feed
	export       *sales.Export
	saleAdmin    *sales.Admin
	permitRoutes *permits.Handlers
	loginRoutes  *loginhttp.Handlers // nil: no throttling

	koala koalahttp.Service

	semaphores *semregistry.Registry
	keys       seal.Keys
	leaving    context.Context // ends with Drain
	leave      context.CancelFunc

	public, internal *echo.Echo
}

// New builds the handlers. It starts no goroutine.
func New(cfg Config) (*API, error) {
	if cfg.Orders == nil || cfg.Gate == nil || cfg.Identity == nil {
		return nil, errors.New("httpapi: New needs Orders, a Gate and an Identity")
	}
	a := &API{
		orders: cfg.Orders, ready: cfg.Orders.Ready, gate: cfg.Gate, identity: cfg.Identity, tokens: cfg.Tokens,
		bans: cfg.Bans, audit: cfg.Audit, live: cfg.Live, metrics: cfg.Metrics, decided: cfg.Decided, served: cfg.Served,
		proxies: slices.Clone(cfg.TrustedProxies), tracer: cfg.Tracer, log: cfg.Logger, version: cfg.Version, within: cfg.DecideWithin,
	}
	a.semaphores, a.keys = cfg.Semaphores, seal.NewKeys(cfg.Secret, cfg.PreviousSecret)
	a.sessions = auth.NewSessions(a.tokens, a.keys, cfg.Sessions)
	a.guard = auth.NewGuard(a.tokens, a.sessions, a.proxies)
	if (a.semaphores != nil || cfg.Captcha != nil || cfg.Live != nil && cfg.Tokens != nil) && len(cfg.Secret) == 0 {
		return nil, errors.New("httpapi: New needs a Secret with Semaphores, Captcha, and Live with Tokens")
	}
	if a.captcha = cfg.Captcha; cfg.CaptchaLimit != nil {
		a.captchaLimit = cfg.CaptchaLimit.Charge
	}
	a.demo = slices.Clone(cfg.DemoSecrets)
	a.koala = cfg.Koala
	a.leaving, a.leave = context.WithCancel(context.Background())
	if a.log == nil {
		a.log = slog.Default()
	}
	a.log = slog.New(LogHandler(a.log.Handler()))
	a.errors = request.ErrorWriter{Log: a.log}
	if a.within == 0 {
		a.within = 200 * time.Millisecond
	}
	a.capacity = loadshed.NewCapacity(a.within)
	a.newOrders, a.reads = loadshed.NewRunQueue(), loadshed.NewRunQueue()
	draining := a.draining.Load
	a.reader = &sales.Reader{Orders: a.orders, Draining: draining}
	a.placer = &sales.Placer{
		Orders: a.orders, Rules: a, Gate: a.gate, Capacity: a.capacity, Lookups: loadshed.NewAllowance(10, time.Second), Within: a.within,
		Errors: a.errors, Log: a.log,
	}
	a.changes, a.letters = &sales.Changes{Orders: a.orders}, &sales.DeadLetters{Orders: a.orders}
	a.orderFeed, a.export = &sales.Feed{Orders: a.orders, Draining: draining}, &sales.Export{Orders: a.orders, Log: a.log}
	a.saleAdmin = &sales.Admin{Orders: a.orders, Verified: cfg.Verified}
	a.permitRoutes = &permits.Handlers{Semaphores: a.semaphores, Keys: a.keys, Draining: draining, Leaving: a.leaving, Audit: a, Log: a.log}
	if cfg.Login != nil {
		a.loginRoutes = &loginhttp.Handlers{Login: cfg.Login, History: cfg.LoginHistory, Settled: cfg.Settled, Challenges: a}
		if cfg.Settled == nil {
			a.loginRoutes.Settled = func(string) {}
		}
	}
	origins, err := corsOrigins(cfg.CORSOrigins)
	if err != nil {
		return nil, err
	}

	steps := []echo.MiddlewareFunc{a.track("public")}
	if len(origins) > 0 {
		steps = append(steps, cors(origins)) // answers preflights itself, so nothing below counts them
	}
	notForeign, err := foreignPages(origins)
	if err != nil {
		return nil, err
	}
	a.public = a.echo(append(steps, notForeign, rejectMalformed, a.queued, segments, a.identify)...)
	docs := a.huma(a.public, "Tidegate", userSecurity(a.identity))
	a.common(docs, true, huma.Middlewares{a.charged}, nil)
	a.challenges(docs, true)
	a.own(docs)
	a.describeCaller(docs.OpenAPI(), func(path string, _ *huma.Operation) bool { return strings.HasPrefix(path, "/v1/") })
	if err := a.document(a.public, docs, publicIntroduction); err != nil {
		return nil, err
	}

	a.internal = a.echo(a.track("internal"), rejectMalformed, segments, a.guarded, a.queued, a.identify) // guarded may ask whether a session has ended
	docs = a.huma(a.internal, "Tidegate, internal", tokenSecurity(a.tokens))
	a.common(docs, false, huma.Middlewares{a.only(auth.ForReaders)}, huma.Middlewares{a.only(auth.ForServices)})
	a.challenges(docs, false)
	a.operators(docs)
	a.services(docs)
	if a.live != nil {
		a.page(docs)
	}
	a.describeCaller(docs.OpenAPI(), func(_ string, op *huma.Operation) bool { return op.OperationID == placeRoute.OperationID })
	if err := a.document(a.internal, docs, internalIntroduction); err != nil {
		return nil, err
	}
	return a, nil
}

// Public serves the public listener.
func (a *API) Public() http.Handler { return headAsGet(a.public) }

// Internal serves the internal listener.
func (a *API) Internal() http.Handler { return headAsGet(a.internal) }

// Drain makes readyz answer 503, so that load balancers use other processes, and makes new waits return at once. It ends waits
// for permits; the Orders end waits for orders.
func (a *API) Drain() {
	a.draining.Store(true)
	if a.leave != nil {
		a.leave()
	}
}

// Capacity returns the maximum number of orders decided at a time, and the number of those being decided now.
func (a *API) Capacity() (limit, inUse int) { return a.capacity.Limits() }

func (a *API) echo(steps ...echo.MiddlewareFunc) *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) { a.errors.Fail(c, err) }
	e.Use(steps...)
	return e
}

// huma registers operations on e. The API uses only JSON; document serves the documentation.
func (a *API) huma(e *echo.Echo, title string, security map[string]*huma.SecurityScheme) huma.API {
	var anyOf []map[string][]string
	for name := range security {
		anyOf = append(anyOf, map[string][]string{name: {}})
	}
	return humaecho.New(e, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI:    "3.1.0",
			Info:       &huma.Info{Title: title, Version: a.version},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer), SecuritySchemes: security},
			Security:   anyOf,
		},
		Formats:       map[string]huma.Format{"application/json": strictjson.Format, "json": strictjson.Format},
		DefaultFormat: "application/json",
		Transformers: []huma.Transformer{func(ctx huma.Context, _ string, v any) (any, error) {
			if p, ok := v.(*problem.Problem); ok {
				a.errors.Finish(ctx.Context(), p)
			}
			return v, nil
		}},
	})
}

func userSecurity(id auth.Identity) map[string]*huma.SecurityScheme {
	if _, ok := id.(*auth.JWT); !ok {
		return nil // the proxy in front authenticates users
	}
	return map[string]*huma.SecurityScheme{"user": {Type: "http", Scheme: "bearer", BearerFormat: "JWT"}}
}

func tokenSecurity(t *auth.Tokens) map[string]*huma.SecurityScheme {
	if t == nil {
		return nil
	}
	return map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer"},
		"basic":  {Type: "http", Scheme: "basic", Description: "The token is the password. Only at /v1/authz and below /koala."},
		"header": {Type: "apiKey", In: "header", Name: "X-Tidegate-Token"},
		"cookie": {Type: "apiKey", In: "cookie", Name: auth.SessionCookie, Description: "The page's session, from POST /session."},
	}
}

// segments decodes the parameters of the path, and refuses empty ones, so that "/v1/orders/" is not an order without an id.
// Echo decodes all of them if the path is in Go's canonical encoding, and none otherwise, for example with "%2F".
func segments(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		names, values := c.ParamNames(), c.ParamValues()
		for i, v := range values {
			if v == "" && names[i] != "*" {
				return echo.ErrNotFound
			}
			if c.Request().URL.RawPath != "" && names[i] != "*" {
				decoded, err := url.PathUnescape(v)
				if err != nil {
					return echo.ErrNotFound
				}
				values[i] = decoded
			}
		}
		return next(c)
	}
}

func corsOrigins(origins []string) ([]string, error) {
	for _, o := range origins {
		if o == "*" {
			continue
		}
		u, err := url.Parse(o)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return nil, fmt.Errorf("httpapi: %q is no origin; right would be https://shop.example or *", o)
		}
	}
	return slices.Clone(origins), nil
}

func cors(origins []string) echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOrigins:  origins,
		AllowMethods:  []string{http.MethodGet, http.MethodPost},
		AllowHeaders:  []string{"Authorization", "Content-Type", "Idempotency-Key", "X-Captcha", "X-Request-Id"},
		ExposeHeaders: []string{"Location", "Retry-After", "RateLimit", "RateLimit-Policy", "Idempotency-Replayed", "X-Request-Id"},
		MaxAge:        600,
	})
}

package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/dialects/koala/koalahttp"
	"github.com/tidegate/tidegate/internal/dialects/vwr"
	"github.com/tidegate/tidegate/internal/httpapi/admit"
	"github.com/tidegate/tidegate/internal/httpapi/apidocs"
	"github.com/tidegate/tidegate/internal/httpapi/audit"
	"github.com/tidegate/tidegate/internal/httpapi/challenge"
	"github.com/tidegate/tidegate/internal/httpapi/charge"
	"github.com/tidegate/tidegate/internal/httpapi/health"
	"github.com/tidegate/tidegate/internal/httpapi/live"
	loginhttp "github.com/tidegate/tidegate/internal/httpapi/login"
	"github.com/tidegate/tidegate/internal/httpapi/permits"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/internal/loadshed"
	"github.com/tidegate/tidegate/internal/reports"
	"github.com/tidegate/tidegate/internal/seal"
)

// API serves both listeners. Made by New; safe for concurrent use.
type API struct {
	cfg    Config
	guard  *auth.Guard
	log    *slog.Logger
	errors request.ErrorWriter

	newOrders *loadshed.RunQueue
	reads     *loadshed.RunQueue // of orders and sales
	capacity  *loadshed.Capacity // for orders

	waits    *route.AtOnce // long polls
	draining atomic.Bool
	leaving  context.Context // ends with Drain
	leave    context.CancelFunc

	handlers   []handler
	dialects   []dialect // for others' clients
	audit      *audit.Log
	charger    *charge.Charger
	challenges *challenge.Handlers // nil: challenges cannot be solved
	placer     *sales.Placer
	feed       *livepage.Feed // nil: there is no page

	public, internal *echo.Echo
}

// A handler has routes.
type handler interface{ Routes() []route.Route }

// A dialect has routes that describe themselves in the document of a listener.
type dialect interface {
	Routes(l *route.Listener) []route.Route
}

// New builds the handlers. It starts no goroutine.
func New(cfg Config) (*API, error) {
	if cfg.Orders == nil || cfg.Gate == nil || cfg.Identity == nil {
		return nil, errors.New("httpapi: New needs Orders, a Gate and an Identity")
	}
	if (cfg.Semaphores != nil || cfg.Captcha != nil || cfg.Live != nil && cfg.Tokens != nil) && len(cfg.Secret) == 0 {
		return nil, errors.New("httpapi: New needs a Secret with Semaphores, Captcha, and Live with Tokens")
	}
	origins, err := corsOrigins(cfg.CORSOrigins)
	if err != nil {
		return nil, err
	}
	cfg.Logger, cfg.DecideWithin = cmp.Or(cfg.Logger, slog.Default()), cmp.Or(cfg.DecideWithin, 200*time.Millisecond)
	cfg.CORSOrigins, cfg.TrustedProxies, cfg.VWRIssuers = origins, slices.Clone(cfg.TrustedProxies), slices.Clone(cfg.VWRIssuers)
	a := &API{
		cfg: cfg, log: slog.New(LogHandler(cfg.Logger.Handler())),
		waits: route.NewAtOnce(maxWaits, maxWaitsPerAddress), newOrders: loadshed.NewRunQueue(), reads: loadshed.NewRunQueue(),
		capacity: loadshed.NewCapacity(cfg.DecideWithin),
	}
	a.errors = request.NewErrorWriter(a.log)
	a.leaving, a.leave = context.WithCancel(context.Background())
	a.makeHandlers()
	if err := a.servePublic(); err != nil {
		return nil, err
	}
	a.serveInternal()
	return a, nil
}

// servePublic builds the public listener.
func (a *API) servePublic() error {
	origins := a.cfg.CORSOrigins
	steps := []echo.MiddlewareFunc{a.track("public")}
	if len(origins) > 0 {
		steps = append(steps, cors(origins, a.cfg.CORSHeaders)) // answers preflights itself, so nothing below counts them
	}
	notForeign, err := foreignPages(origins)
	if err != nil {
		return err
	}
	a.public = a.echo(append(steps, impersonal, notForeign, rejectMalformed, a.queued, segments, a.identify)...)
	l := &route.Listener{
		Docs: a.huma(a.public, "Tidegate", userSecurity(a.cfg.Identity)), Echo: a.public, Errors: a.errors, Proxies: a.proxies(),
		Charger: a.charger,
	}
	a.register(l)
	a.describeCaller(l.Docs.OpenAPI(), func(path string, _ *huma.Operation) bool {
		return strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, vwr.Path+"/")
	})
	_, tokens := a.cfg.Identity.(*auth.JWT)
	apidocs.Serve(a.public, l.Docs, apidocs.PublicIntroduction, func(path string, op *huma.Operation) (statuses []int) {
		if op.Method != http.MethodGet {
			statuses = append(statuses, http.StatusForbidden) // of foreign pages
		}
		if tokens && !isTokenless(path) {
			statuses = append(statuses, http.StatusUnauthorized)
		}
		return statuses
	})
	return nil
}

// serveInternal builds the internal listener.
func (a *API) serveInternal() {
	// guarded may ask whether a session has ended
	a.internal = a.echo(a.track("internal"), rejectMalformed, segments, a.guarded, a.queued, a.identify)
	l := &route.Listener{
		Docs: a.huma(a.internal, "Tidegate, internal", tokenSecurity(a.cfg.Tokens)), Echo: a.internal, Private: true, Errors: a.errors,
		Proxies: a.proxies(), Audit: a.audit,
	}
	a.register(l)
	a.describeCaller(l.Docs.OpenAPI(), func(_ string, op *huma.Operation) bool { return l.ActsForUser(op.OperationID) })
	apidocs.Serve(a.internal, l.Docs, apidocs.InternalIntroduction, func(path string, _ *huma.Operation) []int {
		if isTokenless(path) {
			return []int{http.StatusForbidden}
		}
		return []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}
	})
}

// register registers all routes that a listener has.
func (a *API) register(l *route.Listener) {
	for _, h := range a.handlers {
		l.Add(h.Routes())
	}
	for _, d := range a.dialects {
		l.Add(d.Routes(l))
	}
	if check := l.Docs.OpenAPI().Components.Schemas.Map()["Check"]; check != nil {
		check.AdditionalProperties = true // like all responses, it may gain fields
	}
}

func (a *API) proxies() auth.Proxies { return a.cfg.TrustedProxies }

// add adds handlers to both listeners.
func (a *API) add(handlers ...handler) { a.handlers = append(a.handlers, handlers...) }

// makeHandlers connects the handlers with the parts that they need.
func (a *API) makeHandlers() {
	cfg, keys, draining := &a.cfg, seal.NewKeys(a.cfg.Secret, a.cfg.PreviousSecret), a.draining.Load
	sessions := auth.NewSessions(cfg.Tokens, keys, cfg.Sessions)
	a.guard = auth.NewGuard(cfg.Tokens, sessions, a.proxies())
	a.audit = &audit.Log{Store: cfg.Audit, Tokens: cfg.Tokens, Logger: a.log}
	probes := &health.Handlers{
		Version: cfg.Version, Conditions: cfg.Orders.Conditions, Draining: draining, Stats: cfg.Gate.Stats, Tokens: cfg.Tokens,
		Demo: slices.Clone(cfg.DemoSecrets), Outdated: cfg.Outdated, Opening: cfg.Opening,
	}
	a.add(probes, a.audit)
	if cfg.Metrics != nil {
		a.add(health.Metrics{Handler: cfg.Metrics})
	}
	a.charger = &charge.Charger{
		Gate: cfg.Gate, Proxies: a.proxies(), CaptchaLimit: cfg.CaptchaLimit, Tracer: cfg.Tracer, Decided: cfg.Decided, Errors: a.errors,
	}
	if cfg.Live != nil {
		a.charger.Recorder = cfg.Live.Recorder
	}
	if cfg.Captcha != nil {
		a.challenges = &challenge.Handlers{Provider: cfg.Captcha, Keys: keys, Proxies: a.proxies()}
		a.charger.Challenges = a.challenges
		a.add(a.challenges)
	}
	var held *permits.Handlers
	var report echo.MiddlewareFunc
	if cfg.Semaphores != nil {
		held = &permits.Handlers{Semaphores: cfg.Semaphores, Keys: keys, Draining: draining, Leaving: a.leaving, Audit: a.audit, Log: a.log}
		report = held.Limit(reports.Semaphore, reportWait)
		a.add(held)
	}
	gateways := &admit.Gateways{Charger: a.charger, Proxies: a.proxies()}
	rules := a.makeDecisions(gateways)
	a.makeSales(report)
	if cfg.Rooms != nil {
		gateways.Rooms, a.placer.Rooms = cfg.Rooms, cfg.Rooms
		a.makeRooms(report)
	}
	if cfg.Koala != nil {
		a.dialects = append(a.dialects, koalahttp.New(cfg.Koala, a.log))
	}
	if cfg.Live != nil {
		page := &live.Collector{Options: *cfg.Live, Orders: cfg.Orders, Gate: cfg.Gate, Health: probes, Rules: rules.Names(), Rooms: cfg.Rooms}
		if held != nil {
			page.Semaphores = held.ForPage
		}
		a.feed = page.Feed(a.log)
		a.add(&live.Page{Version: cfg.Version, Feed: a.feed, Leaving: a.leaving.Done()},
			&live.Sessions{Tokens: cfg.Tokens, Sessions: sessions, Guard: a.guard})
	}
}

// reportWait is how long a report waits for a permit.
const reportWait = 10 * time.Second

// makeDecisions makes the handlers of decisions, rules, bans and logins.
func (a *API) makeDecisions(gateways *admit.Gateways) *admit.Rules {
	cfg := &a.cfg
	rules, bans := &admit.Rules{Gate: cfg.Gate}, &admit.Bans{Gate: cfg.Gate, History: cfg.Bans}
	if cfg.Koala != nil {
		rules.ReloadKoala = cfg.Koala.Reload
	}
	if cfg.Semaphores != nil {
		rules.Reloaded = func(ctx context.Context) {
			_ = cfg.Semaphores.Declare(ctx) // it retries in the background, and logs failures
		}
	}
	if cfg.Login != nil {
		logins := &loginhttp.Handlers{Login: cfg.Login, History: cfg.LoginHistory, Settled: cfg.Settled, Challenges: a.challenges}
		if cfg.Settled == nil {
			logins.Settled = func(string) {}
		}
		bans.Forgive = logins.Forgive
		a.add(logins)
	}
	a.add(&admit.Decisions{Gate: cfg.Gate, Charger: a.charger, Errors: a.errors}, gateways, rules, bans)
	return rules
}

// makeSales makes the handlers of sales and orders. report limits how many reports are made at a time; nil: there are none.
func (a *API) makeSales(report echo.MiddlewareFunc) {
	all := a.cfg.Orders
	a.placer = &sales.Placer{
		Orders: all, Rules: a.charger, Gate: a.cfg.Gate, Capacity: a.capacity, Lookups: loadshed.NewAllowance(10, time.Second),
		Within: a.cfg.DecideWithin,
		Errors: a.errors, Log: a.log,
	}
	a.add(
		&sales.Reader{Orders: all, MayWait: a.mayWait}, a.placer, &sales.Changes{Orders: all}, &sales.DeadLetters{Orders: all},
		&sales.Feed{Orders: all, MayWait: a.mayWait}, &sales.Export{Orders: all, Log: a.log, Limit: report},
		&sales.Admin{Orders: all, Verified: a.cfg.Verified},
	)
}

// makeRooms makes the handlers of waiting rooms.
func (a *API) makeRooms(report echo.MiddlewareFunc) {
	all := a.cfg.Rooms
	visitors := &rooms.Visitors{
		Rooms: all, Charger: a.charger, Challenges: a.challenges, Draining: a.draining.Load, MayWait: a.mayWait, Leaving: a.leaving,
		Errors: a.errors,
	}
	a.add(
		visitors, &rooms.Admin{Rooms: all, Captchas: a.challenges != nil}, &rooms.Export{Rooms: all, Log: a.log, Limit: report},
		&rooms.Page{Rooms: all, Origins: a.cfg.CORSOrigins},
	)
	a.dialects = append(a.dialects, vwr.New(all, visitors, a.cfg.VWRIssuers))
}

// Public serves the public listener.
func (a *API) Public() http.Handler { return headAsGet(a.public) }

// Internal serves the internal listener.
func (a *API) Internal() http.Handler { return headAsGet(a.internal) }

// Drain makes readyz answer 503, so that load balancers use other processes, and makes new waits return at once. It ends waits
// for permits; the Orders end waits for orders.
func (a *API) Drain() {
	a.draining.Store(true)
	if a.leave != nil { // Probes have no waits
		a.leave()
	}
}

// RunLive makes the frames of the page until ctx ends, and then returns nil.
func (a *API) RunLive(ctx context.Context) error {
	if a.feed == nil {
		<-ctx.Done()
		return nil
	}
	return a.feed.Run(ctx)
}

// Capacity returns the maximum number of orders decided at a time, and the number of those being decided now.
func (a *API) Capacity() (limit, inUse int) { return a.capacity.Limits() }

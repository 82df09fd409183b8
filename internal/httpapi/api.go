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
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/auth"
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
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/httpapi/vwr"
	"github.com/tidegate/tidegate/internal/koala/koalahttp"
	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/internal/loadshed"
	"github.com/tidegate/tidegate/internal/seal"
)

// API serves both listeners. Made by New; safe for concurrent use.
type API struct {
	version    string
	identity   auth.Identity
	tokens     *auth.Tokens // nil: there are none
	guard      *auth.Guard
	proxies    auth.Proxies
	served     func(Served)
	jwtRefused func(auth.JWTCause)
	metrics    http.Handler
	koala      koalahttp.Service
	vwrIssuers []string
	tracer     trace.Tracer // nil: none
	log        *slog.Logger
	errors     request.ErrorWriter

	newOrders *loadshed.RunQueue
	reads     *loadshed.RunQueue // of orders and sales
	capacity  *loadshed.Capacity // for orders

	waits    *atOnce // of long polls
	draining atomic.Bool
	leaving  context.Context // ends with Drain
	leave    context.CancelFunc

	// Handlers.
	health     *health.Handlers
	charger    *charge.Charger
	challenges *challenge.Handlers // nil: challenges cannot be solved
	decisions  *admit.Decisions
	gateways   *admit.Gateways
	rules      *admit.Rules
	bans       *admit.Bans
	reader     *sales.Reader
	placer     *sales.Placer
	changes    *sales.Changes
	letters    *sales.DeadLetters
	orderFeed  *sales.Feed
	export     *sales.Export
	saleAdmin  *sales.Admin
	permits    *permits.Handlers   // nil: no semaphores
	logins     *loginhttp.Handlers // nil: no throttling
	visitors   *rooms.Visitors     // nil: no waiting rooms
	roomAdmin  *rooms.Admin
	roomExport *rooms.Export
	audit      *audit.Log
	sessions   *live.Sessions
	feed       *livepage.Feed // nil: there is no page

	public, internal *echo.Echo
}

// New builds the handlers. It starts no goroutine.
func New(cfg Config) (*API, error) {
	if cfg.Orders == nil || cfg.Gate == nil || cfg.Identity == nil {
		return nil, errors.New("httpapi: New needs Orders, a Gate and an Identity")
	}
	if (cfg.Semaphores != nil || cfg.Captcha != nil || cfg.Live != nil && cfg.Tokens != nil) && len(cfg.Secret) == 0 {
		return nil, errors.New("httpapi: New needs a Secret with Semaphores, Captcha, and Live with Tokens")
	}
	cfg.Logger, cfg.DecideWithin = cmp.Or(cfg.Logger, slog.Default()), cmp.Or(cfg.DecideWithin, 200*time.Millisecond)
	a := &API{
		version: cfg.Version, identity: cfg.Identity, tokens: cfg.Tokens, proxies: slices.Clone(cfg.TrustedProxies), served: cfg.Served, jwtRefused: cfg.JWTRefused,
		metrics: cfg.Metrics, koala: cfg.Koala, vwrIssuers: slices.Clone(cfg.VWRIssuers), tracer: cfg.Tracer, log: slog.New(LogHandler(cfg.Logger.Handler())),
		waits: newAtOnce(maxWaits, maxWaitsPerAddress), newOrders: loadshed.NewRunQueue(), reads: loadshed.NewRunQueue(), capacity: loadshed.NewCapacity(cfg.DecideWithin),
	}
	a.errors = request.NewErrorWriter(a.log)
	a.leaving, a.leave = context.WithCancel(context.Background())
	a.makeHandlers(&cfg)
	origins, err := corsOrigins(cfg.CORSOrigins)
	if err != nil {
		return nil, err
	}

	if err := a.servePublic(origins, cfg.CORSHeaders); err != nil {
		return nil, err
	}
	a.serveInternal()
	return a, nil
}

// servePublic builds the public listener.
func (a *API) servePublic(origins, headers []string) error {
	steps := []echo.MiddlewareFunc{a.track("public")}
	if len(origins) > 0 {
		steps = append(steps, cors(origins, headers)) // answers preflights itself, so nothing below counts them
	}
	notForeign, err := foreignPages(origins)
	if err != nil {
		return err
	}
	a.public = a.echo(append(steps, impersonal, notForeign, rejectMalformed, a.queued, segments, a.identify)...)
	docs := a.huma(a.public, "Tidegate", userSecurity(a.identity))
	a.registerProbes(docs)
	a.registerBuyers(docs, huma.Middlewares{a.charger.Middleware}, nil, captchaParameter)
	a.registerChallenges(docs, huma.Middlewares{a.charger.ChallengeMiddleware})
	a.registerOwn(docs)
	if a.visitors != nil {
		a.registerPublicRooms(docs, origins)
	}
	a.describeCaller(docs.OpenAPI(), func(path string, _ *huma.Operation) bool {
		return strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, vwr.Path+"/")
	})
	_, tokens := a.identity.(*auth.JWT)
	apidocs.Serve(a.public, docs, apidocs.PublicIntroduction, func(path string, op *huma.Operation) (statuses []int) {
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
	a.internal = a.echo(a.track("internal"), rejectMalformed, segments, a.guarded, a.queued, a.identify) // guarded may ask whether a session has ended
	docs := a.huma(a.internal, "Tidegate, internal", tokenSecurity(a.tokens))
	a.registerProbes(docs)
	a.registerBuyers(docs, huma.Middlewares{a.only(auth.ForReaders)}, huma.Middlewares{a.only(auth.ForServices)}, nil)
	a.registerChallenges(docs, huma.Middlewares{a.only(auth.ForServices)})
	a.registerInternal(docs)
	if a.visitors != nil {
		a.registerInternalRooms(docs)
	}
	if a.feed != nil {
		a.registerPage(docs)
	}
	a.describeCaller(docs.OpenAPI(), func(_ string, op *huma.Operation) bool {
		return op.OperationID == placeRoute.OperationID || slices.Contains(visitorOperations, op.OperationID)
	})
	apidocs.Serve(a.internal, docs, apidocs.InternalIntroduction, func(path string, _ *huma.Operation) []int {
		if isTokenless(path) {
			return []int{http.StatusForbidden}
		}
		return []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}
	})
}

// makeHandlers connects the handlers with the parts that they need.
func (a *API) makeHandlers(cfg *Config) {
	keys, draining := seal.NewKeys(cfg.Secret, cfg.PreviousSecret), a.draining.Load
	sessions := auth.NewSessions(a.tokens, keys, cfg.Sessions)
	a.guard = auth.NewGuard(a.tokens, sessions, a.proxies)
	a.sessions = &live.Sessions{Tokens: a.tokens, Sessions: sessions, Guard: a.guard}
	a.audit = &audit.Log{Store: cfg.Audit, Tokens: a.tokens, Logger: a.log}
	a.health = &health.Handlers{
		Version: a.version, Conditions: cfg.Orders.Conditions, Draining: draining, Stats: cfg.Gate.Stats, Tokens: a.tokens, Demo: slices.Clone(cfg.DemoSecrets), Outdated: cfg.Outdated,
	}
	a.charger = &charge.Charger{
		Gate: cfg.Gate, Proxies: a.proxies, CaptchaLimit: cfg.CaptchaLimit, Tracer: a.tracer, Decided: cfg.Decided, Errors: a.errors,
	}
	if cfg.Live != nil {
		a.charger.Recorder = cfg.Live.Recorder
	}
	if cfg.Captcha != nil {
		a.challenges = &challenge.Handlers{Provider: cfg.Captcha, Keys: keys, Proxies: a.proxies}
		a.charger.Challenges = a.challenges
	}
	a.makeDecisions(cfg)
	a.makeSales(cfg)
	if cfg.Semaphores != nil {
		a.permits = &permits.Handlers{Semaphores: cfg.Semaphores, Keys: keys, Draining: draining, Leaving: a.leaving, Audit: a.audit, Log: a.log}
	}
	if cfg.Rooms != nil {
		a.makeRooms(cfg)
	}
	if cfg.Live != nil {
		page := &live.Collector{Options: *cfg.Live, Orders: cfg.Orders, Gate: cfg.Gate, Health: a.health, Rules: a.rules.Names(), Rooms: cfg.Rooms}
		if a.permits != nil {
			page.Semaphores = a.permits.ForPage
		}
		a.feed = page.Feed(a.log)
	}
}

// makeDecisions makes the handlers of decisions, rules, bans and logins.
func (a *API) makeDecisions(cfg *Config) {
	a.decisions = &admit.Decisions{Gate: cfg.Gate, Charger: a.charger, Errors: a.errors}
	a.gateways = &admit.Gateways{Charger: a.charger, Proxies: a.proxies}
	a.rules = &admit.Rules{Gate: cfg.Gate}
	a.bans = &admit.Bans{Gate: cfg.Gate, History: cfg.Bans}
	if cfg.Koala != nil {
		a.rules.ReloadKoala = cfg.Koala.Reload
	}
	if cfg.Semaphores != nil {
		a.rules.Reloaded = func(ctx context.Context) {
			_ = cfg.Semaphores.Declare(ctx) // it retries in the background, and logs failures
		}
	}
	if cfg.Login != nil {
		a.logins = &loginhttp.Handlers{Login: cfg.Login, History: cfg.LoginHistory, Settled: cfg.Settled, Challenges: a.challenges}
		if cfg.Settled == nil {
			a.logins.Settled = func(string) {}
		}
		a.bans.Forgive = a.logins.Forgive
	}
}

// makeSales makes the handlers of sales and orders.
func (a *API) makeSales(cfg *Config) {
	a.reader = &sales.Reader{Orders: cfg.Orders, MayWait: a.mayWait}
	a.placer = &sales.Placer{
		Orders: cfg.Orders, Rules: a.charger, Gate: cfg.Gate, Capacity: a.capacity, Lookups: loadshed.NewAllowance(10, time.Second), Within: cfg.DecideWithin,
		Errors: a.errors, Log: a.log,
	}
	a.changes, a.letters = &sales.Changes{Orders: cfg.Orders}, &sales.DeadLetters{Orders: cfg.Orders}
	a.orderFeed, a.export = &sales.Feed{Orders: cfg.Orders, MayWait: a.mayWait}, &sales.Export{Orders: cfg.Orders, Log: a.log}
	a.saleAdmin = &sales.Admin{Orders: cfg.Orders, Verified: cfg.Verified}
}

// makeRooms makes the handlers of waiting rooms, and connects those of decisions and orders with the rooms.
func (a *API) makeRooms(cfg *Config) {
	a.visitors = &rooms.Visitors{
		Rooms: cfg.Rooms, Charger: a.charger, Challenges: a.challenges, Draining: a.draining.Load, MayWait: a.mayWait, Leaving: a.leaving, Errors: a.errors,
	}
	a.roomAdmin = &rooms.Admin{Rooms: cfg.Rooms, Captchas: a.challenges != nil}
	a.roomExport = &rooms.Export{Rooms: cfg.Rooms, Log: a.log}
	a.gateways.Rooms, a.placer.Rooms = cfg.Rooms, cfg.Rooms
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

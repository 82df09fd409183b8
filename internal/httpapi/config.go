package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/dialects/koala/koalahttp"
	"github.com/tidegate/tidegate/internal/httpapi/admit"
	"github.com/tidegate/tidegate/internal/httpapi/audit"
	"github.com/tidegate/tidegate/internal/httpapi/charge"
	"github.com/tidegate/tidegate/internal/httpapi/live"
	loginhttp "github.com/tidegate/tidegate/internal/httpapi/login"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/waitingroom"
)

// Config holds the parts of an API. The caller owns all of them.
type Config struct {
	Orders   Orders        // required
	Gate     charge.Gate   // required
	Identity auth.Identity // required

	// Bans is the history of bans. Nil: no history.
	Bans admit.BanHistory
	// Live records every decision and shows it on the page. Nil: no page.
	Live *live.Options
	// Audit stores what operators changed. Nil: nothing is stored.
	Audit audit.Store
	// Semaphores are the semaphores of the API. Nil: none, and no routes for them.
	Semaphores *semregistry.Registry
	// Captcha makes the challenges that rules ask for, and verifies solutions. Nil: challenges cannot be solved.
	Captcha captcha.Provider
	// CaptchaLimit limits how often challenges are requested on the public listener, and how often solutions are sent (under
	// the route /x-captcha), independent of the rules. Nil: only the rules limit that.
	CaptchaLimit charge.Limit
	// Secret keys values that callers must not be able to forge or guess. Required with Semaphores, Captcha, and Live with
	// Tokens.
	Secret []byte
	// PreviousSecret is the former Secret after a change: what it signed is still accepted. Nil: there is none.
	PreviousSecret []byte
	// Rooms are the waiting rooms. Nil: none, and no routes for them.
	Rooms *waitingroom.Service
	// VWRIssuers are the issuers that services may ask for in tokens of /vwr, besides our own.
	VWRIssuers []string
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
	// JWTRefused is called for every JWT that is refused, with its cause. It must be safe for concurrent use. Nil: not called.
	JWTRefused func(auth.JWTCause)
	// Verified receives the checks, and when they were made, whenever a sale is verified. It must be safe for concurrent use. Nil: not called.
	Verified func(sale string, checks []orders.Check, at time.Time)
	// Tokens of the internal listener. Nil: none, and then the caller must
	// bind that listener to loopback.
	Tokens *auth.Tokens
	// DemoSecrets names the settings whose secrets this repository publishes.
	DemoSecrets []string
	// Outdated names the settings whose file or URL could not be read again. Nil: there are none.
	Outdated func() []string
	// Opening reports whether the public listener is not open yet, so that readyz answers 503. Nil: it is open.
	Opening func() bool
	// Sessions stores which of the page's sessions have ended. Nil: only this process remembers that.
	Sessions auth.SessionStore
	// CORSOrigins are the origins whose pages may read the public listener's responses, such as https://shop.example, or "*"
	// for all. Empty: none.
	CORSOrigins []string
	// CORSHeaders are the request header fields that these pages may send besides those of this API.
	CORSHeaders []string
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

// Orders is what the handlers need of the sales and their orders. FromService makes one of a *shop.Service.
type Orders interface {
	sales.Source
	sales.Preparer
	sales.Changer
	sales.Manager
	sales.Events
	sales.Replayer
	live.Orders
	Conditions(ctx context.Context) []orders.Condition
}

// FromService adapts a service to Orders.
func FromService(s *shop.Service) Orders { return service{s} }

type service struct{ *shop.Service }

// Prepare only differs in the type of its result, which Go does not convert in method signatures.
func (s service) Prepare(req orders.Request) (sales.Attempt, error) {
	attempt, err := s.Service.Prepare(req)
	if err != nil {
		return nil, err
	}
	return attempt, nil
}

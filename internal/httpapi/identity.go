package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/apidocs"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/route"
)

// userParameters are the fields in which a proxy names its client's user.
var userParameters = []*huma.Param{
	route.HeaderParameter("X-User-ID", "The user, as determined by the proxy in front: accepted from loopback and TRUSTED_PROXIES, "+
		"ignored from others. "+
		"The proxy must overwrite what a client sends"),
	route.HeaderParameter("X-User-Tier", "The user's tier, likewise. Without it: registered with a user, anonymous without"),
}

// describeCaller documents how some operations identify the caller, and that the rules count their requests. With IDENTITY=jwt
// the document's security scheme describes the user.
func (a *API) describeCaller(described *huma.OpenAPI, of func(path string, op *huma.Operation) bool) {
	parameters := []*huma.Param{route.ForwardedFor}
	if _, ok := a.cfg.Identity.(auth.HeaderIdentity); ok {
		parameters = append(parameters, userParameters...)
	}
	for path, item := range described.Paths {
		for _, op := range apidocs.Operations(item) {
			if of(path, op) {
				op.Parameters = slices.Concat(op.Parameters, parameters)
				for _, r := range op.Responses {
					apidocs.Fields(r, "RateLimit", "RateLimit-Policy")
				}
			}
		}
	}
}

// identify is the middleware that determines the caller.
func (a *API) identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if tokenless[c.Path()] {
			return next(c)
		}
		httpReq := c.Request()
		trusted := a.proxies().MayNameUsers(httpReq)
		caller, err := a.cfg.Identity.Identify(httpReq, trusted)
		refused, ok := errors.AsType[*auth.JWTError](err)
		if ok && refused.Fetched != nil { // the issuer may have changed its keys
			request.Of(httpReq.Context()).Slot.Leave() // others must not wait for the issuer
			awaitKeys(httpReq.Context(), refused.Fetched)
			caller, err = a.cfg.Identity.Identify(httpReq, trusted)
			refused, ok = errors.AsType[*auth.JWTError](err)
		}
		if ok {
			a.refuseJWT(httpReq.Context(), refused)
		}
		if err != nil {
			return err
		}
		request.Of(httpReq.Context()).Caller = caller
		return next(c)
	}
}

// keysWithin is how long a request waits for keys of the issuer.
const keysWithin = 2 * time.Second

func awaitKeys(ctx context.Context, fetched <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, keysWithin)
	defer cancel()
	select {
	case <-fetched:
	case <-ctx.Done():
	}
}

// refuseJWT counts and logs the cause. The caller gets RFC 6750's code for a token that is invalid for whatever reason, and the
// error's detail.
func (a *API) refuseJWT(ctx context.Context, refused *auth.JWTError) {
	if a.cfg.JWTRefused != nil {
		a.cfg.JWTRefused(refused.Cause)
	}
	a.log.DebugContext(ctx, "JWT refused", slog.String("cause", string(refused.Cause)), slog.Any("error", refused))
}

package httpapi

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
)

const (
	authzPath  = "/v1/authz"
	authzBelow = authzPath + "/*"
)

// authzMethods are the methods that gateways call with: GET, or the client's own. HEAD is served as GET.
var authzMethods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// isAuthz reports whether a route serves requests of gateways on behalf of their clients.
func isAuthz(route string) bool { return route == authzPath || route == authzBelow }

// authz answers a gateway that asks whether to pass a request on: 200, or a problem that the gateway returns to its client.
// Both carry the header fields that the client should see.
func (a *API) authz(c echo.Context) error {
	r := request.Of(c.Request().Context())
	if r.HTTP.ContentLength != 0 {
		// A gateway may announce its client's body and not send it. Waiting for it would block, so the connection is closed.
		r.Header["Connection"] = []string{"close"}
	}
	err := a.authorize(c)
	if err == nil {
		r.Header["Cache-Control"] = request.NoStore
		return c.NoContent(http.StatusOK)
	}
	p := problem.Of(err)
	if c.Path() == authzPath && c.QueryParam("deny") == "403" {
		r.Header["X-Admission-Status"] = []string{strconv.Itoa(p.Status)}
		p.Status = http.StatusForbidden
	}
	return p
}

func (a *API) authorize(c echo.Context) error {
	r := request.Of(c.Request().Context())
	asked, err := askedBy(c)
	if err != nil {
		return err
	}
	req := admission.Request{
		User: r.Caller.User, Tier: r.Caller.Tier, IP: admissionhttp.ClientAddress(r.HTTP, a.proxies), Route: asked.route, Method: asked.method,
	}
	if err := tellAttributes(r.HTTP.Header, &req); err != nil {
		return err
	}
	if asked.host != "" {
		if req.Attributes == nil {
			req.Attributes = map[string]string{}
		}
		req.Attributes["host"] = asked.host
	}
	req.Solved = asked.route == challengePath // for gateways that protect this API with itself: see challengeCharged
	_, cancel, err := a.chargeOrSolve(r.HTTP.Context(), 0, r, req, nil)
	defer cancel()
	return err
}

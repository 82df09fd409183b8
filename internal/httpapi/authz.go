package httpapi

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
)

const (
	authzPath  = "/v1/authz"
	authzBelow = authzPath + "/*"
)

// authzMethods are those that gateways ask with: GET, or the client's own. HEAD comes as GET.
var authzMethods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// isAuthz tells whether a route asks on behalf of a gateway's client.
func isAuthz(route string) bool { return route == authzPath || route == authzBelow }

// authz answers a gateway that asks whether to pass a request on: 200, or a problem that it hands to its client. Both have
// the fields that the client should see.
func (a *API) authz(c echo.Context) error {
	r := requestOf(c.Request().Context())
	if r.http.ContentLength != 0 {
		// A gateway may announce its client's body and not send it. Nobody must wait for that, so the connection ends here.
		r.header["Connection"] = []string{"close"}
	}
	err := a.authorize(c)
	if err == nil {
		r.header["Cache-Control"] = noStore
		return c.NoContent(http.StatusOK)
	}
	p := problemOf(err)
	if c.Path() == authzPath && c.QueryParam("deny") == "403" {
		r.header["X-Admission-Status"] = []string{strconv.Itoa(p.Status)}
		p.Status = http.StatusForbidden
	}
	return p
}

func (a *API) authorize(c echo.Context) error {
	r := requestOf(c.Request().Context())
	asked, err := askedBy(c)
	if err != nil {
		return err
	}
	req := admission.Request{
		User: r.caller.User, Tier: r.caller.Tier, IP: admissionhttp.ClientAddress(r.http, a.proxies), Route: asked.route, Method: asked.method,
	}
	if err := tellAttributes(r.http.Header, &req); err != nil {
		return err
	}
	if asked.host != "" {
		if req.Attributes == nil {
			req.Attributes = map[string]string{}
		}
		req.Attributes["host"] = asked.host
	}
	req.Solved = asked.route == challengePath // whoever guards this API by this API: see challengeCharged
	_, cancel, err := a.chargeOrSolve(r.http.Context(), 0, r, req, nil)
	defer cancel()
	return err
}

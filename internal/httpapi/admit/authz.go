package admit

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/apidocs"
	"github.com/tidegate/tidegate/internal/httpapi/challenge"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/waitingroom"
)

// Routes of gateways: Envoy appends the path of its client's request, all others send it in a field.
const (
	AuthzPath  = "/v1/authz"
	AuthzBelow = AuthzPath + "/*"
)

// AuthzMethods are the methods of the description. Gateways call with GET, or with the method of their client.
var AuthzMethods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// IsAuthz reports whether a route serves requests of gateways on behalf of their clients.
func IsAuthz(route string) bool { return route == AuthzPath || route == AuthzBelow }

// Gateways is the handler for gateways. It is safe for concurrent use once its fields are set.
type Gateways struct {
	Charger interface {
		// ChargeFor charges a request that the request of ctx asks about. A denial is the problem for it.
		ChargeFor(ctx context.Context, req admission.Request) error
	}
	Proxies auth.Proxies
	Rooms   interface { // nil: no waiting rooms
		VerifyPass(room, pass string, at time.Time) (waitingroom.PassClaims, error)
		Room(ctx context.Context, room string) (waitingroom.Status, error)
	}
}

// Routes are the routes of gateways, without Huma, which would read the body.
func (h *Gateways) Routes() []route.Route {
	passed := apidocs.Fields(&huma.Response{Description: "Pass it on"}, "RateLimit", "RateLimit-Policy", "X-User-ID")
	caller := []*huma.Param{
		route.ForwardedFor,
		route.HeaderParameter("X-User-ID", "The user, where the gateway names them"),
		route.HeaderParameter("X-User-Tier", "Their tier; without it registered with a user and anonymous without"),
	}
	return []route.Route{
		route.Plain(route.Route{
			Operation: huma.Operation{
				OperationID: "authz", Path: AuthzPath, Summary: "For gateways: whether to pass a request on, by what they forward", Tags: tagDecisions,
				Parameters: append([]*huma.Param{
					route.HeaderParameter("X-Forwarded-Uri", "URI of the client's request; nginx: X-Original-URI"),
					route.HeaderParameter("X-Forwarded-Method", "Its method; nginx: X-Original-Method"),
					route.HeaderParameter("X-Forwarded-Host", "Its host, to rules the attribute host"),
					{
						Name: "deny", In: "query", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"403"}},
						Description: "For gateways that hand on no other refusal: 403 in place of all, and the true status in X-Admission-Status",
					},
					{
						Name: "room", In: "query", Schema: &huma.Schema{Type: huma.TypeString},
						Description: "A waiting room: without a pass of it the answer is 403 turn_required, until the room is closed. With one, " +
							"X-User-ID of the answer is the pass's user",
					},
					route.HeaderParameter(PassField, "The client's pass for room. Without it, Authorization: Bearer is read, unless that is the token "+
						"of this call or of the user"),
				}, caller...),
				Responses: route.Responses(passed, 401, 403, 404, 422, 429, 503),
			},
			Roles: auth.ForServices, Methods: AuthzMethods,
		}, h.Authz),
		route.Plain(route.Route{
			Operation: huma.Operation{
				OperationID: "authz-below", Path: AuthzPath + "/{path}",
				Summary: "For Envoy: the same for the path behind /v1/authz and the method of this call",
				Tags:    tagDecisions, Parameters: append([]*huma.Param{route.PathParameter("path", "Any number of segments")}, caller...),
				Responses: route.Responses(passed, 401, 403, 422, 429, 503),
			},
			Roles: auth.ForServices, Methods: AuthzMethods,
		}, h.Authz),
	}
}

// Authz answers a gateway that asks whether to pass a request on: 200, or a problem that the gateway returns to its client.
// Both carry the header fields that the client should see.
func (h *Gateways) Authz(c echo.Context) error {
	r := request.Of(c.Request().Context())
	if r.HTTP.ContentLength != 0 {
		// A gateway may announce its client's body and not send it. Waiting for it would block, so the connection is closed.
		r.Header["Connection"] = []string{"close"}
	}
	err := h.authorize(c)
	if err == nil {
		r.Header["Cache-Control"] = response.NoStore
		return c.NoContent(http.StatusOK)
	}
	p := problem.Of(err)
	if c.Path() == AuthzPath && c.QueryParam("deny") == "403" {
		r.Header["X-Admission-Status"] = []string{strconv.Itoa(p.Status)}
		p.Status = http.StatusForbidden
	}
	return p
}

func (h *Gateways) authorize(c echo.Context) error {
	r := request.Of(c.Request().Context())
	asked, err := askedBy(c)
	if err != nil {
		return err
	}
	req := admission.Request{
		User: r.Caller.User, Tier: r.Caller.Tier, IP: admissionhttp.ClientAddress(r.HTTP, h.Proxies), Route: asked.route, Method: asked.method,
	}
	if err := readAttributes(r.HTTP.Header, &req); err != nil {
		return err
	}
	if asked.host != "" {
		if req.Attributes == nil {
			req.Attributes = map[string]string{}
		}
		req.Attributes["host"] = asked.host
	}
	req.Solved = asked.route == challenge.Path // for gateways that protect this API with itself: see charge.ChallengeMiddleware
	p, err := h.passOf(c, r)
	if err != nil {
		return err
	}
	if req.User == "" {
		req.User = p.user // so that a pass does not outlive its user's ban
	}
	// The rules come first: they also limit how often somebody comes without a turn.
	if err := h.Charger.ChargeFor(r.HTTP.Context(), req); err != nil {
		return err
	}
	return h.turn(r, p)
}

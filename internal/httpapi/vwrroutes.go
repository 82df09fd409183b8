package httpapi

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/apidocs"
	"github.com/tidegate/tidegate/internal/httpapi/vwr"
)

// registerVWR registers the verbs of AWS Virtual Waiting Room without Huma, whose errors have another format.
func (a *API) registerVWR(described *huma.OpenAPI, e *echo.Echo) {
	handlers := &vwr.Handlers{Rooms: a.visitors.Rooms, Visitors: a.visitors, Issuers: a.vwrIssuers}
	private := e == a.internal
	for _, v := range vwr.Verbs {
		if v.Private && !private {
			continue
		}
		var steps []echo.MiddlewareFunc
		switch {
		case private && auth.OnlyOperators(v.Roles):
			steps = append(steps, a.audit.Middleware(v.Operation(), vwr.AuditDetail), needs(v.Roles))
		case private:
			steps = append(steps, needs(v.Roles))
		case !v.Charges:
			steps = append(steps, a.charger.EchoMiddleware)
		}
		e.Add(v.Method, vwr.Path+"/"+v.Name, handlers.Serve(v, private), steps...)
		op := v.Describe(described.Components.Schemas, private)
		statuses := []int{401, 403, 429, 503}
		if v.Method == http.MethodPost {
			statuses = append(statuses, 408, 409, 413, 415, 422)
		}
		for _, status := range statuses {
			if op.Responses[strconv.Itoa(status)] == nil {
				op.Responses[strconv.Itoa(status)] = apidocs.ProblemResponse(status)
			}
		}
		if !private {
			op.Parameters = slices.Concat(op.Parameters, captchaParameter)
		}
		described.AddOperation(op)
	}
}

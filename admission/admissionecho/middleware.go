// Package admissionecho puts an admission.Gate in front of Echo's handlers. Answers, and what handlers find in the request's
// context, are those of package admissionhttp.
package admissionecho

import (
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
)

// Middleware charges every request at the gate, as the admission.Request that requestOf makes of it, and lets those through
// that are admitted. An *echo.HTTPError of requestOf, such as echo.ErrUnauthorized, goes to Echo's error handler; any other is answered
// with 400. admissionhttp.DecisionOf finds the decision in the context of the request.
func Middleware(gate admissionhttp.Gate, requestOf func(echo.Context) (admission.Request, error)) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			req, err := requestOf(c)
			var own *echo.HTTPError
			switch {
			case errors.As(err, &own):
				return own
			case err != nil:
				admissionhttp.Fail(c.Response(), errors.Join(admission.ErrInvalidRequest, err))
				return nil
			}
			r := c.Request()
			d, err := gate.Charge(r.Context(), req)
			switch {
			case err != nil:
				admissionhttp.Fail(c.Response(), err)
				return nil
			case !d.Admitted:
				admissionhttp.Refuse(c.Response(), &d)
				return nil
			}
			admissionhttp.WriteFields(c.Response().Header(), &d)
			c.SetRequest(r.WithContext(admissionhttp.WithDecision(r.Context(), d)))
			return next(c)
		}
	}
}

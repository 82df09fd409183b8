// Package admissionecho puts an admission.Gate in front of Echo handlers.
//
//	e.Use(admissionecho.Middleware(gate, func(c echo.Context) (admission.Request, error) {
//		return admission.Request{User: userOf(c), Route: c.Path(), Method: c.Request().Method}, nil
//	}))
//
// The responses and the values in the request context are those of package admissionhttp.
package admissionecho

import (
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
)

// Middleware charges every request at the gate and passes admitted requests to the next handler. requestOf builds the admission.Request.
// If requestOf returns an *echo.HTTPError, such as echo.ErrUnauthorized, Echo's error handler gets it; any other error is answered with
// 400. admissionhttp.DecisionOf returns the decision from the request's context.
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

package problem

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/login"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/waitingroom"
)

// kindsOf is the table from errors to problems; the first that matches counts.
var kindsOf = []struct {
	err    error
	reason string
	detail string // if the error itself has none
}{
	{orders.ErrUnknownSale, UnknownSale, ""},
	{orders.ErrUnknownItem, UnknownItem, ""},
	{orders.ErrUnknownOrder, UnknownOrder, ""},
	{orders.ErrUserRequired, Unauthenticated, userRequired},
	{orders.ErrKeyRequired, KeyRequired, ""},
	{orders.ErrInvalid, Invalid, ""},
	{orders.ErrForceRequired, ForceRequired, ""},
	{orders.ErrStillRefused, StillRefused, ""},
	{orders.ErrConflict, Conflict, "The change contradicts what stands."},
	{orders.ErrOrderFinal, OrderFinal, ""},
	{orders.ErrRecovering, string(orders.ReasonRecovering), ""},
	{captcha.ErrProvider, StoreUnavailable, "The CAPTCHA's provider gives no usable answer."}, // otherwise readers would suspect a store
	{orders.ErrQueue, StoreUnavailable, "The task queue cannot be read; the process's log has the error."},
	{orders.ErrUnavailable, StoreUnavailable, ""},
	{admission.ErrUnavailable, StoreUnavailable, ""},
	{admission.ErrUnknownRequest, UnknownRequest, ""},
	{admission.ErrUnknownRule, UnknownRule, ""},
	{bans.ErrUnavailable, StoreUnavailable, ""},
	{bans.ErrRefused, Conflict, ""},
	{bans.ErrFull, Conflict, ""},
	{bans.ErrInvalid, Invalid, ""},
	{admission.ErrInvalidRequest, Invalid, ""},
	{login.ErrInvalid, Invalid, ""},
	{login.ErrUnknownAttempt, UnknownAttempt, ""},
	{login.ErrSettled, Conflict, "The attempt has a different outcome."},
	{login.ErrUnavailable, StoreUnavailable, ""},
	{semaphore.ErrUnknown, UnknownSemaphore, ""},
	{semaphore.ErrPermitLost, PermitLost, ""},
	{semaphore.ErrTooHeavy, Invalid, ""},
	{semaphore.ErrInvalid, Invalid, ""},
	{semaphore.ErrClosed, Draining, ""},
	{semregistry.ErrUnavailable, StoreUnavailable, ""},
	{history.ErrUnavailable, StoreUnavailable, ""},
	{captcha.ErrUnavailable, StoreUnavailable, ""},
	{waitingroom.ErrUnknownRoom, UnknownRoom, ""},
	{waitingroom.ErrNotJoined, UnknownPlace, ""},
	{waitingroom.ErrUserRequired, Unauthenticated, userRequired},
	{waitingroom.ErrConflict, Conflict, ""},
	{waitingroom.ErrInvalid, Invalid, ""},
	{waitingroom.ErrUnavailable, StoreUnavailable, ""},
	{auth.ErrUnauthenticated, Unauthenticated, ""},
	{context.DeadlineExceeded, StoreUnavailable, ""},
	{context.Canceled, StoreUnavailable, ""}, // the client has disconnected
}

const userRequired = "A user is required, and the request has none that is accepted."

// Of is the one place where an error becomes a problem.
func Of(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return New(TooLarge)
	}
	if routing, ok := errors.AsType[*echo.HTTPError](err); ok {
		return New(OfStatus(routing.Code))
	}
	if forbidden, ok := errors.AsType[*auth.ForbiddenError](err); ok {
		p := New(Forbidden)
		p.Detail = forbidden.Detail
		return p
	}
	if refused, ok := errors.AsType[*auth.JWTError](err); ok {
		p := New(Unauthenticated)
		p.Detail, p.Token = refused.Detail, true
		return p
	}
	if throttled, ok := errors.AsType[*auth.ThrottledError](err); ok {
		p := New(string(admission.RateLimited))
		p.Detail, p.RetryAfter = "Too many wrong tokens have come from this address.", throttled.Wait
		return p
	}
	for _, k := range kindsOf {
		if errors.Is(err, k.err) {
			p := New(k.reason)
			p.Detail = k.detail
			if known, ok := errors.AsType[*failure.Error](err); ok && errors.Is(known.Kind, k.err) {
				p.fill(known)
			}
			if p.Reason == StoreUnavailable && !errors.Is(err, context.Canceled) { // otherwise the client has gone
				p.Cause = err
			}
			return p
		}
	}
	p := New(Internal)
	p.Cause = err
	return p
}

// fill adds what e has for the caller.
func (p *Problem) fill(e *failure.Error) {
	p.RetryAfter = max(p.RetryAfter, e.RetryAfter)
	switch {
	case p.Reason == ForceRequired:
		p.Detail = e.Text() + "; ?force=true does it"
	case p.Reason != Invalid:
		p.Detail = cmp.Or(e.Text(), p.Detail)
	case errors.Is(e.Kind, orders.ErrInvalid):
		p.Errors = []Violation{{Location: locationOf(e.Field), Message: e.Detail}}
	default:
		p.Errors = []Violation{{Location: "body", Message: e.Text()}}
	}
}

// TextFor returns what an error has for the caller.
func TextFor(err error) string {
	if e, ok := errors.AsType[*failure.Error](err); ok {
		return e.Text()
	}
	return ""
}

// OfStatus returns the reason for a status that a library answers with.
func OfStatus(status int) string {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return Invalid
	case http.StatusForbidden:
		return Forbidden
	case http.StatusNotFound:
		return UnknownRoute
	case http.StatusMethodNotAllowed:
		return MethodNotAllowed
	case http.StatusRequestTimeout:
		return Timeout
	case http.StatusRequestEntityTooLarge:
		return TooLarge
	case http.StatusUnsupportedMediaType:
		return UnsupportedMediaType
	case http.StatusServiceUnavailable:
		return AtCapacity
	}
	return Internal
}

package problem

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/login"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/waitingroom"
)

// reasonOf is the table from errors to reasons; the first that matches counts.
var reasonOf = []struct {
	err    error
	reason string
}{
	{orders.ErrUnknownSale, UnknownSale},
	{orders.ErrUnknownItem, UnknownItem},
	{orders.ErrUnknownOrder, UnknownOrder},
	{orders.ErrUserRequired, Unauthenticated},
	{orders.ErrKeyRequired, KeyRequired},
	{orders.ErrStillRefused, StillRefused},
	{orders.ErrConflict, Conflict},
	{orders.ErrOrderFinal, OrderFinal},
	{orders.ErrRecovering, string(orders.ReasonRecovering)},
	{orders.ErrUnavailable, StoreUnavailable},
	{admission.ErrUnavailable, StoreUnavailable},
	{admission.ErrUnknownRequest, UnknownRequest},
	{admission.ErrUnknownRule, UnknownRule},
	{bans.ErrUnavailable, StoreUnavailable},
	{bans.ErrRefused, Conflict},
	{bans.ErrFull, Conflict},
	{bans.ErrInvalid, Invalid},
	{admission.ErrInvalidRequest, Invalid},
	{login.ErrInvalid, Invalid},
	{login.ErrUnknownAttempt, UnknownAttempt},
	{login.ErrSettled, Conflict},
	{login.ErrUnavailable, StoreUnavailable},
	{semaphore.ErrUnknown, UnknownSemaphore},
	{semaphore.ErrPermitLost, PermitLost},
	{semaphore.ErrTooHeavy, Invalid},
	{semaphore.ErrInvalid, Invalid},
	{semaphore.ErrAtCapacity, string(orders.ReasonAtCapacity)},
	{semaphore.ErrClosed, Draining},
	{semregistry.ErrUnavailable, StoreUnavailable},
	{history.ErrUnavailable, StoreUnavailable},
	{captcha.ErrUnavailable, StoreUnavailable},
	{waitingroom.ErrUnknownRoom, UnknownRoom},
	{waitingroom.ErrNotJoined, UnknownPlace},
	{waitingroom.ErrUserRequired, Unauthenticated},
	{waitingroom.ErrNotStarted, string(orders.ReasonNotStarted)},
	{waitingroom.ErrEnded, string(orders.ReasonEnded)},
	{waitingroom.ErrSoldOut, string(orders.ReasonSoldOut)},
	{waitingroom.ErrNotYourTurn, NotYourTurn},
	{waitingroom.ErrAtCapacity, string(orders.ReasonAtCapacity)},
	{waitingroom.ErrLapsed, TurnLapsed},
	{waitingroom.ErrTier, Forbidden},
	{waitingroom.ErrConflict, Conflict},
	{waitingroom.ErrInvalid, Invalid},
	{waitingroom.ErrUnavailable, StoreUnavailable},
	{auth.ErrUnauthenticated, Unauthenticated},
	{context.DeadlineExceeded, StoreUnavailable},
	{context.Canceled, StoreUnavailable}, // the client has disconnected
}

// Of is the one place where an error becomes a problem.
func Of(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if invalid, ok := errors.AsType[*orders.InvalidError](err); ok {
		return InvalidAt(locationOf(invalid.Field), invalid.Message)
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
	if again, ok := errors.AsType[*waitingroom.RejoinError](err); ok {
		p := New(string(admission.RateLimited))
		p.Detail, p.RetryAfter = "You have given up one place after another in this room.", again.Wait
		return p
	}
	for _, r := range reasonOf {
		if errors.Is(err, r.err) {
			p := New(r.reason)
			p.Detail = detailOf(err, r.reason)
			switch r.reason {
			case StoreUnavailable:
				if !errors.Is(err, context.Canceled) { // the client has gone
					p.Cause = err
				}
			case Invalid:
				p.Errors = InvalidAt("body", CallerText(err.Error())).Errors
			case string(orders.ReasonAtCapacity):
				if full, ok := errors.AsType[*semaphore.CapacityError](err); ok {
					p.Position, p.RetryAfter = full.Position, max(full.Wait, p.RetryAfter)
				}
			}
			return p
		}
	}
	p := New(Internal)
	p.Cause = err
	return p
}

// detailOf returns what the problem of a reason says of an error, or nothing.
func detailOf(err error, reason string) string {
	text := err.Error()
	switch reason {
	case Unauthenticated:
		if errors.Is(err, orders.ErrUserRequired) || errors.Is(err, waitingroom.ErrUserRequired) {
			return "A user is required, and the request has none that is accepted."
		}
	case StillRefused:
		if _, said, ok := strings.Cut(text, orders.ErrStillRefused.Error()+" "); ok {
			return "order " + strings.ReplaceAll(said, orders.ErrPoison.Error()+": ", "")
		}
	case Conflict:
		for _, from := range []string{orders.ErrConflict.Error() + ": ", waitingroom.ErrConflict.Error() + ": ", "orders: ", "bans: ", "admission: ", "login: "} {
			text = strings.TrimPrefix(text, from)
		}
		return text
	case OrderFinal:
		if _, said, ok := strings.Cut(text, orders.ErrOrderFinal.Error()+": "); ok {
			return "order " + said
		}
	case StoreUnavailable:
		if errors.Is(err, captcha.ErrProvider) { // otherwise readers would suspect a store
			return "The CAPTCHA's provider gives no usable answer."
		}
		if errors.Is(err, orders.ErrQueue) {
			return "The task queue cannot be read; the process's log has the error."
		}
		if _, said, ok := strings.Cut(text, orders.ErrUncommitted.Error()+": "); ok {
			return said
		}
	case Forbidden, NotYourTurn, TurnLapsed, string(orders.ReasonNotStarted), string(orders.ReasonEnded):
		return ofRoom(text)
	case UnknownSemaphore:
		return CallerText(text)
	}
	return ""
}

// CallerText returns the part of an error that is meant for the caller, without packages and operations.
func CallerText(text string) string {
	for _, sentinel := range []error{admission.ErrInvalidRequest, bans.ErrInvalid, semaphore.ErrInvalid, login.ErrInvalid, waitingroom.ErrInvalid} {
		if _, said, ok := strings.Cut(text, sentinel.Error()+": "); ok {
			return said
		}
	}
	if _, name, ok := strings.Cut(text, semaphore.ErrUnknown.Error()+" "); ok {
		return "it is called " + name
	}
	return text
}

// ofRoom returns what an error of package waitingroom says of a room or place, as a sentence. Its reasons are also those of sales.
func ofRoom(text string) string {
	_, said, ok := strings.Cut(text, "waitingroom: ")
	if !ok {
		return ""
	}
	if _, of, ok := strings.Cut(said, ": "); ok {
		said = of
	}
	return strings.ToUpper(said[:1]) + said[1:] + "."
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
		return string(orders.ReasonAtCapacity)
	}
	return Internal
}

package route

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/netaddr"
)

// AtOnce counts the answers that take long. It refuses more than most, and more than perAddress of one address. Make it with NewAtOnce.
// Safe for concurrent use.
type AtOnce struct {
	most, perAddress int

	mu        sync.Mutex
	all       int            // guarded by mu
	byAddress map[string]int // guarded by mu
}

// NewAtOnce returns an AtOnce of these bounds.
func NewAtOnce(most, perAddress int) *AtOnce {
	return &AtOnce{most: most, perAddress: perAddress, byAddress: make(map[string]int)}
}

// Begin returns a problem if a request of the address must not begin.
func (n *AtOnce) Begin(address string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byAddress[address] >= n.perAddress {
		p := problem.New(string(admission.RateLimited))
		p.Detail, p.RetryAfter = "Too many answers to this address are under way.", time.Second
		return p
	}
	if n.all >= n.most {
		return problem.New(problem.AtCapacity)
	}
	n.all++
	n.byAddress[address]++
	return nil
}

// End ends a request that has begun.
func (n *AtOnce) End(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all--
	if n.byAddress[address]--; n.byAddress[address] == 0 {
		delete(n.byAddress, address)
	}
}

// Len returns how many are under way.
func (n *AtOnce) Len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all
}

// bounded is the middleware of routes with AtOnce.
func (l *Listener) bounded(n *AtOnce) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			address := netaddr.Address(admissionhttp.ClientAddress(c.Request(), l.Proxies))
			if err := n.Begin(address); err != nil {
				return err
			}
			defer n.End(address)
			return next(c)
		}
	}
}

// whileAllowed returns a handler that reads or waits for long: its context ends when the caller's token is no longer accepted,
// which is then its answer.
func whileAllowed[I, O any](handle func(context.Context, *I) (*O, error)) func(context.Context, *I) (*O, error) {
	return func(ctx context.Context, in *I) (*O, error) {
		lasting, end := request.Lasting(ctx)
		defer end()
		out, err := handle(lasting, in)
		if refused := request.Of(ctx).StillAllowed(); refused != nil {
			return nil, refused
		}
		return out, err
	}
}

// lastPart is how long the end of an answer may take to be read once its caller may not have more of it.
const lastPart = time.Second

// lasting is the middleware of streams and files: their context ends when the caller's token is no longer accepted, and so does a
// write that waits for a client that does not read. A handler sets a deadline for a write before it looks whether its context has ended.
func lasting(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, end := request.Lasting(c.Request().Context())
		defer end()
		var begun atomic.Bool // before that, an error is sent
		c.Response().Before(func() { begun.Store(true) })
		control, cut := http.NewResponseController(c.Response().Writer), make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(cut)
			if begun.Load() && !errors.Is(context.Cause(ctx), context.Canceled) { // otherwise the client has gone, or the answer is complete
				_ = control.SetWriteDeadline(time.Now().Add(lastPart))
			}
		})
		defer func() { // nothing may touch the response after the handler
			if !stop() {
				<-cut
			}
		}()
		c.SetRequest(c.Request().WithContext(ctx))
		err := next(c)
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, auth.ErrUnauthenticated) { // it ended a wait for a permit
			return cause
		}
		return err
	}
}

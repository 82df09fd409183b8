package httpapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/netaddr"
	"github.com/tidegate/tidegate/orders"
)

// How many of the answers that take long a listener of a process gives at once, to all clients and on the public listener to each address.
const (
	maxStreams           = 10_000
	maxStreamsPerAddress = 200
	maxWaits             = 10_000
	maxWaitsPerAddress   = 200
	maxDraws             = 8
	maxDrawsPerAddress   = 2
)

// atOnce counts the requests of a route that are under way. It refuses more than most, and more than perAddress of one address.
type atOnce struct {
	most, perAddress int

	mu        sync.Mutex
	all       int            // guarded by mu
	byAddress map[string]int // guarded by mu
}

func newAtOnce(most, perAddress int) *atOnce {
	return &atOnce{most: most, perAddress: perAddress, byAddress: make(map[string]int)}
}

// begin returns a problem if a request of the address must not begin.
func (n *atOnce) begin(address string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byAddress[address] >= n.perAddress {
		p := problem.New(string(admission.RateLimited))
		p.Detail, p.RetryAfter = "Too many answers to this address are under way.", time.Second
		return p
	}
	if n.all >= n.most {
		return problem.New(string(orders.ReasonAtCapacity))
	}
	n.all++
	n.byAddress[address]++
	return nil
}

// end ends a request that has begun.
func (n *atOnce) end(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all--
	if n.byAddress[address]--; n.byAddress[address] == 0 {
		delete(n.byAddress, address)
	}
}

// bounded is a middleware that refuses what n refuses. Each listener has its own n: the public must not take what the shop's servers need.
func (a *API) bounded(n *atOnce) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			address := netaddr.Address(admissionhttp.ClientAddress(c.Request(), a.proxies))
			if err := n.begin(address); err != nil {
				return err
			}
			defer n.end(address)
			return next(c)
		}
	}
}

// mayWait reports whether the answer to a request may wait for a change, and counts the wait until end is called. The process must not be
// draining, and on the public listener all callers and those of an address wait within bounds; beyond them they are answered at once.
// waiting ends with ctx, or when the caller's token is no longer accepted: the handler asks StillAllowed before it answers.
func (a *API) mayWait(ctx context.Context) (waiting context.Context, end func(), ok bool) {
	r := request.Of(ctx)
	if a.draining.Load() {
		return nil, nil, false
	}
	if r.Guard != nil {
		waiting, end = request.Lasting(ctx)
		return waiting, end, true
	}
	address := netaddr.Address(admissionhttp.ClientAddress(r.HTTP, a.proxies))
	if a.waits.begin(address) != nil {
		return nil, nil, false
	}
	waiting, done := request.Lasting(ctx)
	return waiting, func() { done(); a.waits.end(address) }, true
}

// lasting is the middleware of streams and files: their context ends when the caller's token is no longer accepted.
func lasting(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, end := request.Lasting(c.Request().Context())
		defer end()
		c.SetRequest(c.Request().WithContext(ctx))
		err := next(c)
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, auth.ErrUnauthenticated) { // it ended a wait for a permit
			return cause
		}
		return err
	}
}

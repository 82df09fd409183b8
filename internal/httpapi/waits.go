package httpapi

import (
	"context"

	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/netaddr"
)

// How many waits the public listener of a process has at once, of all clients and of each address.
const (
	maxWaits           = 10_000
	maxWaitsPerAddress = 200
)

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
	address := netaddr.Address(admissionhttp.ClientAddress(r.HTTP, a.proxies()))
	if a.waits.Begin(address) != nil {
		return nil, nil, false
	}
	waiting, done := request.Lasting(ctx)
	return waiting, func() { done(); a.waits.End(address) }, true
}

package httpapi

import (
	"bytes"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/orders"
)

// queued runs new orders and reads in separate queues. Other requests, such as changes of existing orders, are not queued.
func (a *API) queued(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, queue := requestOf(c.Request().Context()), a.reads
		switch method, path := c.Request().Method, c.Path(); {
		case method == http.MethodPost && path == placePattern:
			queue = a.newOrders
			r.readAhead(placeRoute.MaxBodyBytes) // a slow sender must not hold a slot
		case method != http.MethodGet || path != salePattern && path != orderPattern:
			return next(c)
		}
		slot, ok := queue.Enter()
		r.slot = slot
		defer r.slot.Leave()
		c.Response().Before(r.slot.Leave) // a slow reader must not hold a slot
		if ok {
			return next(c)
		}
		p := problem(string(orders.ReasonAtCapacity))
		p.retryAfter = a.capacity.RetryAfter()
		a.answered(p, "", func() admission.Request { return a.requestAt(r) })
		return p
	}
}

// readAhead reads the body of an order, up to most bytes. Later readers get what has arrived by now, and its error, without
// waiting.
func (r *request) readAhead(most int64) {
	req := r.echo.Request()
	body, err := readBody(req, most)
	if err == nil {
		r.body = body
	}
	req.Body = &arrivedBody{*bytes.NewReader(body), err} // the server closes the original
}

// readBody reads at most most bytes, with one allocation if the client says how many there are.
func readBody(req *http.Request, most int64) ([]byte, error) {
	if req.ContentLength < 0 || req.ContentLength > most {
		return io.ReadAll(io.LimitReader(req.Body, most))
	}
	body := make([]byte, req.ContentLength)
	n, err := io.ReadFull(req.Body, body)
	return body[:n], err
}

// An arrivedBody is a body that was read, and the error that ended it early.
type arrivedBody struct {
	arrived bytes.Reader
	err     error
}

func (b *arrivedBody) Read(p []byte) (int, error) {
	n, err := b.arrived.Read(p)
	if err != nil && b.err != nil {
		err = b.err
	}
	return n, err
}

func (*arrivedBody) Close() error { return nil }

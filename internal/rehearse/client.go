package rehearse

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/orders"
)

// newTransport returns a transport that keeps all its connections open: a crowd that dials for each call would measure the
// kernel.
func newTransport(connections, hosts int) *http.Transport {
	perHost := max((connections+hosts-1)/hosts, 1)
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		MaxIdleConns:        connections,
		MaxIdleConnsPerHost: perHost,
		MaxConnsPerHost:     perHost,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}
}

// reply is a response.
type reply struct {
	sales.OrderView // of a success, as far as it has an order

	Action     orders.Action `json:"action"` // of a payment
	code       int
	refusal    string        // reason of a problem
	retryAfter time.Duration // 0 = none
}

// payBefore returns when the order has to be paid; zero = it has no time to pay.
func (r *reply) payBefore() (at time.Time) {
	if r.PayBefore != nil {
		at = *r.PayBefore
	}
	return at
}

// public calls the public API of one process for buyers. Safe for concurrent use.
type public struct {
	client apiclient.Client
	orders string // path: POST here
	wait   time.Duration
	skew   time.Duration
}

func newPublic(base, sale string, rt http.RoundTripper, wait, skew time.Duration) *public {
	return &public{
		client: apiclient.Client{Transport: rt, Base: base}, orders: apiclient.Path("v1", "sales", sale, "orders"), wait: wait, skew: skew,
	}
}

// order places an order. hangUp of 0 or more cuts the connection that long after the request was sent.
func (p *public) order(ctx context.Context, buyer, key, item string, quantity int, hangUp time.Duration) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	if hangUp >= 0 {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { time.AfterFunc(hangUp, cancel) },
		})
	}
	header := p.identity(buyer)
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	return replyOf(p.client.Do(ctx, http.MethodPost, p.orders, header, sales.OrderRequest{Item: item, Quantity: quantity}))
}

// cancel cancels an order.
func (p *public) cancel(ctx context.Context, buyer, id string) (reply, error) {
	ctx, done := context.WithTimeout(ctx, p.wait)
	defer done()
	return replyOf(p.client.Do(ctx, http.MethodPost, apiclient.Path("v1", "orders", id, "cancel"), p.identity(buyer), nil))
}

// status reads an order; the server waits up to hold for its status to differ from while.
func (p *public) status(ctx context.Context, buyer, id string, while orders.Status, hold time.Duration) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, hold+p.wait)
	defer cancel()
	path := apiclient.Path("v1", "orders", id) + "?while=" + string(while) + "&wait_ms=" + strconv.FormatInt(hold.Milliseconds(), 10)
	return replyOf(p.client.Do(ctx, http.MethodGet, path, p.identity(buyer), nil))
}

// identity returns the headers of a buyer, with the buyer's clock if it is skewed.
func (p *public) identity(buyer string) http.Header {
	h := http.Header{"X-User-Id": {buyer}, "X-User-Tier": {"registered"}}
	if p.skew != 0 {
		h.Set("Date", time.Now().Add(p.skew).UTC().Format(http.TimeFormat))
	}
	return h
}

// replyOf decodes a response; a partial one counts as none.
func replyOf(res apiclient.Response, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	r := reply{code: res.StatusCode, retryAfter: res.RetryAfter()}
	switch {
	case !bytes.HasPrefix(res.Body, []byte("{")):
	case r.code/100 == 2:
		err = json.Unmarshal(res.Body, &r)
	default:
		var p problem.Problem
		err = json.Unmarshal(res.Body, &p)
		r.refusal = p.Reason
	}
	if err != nil {
		return r, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return r, nil
}

var errMalformed = errors.New("rehearse: malformed answer")

// outcomeOf returns what a buyer may conclude; proper means that the response reports success. Only a 4xx is a refusal: every
// other response that is not proper leaves the outcome open.
func outcomeOf(r reply, err error, hungUp, proper bool) (o judge.Outcome, reason, detail string) {
	var timeout net.Error
	switch {
	case errors.Is(err, errMalformed):
		return judge.Lost, "malformed", err.Error()
	case err != nil && hungUp:
		return judge.Lost, "hung_up", ""
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return judge.Lost, "timeout", ""
	case err != nil:
		return judge.Lost, "connection", err.Error()
	case proper:
		return judge.Admitted, "", ""
	case r.code >= 400 && r.code < 500:
		return judge.Refused, cmp.Or(r.refusal, "http_"+strconv.Itoa(r.code)), ""
	case r.code >= 500:
		return judge.Lost, cmp.Or(r.refusal, "http_"+strconv.Itoa(r.code)), ""
	}
	return judge.Lost, "malformed", fmt.Sprintf("%d with order id %q and status %q", r.code, r.OrderID, r.Status)
}

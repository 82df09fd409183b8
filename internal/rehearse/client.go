package rehearse

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds how much of a response body is read.
const maxBody = 4 << 20

// newTransport returns a transport that keeps all its connections open: a crowd that dials for each call would measure the
// kernel. RoundTrip is used directly, so there are no redirects and no cookies; requests have no GetBody, so the transport
// never repeats a call that the history would not have.
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

// answer is the part of an order's or a problem's JSON that the crowd uses.
type answer struct {
	OrderID     string `json:"order_id"`
	Status      state  `json:"status"`
	Reason      string `json:"reason"`
	Action      string `json:"action"` // of a payment
	PollAfterMs int    `json:"poll_after_ms"`

	PayBefore time.Time `json:"pay_before"`
}

// state is an order's status, a word. A problem has a number in the same field, the HTTP status, which is ignored.
type state string

func (s *state) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(s))
	}
	return nil
}

// reply is a response.
type reply struct {
	answer
	code       int
	retryAfter time.Duration // 0 = none
}

// public calls the public API of one process for buyers. Safe for concurrent use.
type public struct {
	rt     http.RoundTripper
	base   string
	orders *url.URL // POST here
	wait   time.Duration
	skew   time.Duration
}

func newPublic(base, sale string, rt http.RoundTripper, wait, skew time.Duration) (*public, error) {
	base = strings.TrimSuffix(base, "/")
	u, err := url.Parse(base + "/v1/sales/" + url.PathEscape(sale) + "/orders")
	if err != nil {
		return nil, fmt.Errorf("%w --target: %w", ErrOption, err)
	}
	return &public{rt: rt, base: base, orders: u, wait: wait, skew: skew}, nil
}

// order places an order. hangUp of 0 or more cuts the connection that long after the request was sent.
func (p *public) order(ctx context.Context, buyer, key, item string, quantity int, hangUp time.Duration) (reply, error) {
	body, err := json.Marshal(struct {
		Item     string `json:"item"`
		Quantity int    `json:"quantity"`
	}{item, quantity})
	if err != nil {
		return reply{}, fmt.Errorf("rehearse: encode order: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	if hangUp >= 0 {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { time.AfterFunc(hangUp, cancel) },
		})
	}
	req := &http.Request{
		Method: http.MethodPost, URL: p.orders, Host: p.orders.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	p.introduce(req, buyer)
	if key != "" {
		req.Header["Idempotency-Key"] = []string{key}
	}
	return send(p.rt, req.WithContext(ctx))
}

// cancel cancels an order.
func (p *public) cancel(ctx context.Context, buyer, id string) (reply, error) {
	ctx, done := context.WithTimeout(ctx, p.wait)
	defer done()
	return p.ask(ctx, http.MethodPost, "/v1/orders/"+url.PathEscape(id)+"/cancel", buyer)
}

// status reads an order; the server waits up to hold for its status to differ from while.
func (p *public) status(ctx context.Context, buyer, id, while string, hold time.Duration) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, hold+p.wait)
	defer cancel()
	return p.ask(ctx, http.MethodGet, "/v1/orders/"+url.PathEscape(id)+"?while="+while+"&wait_ms="+strconv.FormatInt(hold.Milliseconds(), 10), buyer)
}

func (p *public) ask(ctx context.Context, method, path, buyer string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, http.NoBody)
	if err != nil {
		return reply{}, fmt.Errorf("rehearse: %w", err)
	}
	p.introduce(req, buyer)
	return send(p.rt, req)
}

// introduce sets the buyer, and the buyer's clock if it is skewed.
func (p *public) introduce(req *http.Request, buyer string) {
	req.Header["X-User-Id"] = []string{buyer}
	req.Header["X-User-Tier"] = []string{"registered"}
	if p.skew != 0 {
		req.Header["Date"] = []string{time.Now().Add(p.skew).UTC().Format(http.TimeFormat)}
	}
}

func send(rt http.RoundTripper, req *http.Request) (reply, error) {
	res, err := rt.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	r := reply{code: res.StatusCode, retryAfter: retryAfter(res.Header)}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return reply{}, err // a partial response counts as none
	}
	if len(body) > 0 && body[0] == '{' {
		if err := json.Unmarshal(body, &r.answer); err != nil {
			return r, fmt.Errorf("%w: %w", errMalformed, err)
		}
	}
	return r, nil
}

var errMalformed = errors.New("rehearse: malformed answer")

// retryAfter parses whole seconds; the API sends no dates.
func retryAfter(h http.Header) time.Duration {
	s, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || s < 0 {
		return 0
	}
	return time.Duration(s) * time.Second
}

// outcomeOf returns what a buyer may conclude; proper says whether the response reports success. Only a 4xx is a refusal: every
// other response that is not proper leaves the outcome open.
func outcomeOf(r reply, err error, hungUp, proper bool) (o Outcome, reason, detail string) {
	var timeout net.Error
	switch {
	case errors.Is(err, errMalformed):
		return Lost, "malformed", err.Error()
	case err != nil && hungUp:
		return Lost, "hung_up", ""
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return Lost, "timeout", ""
	case err != nil:
		return Lost, "connection", err.Error()
	case proper:
		return Admitted, "", ""
	case r.code >= 400 && r.code < 500:
		return Refused, cmp.Or(r.Reason, "http_"+strconv.Itoa(r.code)), ""
	case r.code >= 500:
		return Lost, cmp.Or(r.Reason, "http_"+strconv.Itoa(r.code)), ""
	}
	return Lost, "malformed", fmt.Sprintf("%d with order id %q and status %q", r.code, r.OrderID, r.Status)
}

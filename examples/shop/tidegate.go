package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// A tidegate is a client of Tidegate. Calls for buyers go to the public listener, which shows a buyer only the buyer's own orders.
// Payments go to the internal listener, which requires a token.
type tidegate struct {
	public, internal, token string
	client                  *http.Client
}

func newTidegate(public, internal, token string) *tidegate {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100 // the default of 2 would open a connection for nearly every order
	// Longer than the long poll for an order, see wait.
	return &tidegate{public, internal, token, &http.Client{Transport: transport, Timeout: wait + 5*time.Second}}
}

// A buyer is the user signed in to this shop, and the address of the browser. Tidegate counts both.
type buyer struct {
	user string
	ip   netip.Addr
}

// An order is Tidegate's representation of an order.
type order struct {
	ID        string     `json:"order_id"`
	Status    string     `json:"status"` // accepted, confirmed, paid, cancelled, expired or rejected
	Quantity  int        `json:"quantity"`
	Units     []int      `json:"units"`
	PayBefore *time.Time `json:"pay_before"`
}

// A sale is Tidegate's representation of a sale.
type sale struct {
	State string `json:"state"` // scheduled, open, paused, recovering, ended or closed
	Items []struct {
		Item        string `json:"item"`
		Stock, Free int
	} `json:"items"`
}

// A problem is an error response of Tidegate. Reason is one word of a closed set, see /docs.
type problem struct {
	Status        int
	Reason, Title string
	RetryAfter    string // seconds; empty if unknown
}

func (p *problem) Error() string { return fmt.Sprintf("tidegate: %d %s", p.Status, p.Reason) }

// errUnanswered means that the outcome is unknown. A retry with the same key does not repeat the operation.
var errUnanswered = errors.New("tidegate: no answer")

func (t *tidegate) sale(ctx context.Context, b buyer, name string) (s sale, err error) {
	err = t.call(ctx, b, "GET", t.public+"/v1/sales/"+url.PathEscape(name), "", nil, &s)
	return s, err
}

// putOnSale opens a sale of stock units of one item for a month from now, one per buyer, who has 15 minutes to pay. It needs the role
// operator.
func (t *tidegate) putOnSale(ctx context.Context, name, item string, stock int) error {
	at, now := t.internal+"/v1/sales/"+url.PathEscape(name), time.Now().UTC() // it starts a minute ago, because clocks may differ
	err := t.call(ctx, buyer{}, "PUT", at, "", map[string]any{
		"starts_at": now.Add(-time.Minute), "ends_at": now.AddDate(0, 1, 0), "hold_ms": (15 * time.Minute).Milliseconds(),
		"items": []any{map[string]any{"item": item, "stock": stock, "quota_per_buyer": 1}},
	}, nil)
	if err != nil {
		return err
	}
	return t.call(ctx, buyer{}, "POST", at+"/open", "", nil, nil)
}

// orders returns the buyer's orders in a sale.
func (t *tidegate) orders(ctx context.Context, b buyer, sale string) ([]order, error) {
	var list struct{ Items []order }
	err := t.call(ctx, b, "GET", t.public+"/v1/sales/"+url.PathEscape(sale)+"/orders", "", nil, &list)
	return list.Items, err
}

// place orders one unit. Calls with the same key place only one order. It retries once after a lost answer.
func (t *tidegate) place(ctx context.Context, b buyer, sale, item, key string) (o order, err error) {
	at, body := t.public+"/v1/sales/"+url.PathEscape(sale)+"/orders", map[string]any{"item": item, "quantity": 1}
	if err = t.call(ctx, b, "POST", at, key, body, &o); errors.Is(err, errUnanswered) {
		err = t.call(ctx, b, "POST", at, key, body, &o)
	}
	return o, err
}

// wait is the maximum duration of a long poll for an order.
const wait = 10 * time.Second

// order returns an order of the buyer: at once, or with changed when its status is no longer accepted.
func (t *tidegate) order(ctx context.Context, b buyer, id string, changed bool) (o order, err error) {
	at := t.public + "/v1/orders/" + url.PathEscape(id)
	if changed {
		at += fmt.Sprintf("?while=accepted&wait_ms=%d", wait.Milliseconds())
	}
	err = t.call(ctx, b, "GET", at, "", nil, &o)
	return o, err
}

func (t *tidegate) cancel(ctx context.Context, b buyer, id string) error {
	return t.call(ctx, b, "POST", t.public+"/v1/orders/"+url.PathEscape(id)+"/cancel", "", nil, nil)
}

// paid reports a payment captured by the provider for an order. Reporting the same reference again is harmless. refund means that the
// money must be returned: the order was cancelled, has expired, or has already been paid.
func (t *tidegate) paid(ctx context.Context, id, reference string) (refund bool, err error) {
	var answer struct{ Action string }
	err = t.call(ctx, buyer{}, "POST", t.internal+"/v1/orders/"+url.PathEscape(id)+"/payment", "",
		map[string]any{"reference": reference, "outcome": "captured"}, &answer)
	return answer.Action == "refund", err
}

// call sends in as JSON, unless it is nil, and decodes the answer into out.
func (t *tidegate) call(ctx context.Context, b buyer, method, at, key string, in, out any) error {
	var body []byte
	if in != nil {
		body, _ = json.Marshal(in) // strings, numbers and times: cannot fail
	}
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if b.user != "" { // Tidegate accepts these only from TRUSTED_PROXIES, which must contain this shop's address
		req.Header.Set("X-User-ID", b.user)
		req.Header.Set("X-Forwarded-For", b.ip.String())
	} else if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnanswered, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errUnanswered, err)
	case resp.StatusCode >= 300:
		p := &problem{Status: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After")}
		_ = json.Unmarshal(answer, p) // on error the status remains
		return p
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}

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

// A tidegate is a client of Tidegate. Buyers' calls go to the public listener, which shows a buyer nothing but his own orders. Payments go to
// the internal listener, which asks for a token.
type tidegate struct {
	public, internal, token string
	client                  *http.Client
}

func newTidegate(public, internal, token string) *tidegate {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100 // the default of 2 would open a connection for nearly every order
	// Longer than an order is waited for, see wait.
	return &tidegate{public, internal, token, &http.Client{Transport: transport, Timeout: wait + 5*time.Second}}
}

// A buyer is who wants something: the user that this shop has signed in, at the address of his browser. Tidegate counts both.
type buyer struct {
	user string
	ip   netip.Addr
}

// An order is what Tidegate answers about one.
type order struct {
	ID        string     `json:"order_id"`
	Status    string     `json:"status"` // accepted, confirmed, paid, cancelled, expired or rejected
	Quantity  int        `json:"quantity"`
	Units     []int      `json:"units"`
	PayBefore *time.Time `json:"pay_before"`
}

// A sale is what is on sale.
type sale struct {
	State string `json:"state"` // scheduled, open, paused, recovering, ended or closed
	Items []struct {
		Item        string `json:"item"`
		Stock, Free int
	} `json:"items"`
}

// A problem is why Tidegate did not do something. Reason is one word of a closed list, see /docs.
type problem struct {
	Status        int
	Reason, Title string
	RetryAfter    string // seconds; empty if nobody knows
}

func (p *problem) Error() string { return fmt.Sprintf("tidegate: %d %s", p.Status, p.Reason) }

// errUnanswered says that nobody knows whether it was done. The same key asks again without doing it twice.
var errUnanswered = errors.New("tidegate: no answer")

func (t *tidegate) sale(ctx context.Context, b buyer, name string) (s sale, err error) {
	err = t.call(ctx, b, "GET", t.public+"/v1/sales/"+url.PathEscape(name), "", nil, &s)
	return s, err
}

// putOnSale opens a sale of so many units of one item, from now on for a month, one to a buyer, who has 15 minutes to pay. It needs the role operator.
func (t *tidegate) putOnSale(ctx context.Context, name, item string, stock int) error {
	at, now := t.internal+"/v1/sales/"+url.PathEscape(name), time.Now().UTC()
	err := t.call(ctx, buyer{}, "PUT", at, "", map[string]any{
		"starts_at": now, "ends_at": now.AddDate(0, 1, 0), "hold_ms": (15 * time.Minute).Milliseconds(),
		"items": []any{map[string]any{"item": item, "stock": stock, "quota_per_buyer": 1}},
	}, nil)
	if err != nil {
		return err
	}
	return t.call(ctx, buyer{}, "POST", at+"/open", "", nil, nil)
}

// orders are those of the buyer in a sale.
func (t *tidegate) orders(ctx context.Context, b buyer, sale string) ([]order, error) {
	var list struct{ Items []order }
	err := t.call(ctx, b, "GET", t.public+"/v1/sales/"+url.PathEscape(sale)+"/orders", "", nil, &list)
	return list.Items, err
}

// place orders one unit. However often it is called with the same key, there is one order; an answer that was lost is asked for once more.
func (t *tidegate) place(ctx context.Context, b buyer, sale, item, key string) (o order, err error) {
	at, body := t.public+"/v1/sales/"+url.PathEscape(sale)+"/orders", map[string]any{"item": item, "quantity": 1}
	if err = t.call(ctx, b, "POST", at, key, body, &o); errors.Is(err, errUnanswered) {
		err = t.call(ctx, b, "POST", at, key, body, &o)
	}
	return o, err
}

// wait is how long Tidegate waits for an order to change before it answers.
const wait = 10 * time.Second

// order returns an order of the buyer: at once, or when it is no longer only accepted.
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

// paid reports what the payment provider has captured for an order. The same reference may be reported again. refund says that the money has to
// go back: the order was cancelled, has expired, or is paid already.
func (t *tidegate) paid(ctx context.Context, id, reference string) (refund bool, err error) {
	var answer struct{ Action string }
	err = t.call(ctx, buyer{}, "POST", t.internal+"/v1/orders/"+url.PathEscape(id)+"/payment", "",
		map[string]any{"reference": reference, "outcome": "captured"}, &answer)
	return answer.Action == "refund", err
}

// call sends in as JSON, unless that is nil, and reads the answer into out.
func (t *tidegate) call(ctx context.Context, b buyer, method, at, key string, in, out any) error {
	var body []byte
	if in != nil {
		body, _ = json.Marshal(in) // of texts, numbers and times: it cannot fail
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
	if b.user != "" { // Tidegate believes these from TRUSTED_PROXIES only, so this shop's address has to be there
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
		_ = json.Unmarshal(answer, p) // whatever it is, there is the status
		return p
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}

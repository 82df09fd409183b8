package rehearse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/apiclient"
)

// Statuses of an order.
const (
	accepted  = "accepted"
	confirmed = "confirmed"
	paid      = "paid"
	cancelled = "cancelled"
	expired   = "expired"
	rejected  = "rejected"
)

// Order is one order in the internal list.
type Order struct {
	OrderID     string    `json:"order_id"`
	Status      string    `json:"status"`
	Item        string    `json:"item"`
	Buyer       string    `json:"user"` // "" = anonymous
	Quantity    int       `json:"quantity"`
	Units       []int     `json:"units"`
	Reason      string    `json:"reason"`
	AcceptedAt  time.Time `json:"accepted_at"`
	ConfirmedAt time.Time `json:"confirmed_at"`
	PayBefore   time.Time `json:"pay_before"` // zero = no time to pay
}

// holds reports whether the order owns units.
func (o *Order) holds() bool { return holds(o.Status) }

// of reports whether the order belongs to the crowd with this prefix, or must belong to it because nobody else could order.
func (o *Order) of(prefix string, sale Sale) bool {
	return sale.Fresh || strings.HasPrefix(o.Buyer, prefix)
}

// Sale is what the judge needs to know of the sale.
type Sale struct {
	Sale     string    `json:"sale"`
	State    string    `json:"state"`
	StartsAt time.Time `json:"starts_at"`
	EndsAt   time.Time `json:"ends_at"`
	Now      time.Time `json:"now"` // the server's clock, when this was read
	Items    []Item    `json:"items"`
	Fresh    bool      `json:"-"` // created by this run, and used by this crowd only
}

// Item is one item of a sale.
type Item struct {
	Item  string `json:"item"`
	Stock int    `json:"stock"`
	Free  int    `json:"free"`
	Quota int    `json:"-"` // units per buyer; 0 = unknown
	Grown int    `json:"-"` // units of Stock that were added during the run
}

// internal calls the internal API. Safe for concurrent use.
type internal struct {
	client  apiclient.Client
	sale    string // path of the sale
	wait    time.Duration
	refused func(*http.Response, []byte) error // nil: the response is quoted
}

func newInternal(o Options, rt http.RoundTripper) *internal {
	return &internal{
		client: apiclient.Client{Transport: rt, Base: o.InternalURL, Token: o.Token},
		sale:   "/v1/sales/" + url.PathEscape(o.Sale), wait: o.RequestTimeout, refused: o.Refused,
	}
}

func (i *internal) create(ctx context.Context, o Options) (fresh bool, err error) {
	type item struct {
		Item  string `json:"item"`
		Stock int    `json:"stock"`
		Quota int    `json:"quota_per_buyer"`
	}
	now := time.Now().UTC().Truncate(time.Second)
	sale := struct {
		StartsAt time.Time `json:"starts_at"`
		EndsAt   time.Time `json:"ends_at"`
		HoldMs   int64     `json:"hold_ms"`
		Items    []item    `json:"items"`
	}{
		StartsAt: now.Add(-time.Minute), // a minute, because clocks may differ
		EndsAt:   now.Add(o.Duration + o.DrainTimeout + time.Hour), HoldMs: o.Hold.Milliseconds(),
	}
	for _, name := range o.Items {
		sale.Items = append(sale.Items, item{name, o.Stock, o.Quota})
	}
	// Check whether the sale exists before the PUT: after a repeated PUT the response would not show it.
	if code, err := i.doRetrying(ctx, http.MethodGet, i.sale, nil, nil); code == http.StatusNotFound {
		fresh = true
	} else if err != nil {
		return false, err
	}
	_, err = i.doRetrying(ctx, http.MethodPut, i.sale, sale, nil)
	if err == nil {
		if o.Opening != nil {
			o.Opening()
		}
		_, err = i.doRetrying(ctx, http.MethodPost, i.sale+"/open", nil, nil)
	}
	return fresh, err
}

func (i *internal) read(ctx context.Context) (s Sale, err error) {
	return s, i.get(ctx, i.sale, &s)
}

// doRetrying is do with retries while the API is unavailable.
func (i *internal) doRetrying(ctx context.Context, method, path string, in, out any) (code int, err error) {
	if !retry(ctx, time.Now(), patience, func() (done bool, pause time.Duration) {
		code, err = i.do(ctx, method, path, in, out)
		var late net.Error
		return code != http.StatusServiceUnavailable && !(errors.As(err, &late) && late.Timeout()), between
	}) {
		err = fmt.Errorf("%w, until: %w", err, context.Cause(ctx))
	}
	return code, err
}

// orders lists every order of the sale; never nil without an error.
func (i *internal) orders(ctx context.Context) ([]Order, error) {
	return list[Order](ctx, i, i.sale+"/orders")
}

// quotas reads the quota per buyer of each item.
func (i *internal) quotas(ctx context.Context, sale string) (map[string]int, error) {
	type definition struct {
		Sale  string `json:"sale"`
		Items []struct {
			Item  string `json:"item"`
			Quota int    `json:"quota_per_buyer"`
		} `json:"items"`
	}
	all, err := list[definition](ctx, i, "/v1/sales")
	quotas := map[string]int{}
	for _, s := range all {
		if s.Sale != sale {
			continue
		}
		for _, it := range s.Items {
			quotas[it.Item] = it.Quota
		}
	}
	return quotas, err
}

// list reads all pages of a list; never nil without an error.
func list[T any](ctx context.Context, i *internal, path string) ([]T, error) {
	all, cursor := []T{}, ""
	for {
		var page struct {
			Items      []T    `json:"items"`
			NextCursor string `json:"next_cursor"`
		}
		at := path + "?limit=1000"
		if cursor != "" {
			at += "&cursor=" + url.QueryEscape(cursor)
		}
		if err := i.get(ctx, at, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.NextCursor == "" {
			return all, nil
		}
		if page.NextCursor == cursor {
			return nil, fmt.Errorf("%w: GET %s: cursor %q repeats", errAPI, path, cursor)
		}
		cursor = page.NextCursor
	}
}

func (i *internal) verify(ctx context.Context) (*Verification, error) {
	var v Verification
	if err := i.get(ctx, i.sale+"/verify", &v); err != nil {
		return nil, err
	}
	return &v, nil
}

func (i *internal) get(ctx context.Context, path string, out any) error {
	_, err := i.do(ctx, http.MethodGet, path, nil, out)
	return err
}

func (i *internal) do(ctx context.Context, method, path string, in, out any) (int, error) {
	ctx, done := context.WithTimeout(ctx, i.wait)
	defer done()
	r, err := i.client.Do(ctx, method, path, nil, in)
	switch {
	case r.Response == nil:
		return 0, fmt.Errorf("%w: %s %s: %w", errAPI, method, path, err)
	case r.StatusCode/100 != 2 && i.refused != nil: // even a partial body helps
		return r.StatusCode, fmt.Errorf("%w: %w", errAPI, i.refused(r.Response, r.Body))
	case r.StatusCode/100 != 2:
		return r.StatusCode, fmt.Errorf("%w: %s %s: %s: %s", errAPI, method, path, r.Status, bytes.TrimSpace(r.Body[:min(512, len(r.Body))]))
	case out == nil:
		return r.StatusCode, nil
	case err == nil:
		err = json.Unmarshal(r.Body, out)
	}
	if err != nil {
		err = fmt.Errorf("%w: %s %s: %w", errAPI, method, path, err)
	}
	return r.StatusCode, err
}

// capture records a payment that was captured.
func (i *internal) capture(ctx context.Context, order, reference string) (reply, error) {
	ctx, done := context.WithTimeout(ctx, i.wait)
	defer done()
	return replyOf(i.client.Do(ctx, http.MethodPost, "/v1/orders/"+url.PathEscape(order)+"/payment", nil, struct {
		Reference string `json:"reference"`
		Outcome   string `json:"outcome"`
	}{reference, "captured"}))
}

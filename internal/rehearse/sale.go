package rehearse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/judge"
)

// internal calls the internal API. Safe for concurrent use.
type internal struct {
	client apiclient.Client
	sale   string // path of the sale
}

func newInternal(o Options, rt http.RoundTripper) *internal {
	return &internal{
		client: apiclient.Client{Transport: rt, Base: o.InternalURL, Token: o.Token, Timeout: o.RequestTimeout},
		sale:   apiclient.Path("v1", "sales", o.Sale),
	}
}

func (i *internal) create(ctx context.Context, o Options) (fresh bool, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	sale := sales.SaleDefinition{
		StartsAt: now.Add(-time.Minute), // a minute, because clocks may differ
		EndsAt:   now.Add(o.Duration + o.DrainTimeout + time.Hour), HoldMS: new(o.Hold.Milliseconds()),
	}
	for _, name := range o.Items {
		sale.Items = append(sale.Items, sales.ItemDefinition{
			Item:         name,
			ItemSettings: sales.ItemSettings{Stock: o.Stock, QuotaPerBuyer: o.Quota},
		})
	}
	// Check whether the sale exists before the PUT: after a repeated PUT the response would not show it.
	if _, err := askRetrying[judge.Sale](ctx, i, http.MethodGet, i.sale, nil); apiclient.HasStatus(err, http.StatusNotFound) {
		fresh = true
	} else if err != nil {
		return false, err
	}
	_, err = askRetrying[judge.Sale](ctx, i, http.MethodPut, i.sale, sale)
	if err == nil {
		if o.Opening != nil {
			o.Opening()
		}
		_, err = askRetrying[judge.Sale](ctx, i, http.MethodPost, i.sale+"/open", nil)
	}
	return fresh, err
}

func (i *internal) read(ctx context.Context) (judge.Sale, error) {
	return ask[judge.Sale](ctx, i, http.MethodGet, i.sale, nil)
}

// ask makes a call.
func ask[T any](ctx context.Context, i *internal, method, path string, in any) (T, error) {
	out, err := apiclient.Call[T](ctx, &i.client, method, path, in)
	if err != nil {
		err = fmt.Errorf("%w: %w", errAPI, err)
	}
	return out, err
}

// askRetrying is ask with retries while the API is unavailable.
func askRetrying[T any](ctx context.Context, i *internal, method, path string, in any) (out T, err error) {
	if !retry(ctx, time.Now(), startTimeout, func() (done bool, pause time.Duration) {
		out, err = ask[T](ctx, i, method, path, in)
		var late net.Error
		return !apiclient.HasStatus(err, http.StatusServiceUnavailable) && !(errors.As(err, &late) && late.Timeout()), between
	}) {
		err = fmt.Errorf("%w, until: %w", err, context.Cause(ctx))
	}
	return out, err
}

// orders lists every order of the sale; never nil without an error.
func (i *internal) orders(ctx context.Context) ([]judge.Order, error) {
	return list[judge.Order](ctx, i, i.sale+"/orders")
}

// quotas reads the quota per buyer of each item.
func (i *internal) quotas(ctx context.Context, sale string) (map[string]int, error) {
	all, err := list[sales.OperatorSale](ctx, i, "/v1/sales")
	quotas := map[string]int{}
	for _, s := range all {
		if s.Sale != sale {
			continue
		}
		for _, it := range s.Items {
			quotas[it.Item] = it.QuotaPerBuyer
		}
	}
	return quotas, err
}

// list reads all pages of a list; never nil without an error.
func list[T any](ctx context.Context, i *internal, path string) ([]T, error) {
	all := []T{}
	err := apiclient.Each(ctx, &i.client, path, nil, func(item *T) error {
		all = append(all, *item)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAPI, err)
	}
	return all, nil
}

func (i *internal) verify(ctx context.Context) (*judge.Verification, error) {
	v, err := ask[judge.Verification](ctx, i, http.MethodGet, i.sale+"/verify", nil)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// capture records a payment that was captured.
func (i *internal) capture(ctx context.Context, order, reference string) (reply, error) {
	return replyOf(i.client.Do(ctx, http.MethodPost, apiclient.Path("v1", "orders", order, "payment"), nil,
		sales.Capture{Reference: reference, Outcome: "captured"}))
}

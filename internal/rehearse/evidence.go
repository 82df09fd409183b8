package rehearse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
)

// maxUnbalancedReads is how often the units must not add up before that counts.
const maxUnbalancedReads = 10

// feedLag is how long the feed may lag behind the list: it holds back events that a running transaction may still precede, even
// one in another database, for example while a database is being created on a busy disk.
const feedLag = 30 * time.Second

// between is the pause between two reads of the server.
const between = 250 * time.Millisecond

// collect reads the server until everything has settled or the deadline has passed: every order has ended, or has no time to
// pay, or one beyond the deadline, and the queues are empty. Verify comes first: once its queues are empty, the list is
// complete. The feed comes last, so that it contains at least what the list does. Requests that fail are retried until a little
// after the deadline, so that a single 503 does not end the collection.
func collect(
	ctx context.Context, api *internal, o Options, h *judge.History, fresh bool, deadline time.Time,
) (e judge.Evidence, err error) {
	e = judge.Evidence{Limit: o.Limit, Window: o.Window, Faults: o.Faults}
	grace := min(feedLag, o.DrainTimeout)
	var verifyErr, saleErr, listErr error
	for looks := 1; ; {
		e.Verify, verifyErr = api.verify(ctx)
		late := time.Now().After(deadline)
		if !late && !(verifyErr == nil && e.Verify.Settled()) && periodic.Pause(ctx, between) {
			continue
		}
		e.Sale, saleErr = api.read(ctx)
		e.Orders, listErr = api.orders(ctx)
		e.Sale.Fresh = fresh
		wait := unsettled(&e, h.Prefix, deadline)
		if late {
			wait = 0
		}
		switch {
		case verifyErr != nil || saleErr != nil || listErr != nil:
			if time.Now().Before(deadline.Add(grace)) {
				wait = max(wait, between)
			}
		case wait == 0 && !e.Balanced() && looks < maxUnbalancedReads: // units moved between the two reads
			looks++
			wait = between
		}
		if wait == 0 || !periodic.Pause(ctx, wait) {
			break
		}
	}
	var (
		quotas            map[string]int
		quotaErr, feedErr error
	)
	retry(ctx, deadline, grace, func() (done bool, pause time.Duration) {
		quotas, quotaErr = api.quotas(ctx, o.Sale)
		return quotaErr == nil, between
	})
	for i, it := range e.Sale.Items {
		if e.Sale.Items[i].Quota = o.Quota; o.Quota == 0 {
			e.Sale.Items[i].Quota = quotas[it.Item]
		}
	}
	for over := time.Now().Add(grace); ; {
		retry(ctx, deadline, grace, func() (done bool, pause time.Duration) {
			e.Events, feedErr = api.events(ctx, o.Sale, e.Events)
			return feedErr == nil, between
		})
		if e.Events == nil || e.FeedComplete(h) || time.Now().After(over) || !periodic.Pause(ctx, between) {
			break
		}
	}
	if listErr == nil && saleErr != nil {
		e.Orders = nil // without the sale the list cannot be judged
	}
	return e, errors.Join(verifyErr, saleErr, listErr, quotaErr, feedErr)
}

// unsettled returns how long to wait before some order of the crowd should have ended; 0 = there is none to wait for.
func unsettled(e *judge.Evidence, prefix string, deadline time.Time) (wait time.Duration) {
	for i := range e.Orders {
		switch o := &e.Orders[i]; {
		case !o.Of(prefix, e.Sale):
		case o.Status == orders.StatusAccepted:
			wait = max(wait, between)
		case o.Status == orders.StatusConfirmed && !o.PayBefore.IsZero() && o.PayBefore.Before(deadline):
			wait = max(wait, between, time.Until(o.PayBefore))
		}
	}
	return wait
}

// events reads the feed from the last known event on and keeps the sale's events; nil without an error from a server that has
// no feed.
func (i *internal) events(ctx context.Context, sale string, known []judge.Event) ([]judge.Event, error) {
	if known == nil {
		known = []judge.Event{}
	}
	after := int64(0)
	if len(known) > 0 {
		after = known[len(known)-1].Seq
	}
	for {
		path := "/v1/order-events?limit=1000&after=" + strconv.FormatInt(after, 10)
		page, err := ask[response.Page[judge.Event]](ctx, i, http.MethodGet, path, nil)
		if apiclient.HasStatus(err, http.StatusNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if len(page.Items) == 0 {
			return known, nil
		}
		last := page.Items[len(page.Items)-1].Seq
		if last <= after {
			return nil, fmt.Errorf("%w: GET /v1/order-events: after %d comes %d", errAPI, after, last)
		}
		after = last
		known = append(known, slices.DeleteFunc(page.Items, func(e judge.Event) bool { return e.Sale != sale })...)
	}
}

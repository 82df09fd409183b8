package rehearseroom

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

const item = "ticket"

// Run makes a sale and a room, sends the crowd, and judges. The error is rehearse.ErrOption or of the set-up; whatever a visitor met is in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 512, MaxIdleConnsPerHost: 512}, Timeout: o.RequestTimeout}
	defer client.CloseIdleConnections()
	operator := &caller{client, o.InternalURL, o.Token}
	setup, done := context.WithTimeout(ctx, o.Timeout)
	defer done()
	starts, err := prepare(setup, operator, o)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithDeadline(ctx, starts.Add(o.Timeout))
	defer cancel()
	crowd := newCrowd(o)
	var before roomView
	public := &caller{client: client, base: o.PublicURLs[0]}
	if _, err := public.call(within, http.MethodGet, "/v1/rooms/"+o.Room, nil, nil, &before); err != nil {
		return nil, err
	}
	began := time.Now()
	var wg sync.WaitGroup
	for i, v := range crowd {
		api := &caller{client: client, base: o.PublicURLs[i%len(o.PublicURLs)]}
		wg.Go(func() {
			from := began
			if v.late {
				from = starts
			}
			if periodic.Pause(within, time.Until(from.Add(v.delay))) {
				v.err = v.visit(within, api, o, starts)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("rehearse: %w", context.Cause(ctx))
	}
	r := &Report{Room: o.Room, Sale: o.Sale, Visitors: len(crowd), Stock: o.Stock, Took: time.Since(began)}
	asking, enough := context.WithTimeout(ctx, 30*time.Second)
	defer enough()
	c, err := newCourt(asking, r, o, crowd, public, operator, &before)
	if err != nil {
		return nil, err
	}
	c.judge()
	return r, nil
}

// newCrowd returns the visitors of a seed.
func newCrowd(o Options) []*visitor {
	random := rand.New(rand.NewPCG(o.Seed, 1))
	crowd := make([]*visitor, max(o.Visitors, 0))
	for i := range crowd {
		v := &visitor{
			user: fmt.Sprintf("%s-visitor-%d", o.Room, i), numbers: make(map[int64]bool), late: random.Float64() < o.Late,
			silent: random.Float64() < o.Silent, second: random.Float64() < o.Devices, sniper: random.Float64() < o.Snipers,
			reloads: random.Float64() < o.Reloads, hangsUp: random.Float64() < o.HangUps, bot: random.Float64() < o.Bots,
		}
		v.delay = time.Duration(random.Float64() * 0.8 * float64(o.Gather))
		switch {
		case v.bot:
			v.late, v.delay = false, 0
		case v.late:
			v.delay = time.Duration(random.Float64() * float64(time.Second))
		}
		crowd[i] = v
	}
	return crowd
}

// prepare makes the sale, opens it, and makes the room. It returns the start.
func prepare(ctx context.Context, operator *caller, o Options) (time.Time, error) {
	now := time.Now()
	send := func(method, path string, body any) error {
		var problem struct {
			Title, Detail string
		}
		status, err := operator.call(ctx, method, path, nil, body, &problem)
		if err == nil && status >= 300 {
			err = fmt.Errorf("rehearse: %s %s: status %d: %s %s", method, path, status, problem.Title, problem.Detail)
		}
		return err
	}
	if err := send(http.MethodPut, "/v1/sales/"+o.Sale, map[string]any{
		"starts_at": now.Add(-time.Minute), "ends_at": now.Add(time.Hour), "hold_ms": 0,
		"items": []map[string]any{{"item": item, "stock": o.Stock, "quota_per_buyer": 2, "final": true}},
	}); err != nil {
		return now, err
	}
	starts := time.Now().Add(o.Gather)
	if err := send(http.MethodPut, "/v1/rooms/"+o.Room, map[string]any{
		"sale": o.Sale, "item": item, "mode": "draw", "gather_at": now.Add(-time.Second), "starts_at": starts,
		"claim_ms": o.Claim.Milliseconds(), "pass_ms": o.Pass.Milliseconds(), "bound": "strict",
	}); err != nil {
		return now, err
	}
	return starts, send(http.MethodPost, "/v1/sales/"+o.Sale+"/open", nil)
}

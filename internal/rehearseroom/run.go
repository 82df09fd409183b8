package rehearseroom

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/waitingroom"
)

const item = "ticket"

// Run makes a sale and a room, sends the crowd, and judges. The error is rehearse.ErrOption or of the set-up; whatever a visitor
// met is in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	transport := &http.Transport{MaxConnsPerHost: 512, MaxIdleConnsPerHost: 512}
	defer transport.CloseIdleConnections()
	operator := &caller{apis: []apiclient.Client{{Transport: transport, Base: o.InternalURL, Token: o.Token, Timeout: o.RequestTimeout}}}
	var apis []apiclient.Client
	for _, base := range o.PublicURLs {
		apis = append(apis, apiclient.Client{Transport: transport, Base: base, Timeout: o.RequestTimeout})
	}
	public := &caller{apis: apis}
	setup, done := context.WithTimeout(ctx, o.Timeout)
	defer done()
	start, err := prepare(setup, operator, o)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, o.Gather+o.Timeout)
	defer cancel()
	crowd := newCrowd(o)
	var before rooms.RoomView
	if _, err := public.call(within, http.MethodGet, "/v1/rooms/"+o.Room, nil, nil, &before); err != nil {
		return nil, err
	}
	began := time.Now()
	var wg sync.WaitGroup
	for i, v := range crowd {
		api := &caller{apis: apis} // as behind a balancer that sends a visitor to any API
		api.turn.Store(uint64(i))
		joined := func() {}
		if !v.late {
			start.missing.Add(1)
			joined = sync.OnceFunc(start.missing.Done)
		}
		wg.Go(func() {
			defer joined()
			from := began
			if v.late {
				<-start.settled
				from = start.time()
			}
			if periodic.Pause(within, time.Until(from.Add(v.delay))) {
				v.err = v.visit(within, api, o, start, joined)
			}
		})
	}
	wg.Go(func() { start.settle(within, operator, o) })
	wg.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("rehearse: %w", context.Cause(ctx))
	}
	r := &Report{Room: o.Room, Sale: o.Sale, Visitors: len(crowd), Stock: o.Stock, Took: time.Since(began)}
	asking, enough := context.WithTimeout(ctx, 30*time.Second)
	defer enough()
	c, err := newEvidence(asking, r, o, crowd, public, operator, &before)
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

// prepare makes the sale, opens it, and makes the room.
func prepare(ctx context.Context, operator *caller, o Options) (*roomStart, error) {
	now := time.Now()
	if err := operator.change(ctx, http.MethodPut, "/v1/sales/"+o.Sale, sales.SaleDefinition{
		StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour), HoldMS: new(int64(0)),
		Items: []sales.ItemDefinition{{Item: item, ItemSettings: sales.ItemSettings{Stock: o.Stock, QuotaPerBuyer: 2, Final: true}}},
	}); err != nil {
		return nil, err
	}
	if err := operator.change(ctx, http.MethodPost, "/v1/sales/"+o.Sale+"/open", nil); err != nil {
		return nil, err
	}
	s := &roomStart{gathers: now.Add(-time.Minute), settled: make(chan struct{})}
	return s, s.move(ctx, operator, o, time.Now().Add(o.Gather))
}

// roomStart is when the room starts. It is put off until all who shall be there have joined, because a server may need longer
// than o.Gather for them, and an empty draw shows nothing.
type roomStart struct {
	gathers time.Time
	at      atomic.Pointer[time.Time] // turns are not given before
	missing sync.WaitGroup            // those who have not joined
	settled chan struct{}             // closed when the start will not be put off any more
}

func (s *roomStart) time() time.Time { return *s.at.Load() }

// move makes the room, or changes its start.
func (s *roomStart) move(ctx context.Context, operator *caller, o Options, to time.Time) error {
	if err := operator.change(ctx, http.MethodPut, "/v1/rooms/"+o.Room, rooms.RoomDefinition{
		Sale: o.Sale, Item: item, Mode: waitingroom.ModeDraw, GatherAt: &s.gathers, StartsAt: to,
		ClaimMS: o.Claim.Milliseconds(), PassMS: o.Pass.Milliseconds(), Bound: waitingroom.BoundStrict,
	}); err != nil {
		return err
	}
	s.at.Store(&to)
	return nil
}

// settle puts the start off shortly before it, as long as somebody is missing, for half of o.Timeout.
func (s *roomStart) settle(ctx context.Context, operator *caller, o Options) {
	defer close(s.settled)
	joined := make(chan struct{})
	go func() {
		s.missing.Wait()
		close(joined)
	}()
	for end := time.Now().Add(o.Timeout / 2); time.Now().Before(end); {
		select {
		case <-joined:
			return
		case <-ctx.Done():
			return
		case <-time.After(time.Until(s.time()) - min(o.Gather/2, time.Second)): // a slow machine needs time for the change
		}
		if s.move(ctx, operator, o, s.time().Add(o.Gather/2)) != nil {
			return // it has started
		}
	}
}

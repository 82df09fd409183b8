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

// visitor is one of the crowd, and what it saw.
type visitor struct {
	user                         string
	late, silent, second, sniper bool
	delay                        time.Duration // from the beginning, or from the start if late

	numbers   map[int64]bool // that its devices were told
	positions []int64
	ahead     int64
	rose      int // times its position or the number ahead rose
	early     bool
	certain   bool
	claimed   bool
	inTime    bool // claimed before turn_until
	claimCode int
	ordered   bool
	twice     int // status of a second order
	sniped    int // status of an order without a turn
	final     string
	err       error
}

// Run makes a sale and a room, sends the crowd, and judges. The error is ErrOption or of the set-up; whatever a visitor met is in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 512, MaxIdleConnsPerHost: 512}, Timeout: o.RequestTimeout}
	defer client.CloseIdleConnections()
	operator := &caller{client, o.InternalURL, o.Token}
	setup, done := context.WithTimeout(ctx, 30*time.Second)
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
	err = r.judge(asking, o, crowd, public, operator, &before)
	return r, err
}

// newCrowd returns the visitors of a seed.
func newCrowd(o Options) []*visitor {
	random := rand.New(rand.NewPCG(o.Seed, 1))
	crowd := make([]*visitor, max(o.Visitors, 0))
	for i := range crowd {
		v := &visitor{
			user: fmt.Sprintf("%s-visitor-%d", o.Room, i), numbers: make(map[int64]bool), late: random.Float64() < o.Late,
			silent: random.Float64() < o.Silent, second: random.Float64() < o.Devices, sniper: random.Float64() < o.Snipers,
		}
		v.delay = time.Duration(random.Float64() * 0.8 * float64(o.Gather))
		if v.late {
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

func (v *visitor) header() map[string]string { return map[string]string{"X-User-ID": v.user} }

// visit joins, waits, claims and orders, and keeps what it saw.
func (v *visitor) visit(ctx context.Context, api *caller, o Options, starts time.Time) error {
	path := "/v1/rooms/" + o.Room + "/place"
	p, err := v.join(ctx, api, path)
	if err != nil {
		return err
	}
	if v.sniper {
		var refused place
		if v.sniped, err = v.order(ctx, api, o, "sniper", &refused); err != nil {
			return err
		}
	}
	header := v.header()
	for {
		v.note(&p, starts)
		switch p.State {
		case "turn":
			if !v.silent && !v.claimed {
				until := p.TurnUntil
				if v.claimCode, err = api.call(ctx, http.MethodPost, path+"/claim", header, nil, &p); err != nil {
					return err
				}
				v.claimed = v.claimCode == http.StatusOK
				v.inTime = v.claimed || time.Now().Before(until) // a claim that was answered later may have come too late
			}
		case "admitted":
			if v.ordered {
				break
			}
			var placed place
			code, err := v.order(ctx, api, o, "first", &placed)
			if err != nil {
				return err
			}
			v.ordered = code == http.StatusAccepted
			if v.twice, err = v.order(ctx, api, o, "second", &place{}); err != nil {
				return err
			}
		case "done", "lapsed", "left", "turned_away", "barred":
			v.final = p.State
			return nil
		}
		header["X-Place-Token"] = p.Token
		if !periodic.Pause(ctx, min(time.Duration(p.PollAfterMS)*time.Millisecond, time.Second)) {
			return fmt.Errorf("rehearse: still %s: %w", p.State, context.Cause(ctx))
		}
		p = place{}
		code, err := api.call(ctx, http.MethodGet, path, header, nil, &p)
		if err != nil {
			return err
		}
		if code != http.StatusOK {
			return fmt.Errorf("rehearse: GET %s: status %d %s", path, code, p.Reason)
		}
	}
}

// join joins, from two devices at once if the visitor has them.
func (v *visitor) join(ctx context.Context, api *caller, path string) (p place, err error) {
	devices := 1
	if v.second {
		devices = 2
	}
	places, errs := make([]place, devices), make([]error, devices)
	var wg sync.WaitGroup
	for i := range devices {
		wg.Go(func() {
			code, err := api.call(ctx, http.MethodPost, path, v.header(), map[string]any{}, &places[i])
			if err == nil && code != http.StatusOK && code != http.StatusCreated {
				err = fmt.Errorf("rehearse: POST %s: status %d %s", path, code, places[i].Reason)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for i := range devices {
		if errs[i] != nil {
			return p, errs[i]
		}
		v.numbers[places[i].Number] = true
	}
	return places[0], nil
}

func (v *visitor) order(ctx context.Context, api *caller, o Options, key string, into *place) (int, error) {
	header := v.header()
	header["Idempotency-Key"] = v.user + key
	return api.call(ctx, http.MethodPost, "/v1/sales/"+o.Sale+"/orders", header, map[string]any{"item": item}, into)
}

// note records what the visitor was told.
func (v *visitor) note(p *place, starts time.Time) {
	v.numbers[p.Number] = true
	if (p.State == "turn" || p.State == "admitted") && time.Now().Before(starts) {
		v.early = true
	}
	v.certain = v.certain || p.State == "waiting" && p.Outlook == "certain"
	if p.Position > 0 {
		if n := len(v.positions); n > 0 && (p.Position > v.positions[n-1] || p.State == "waiting" && p.Ahead > v.ahead) {
			v.rose++
		}
		v.ahead = p.Ahead
		v.positions = append(v.positions, p.Position)
	}
}

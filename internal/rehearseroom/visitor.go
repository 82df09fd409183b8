package rehearseroom

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/waitingroom"
)

// visitor is one of the crowd, and what it saw. All times are of the crowd's clock.
type visitor struct {
	user                                                string
	late, silent, second, sniper, reloads, hangsUp, bot bool
	delay                                               time.Duration // from the beginning, or from the start if late

	asked, joined time.Time      // when it asked for its place first, and had it
	numbers       map[int64]bool // that its devices received
	receipt       string
	positions     []int64
	ahead         int64
	rose          int // times its position or the number ahead rose
	early         bool
	certain       bool
	waited        time.Time // when it last asked and the answer was to wait
	turnUntil     time.Time // in the last answer
	lapsed        time.Time // when an answer first stated it
	claimed       bool
	inTime        bool // claimed before turn_until, and ordered before pass_until
	claimCode     int
	orderCode     int
	ordered       bool
	twice         int  // status of a second order
	sniped        int  // status of an order without a turn
	replaced      bool // by another place, after its turn lapsed
	missed        bool // the end of its place was the first that it saw after the draw, so it has not asked for its receipt
	final         string
	ended         time.Time // when it received the final state
	err           error
}

func (v *visitor) header() http.Header { return http.Header{"X-User-Id": {v.user}} }

// visit joins, waits, claims and orders, and keeps what it saw. It calls joined when it has a place.
func (v *visitor) visit(ctx context.Context, api *caller, o Options, start *roomStart, joined func()) error {
	path := "/v1/rooms/" + o.Room + "/place"
	planned := start.time()
	p, err := v.join(ctx, api, path)
	if err != nil {
		return err
	}
	joined()
	if v.sniper {
		if v.sniped, err = v.order(ctx, api, o, "sniper"); err != nil {
			return err
		}
	}
	header := v.header()
	late := v.receipt == "" && !v.joined.Before(planned) // it will be drawn nevertheless if the start is put off, or the clock set back
	for asked := v.asked; ; {
		v.note(&p, asked, start.time())
		if late && slices.Contains([]waitingroom.State{waitingroom.StateWaiting, waitingroom.StateTurn, waitingroom.StateTurnedAway}, p.State) {
			late = false
			lapses := asked.Add(o.Claim)
			if p.State == waitingroom.StateTurn {
				lapses = v.turnUntil
			}
			if err := v.joinAgain(ctx, api, path, lapses); err != nil || v.replaced {
				return err
			}
		}
		if err := v.act(ctx, api, o, path, header, &p); err != nil || v.final != "" {
			v.missed = late
			return err
		}
		if !v.reloads {
			header.Set("X-Place-Token", p.Token)
		}
		if !periodic.Pause(ctx, min(time.Duration(p.PollAfterMS)*time.Millisecond, o.longestPause())) {
			return fmt.Errorf("rehearse: still %s: %w", p.State, context.Cause(ctx))
		}
		p = place{}
		asked = time.Now()
		code, err := api.call(ctx, http.MethodGet, path, header, nil, &p)
		if err != nil {
			return err
		}
		if code != http.StatusOK {
			return fmt.Errorf("status %d %s to GET %s", code, p.Reason, path)
		}
	}
}

// act does what the state of its place asks of a visitor. It updates the place with a claim's answer, and sets v.final at the end.
func (v *visitor) act(ctx context.Context, api *caller, o Options, path string, header http.Header, p *place) (err error) {
	switch p.State {
	case "turn":
		if v.silent || v.claimed {
			return nil
		}
		if v.hangsUp {
			api.hangUp(ctx, http.MethodPost, path+"/claim", header, nil)
		}
		if v.claimCode, err = api.call(ctx, http.MethodPost, path+"/claim", header, nil, p); err != nil {
			return err
		}
		v.claimed = v.claimCode == http.StatusOK
		v.inTime = v.claimed || time.Now().Before(v.turnUntil) // a claim that was answered later may have come too late
	case "admitted":
		if v.ordered {
			return nil
		}
		sent := time.Now()
		if v.orderCode, err = v.order(ctx, api, o, "first"); err != nil {
			return err
		}
		if v.ordered = v.orderCode == http.StatusAccepted; refused(v.orderCode) && p.PassUntil != nil && sent.After(*p.PassUntil) {
			v.inTime = false // from a machine that is too slow for its crowd
		}
		v.twice, err = v.order(ctx, api, o, "second")
	case "done", "lapsed", "left", "turned_away", "barred":
		v.final, v.ended = string(p.State), time.Now()
	}
	return err
}

// joinAgain joins once more, for the receipt of a place that will be drawn after all. On a machine that is too slow for its crowd the turn
// may have lapsed, and the place is another one then.
func (v *visitor) joinAgain(ctx context.Context, api *caller, path string, lapses time.Time) error {
	var again place
	code, err := api.call(ctx, http.MethodPost, path, v.header(), map[string]any{}, &again)
	switch now := time.Now(); {
	case err != nil:
		return err
	case code == http.StatusCreated && !now.Before(lapses):
		v.replaced, v.final, v.ended = true, string(waitingroom.StateLapsed), now
	case code != http.StatusOK:
		return fmt.Errorf("rehearse: POST %s again: status %d %s", path, code, again.Reason)
	default:
		v.receipt = again.Receipt
	}
	return nil
}

// join joins, from two devices at once if the visitor has them.
func (v *visitor) join(ctx context.Context, api *caller, path string) (p place, err error) {
	v.asked = time.Now()
	if v.hangsUp {
		api.hangUp(ctx, http.MethodPost, path, v.header(), map[string]any{})
	}
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
	v.joined = time.Now()
	for i := range devices {
		if errs[i] != nil {
			return p, errs[i]
		}
		v.numbers[places[i].Number] = true
	}
	v.receipt = places[0].Receipt
	return places[0], nil
}

func (v *visitor) order(ctx context.Context, api *caller, o Options, key string) (int, error) {
	path, header, body := "/v1/sales/"+o.Sale+"/orders", v.header(), sales.OrderRequest{Item: item}
	header.Set("Idempotency-Key", v.user+key)
	if v.hangsUp {
		api.hangUp(ctx, http.MethodPost, path, header, body)
	}
	return api.call(ctx, http.MethodPost, path, header, body, &place{})
}

// note records an answer to the visitor's request at that time.
func (v *visitor) note(p *place, asked, starts time.Time) {
	v.numbers[p.Number] = true
	switch p.State {
	case "waiting":
		v.waited = asked
		v.certain = v.certain || p.Outlook == "certain"
	case "turn":
		if p.TurnUntil != nil {
			v.turnUntil = *p.TurnUntil
		}
	case "lapsed":
		v.lapsed = time.Now()
	}
	if (p.State == "turn" || p.State == "admitted") && time.Now().Before(starts) {
		v.early = true
	}
	if p.Position != nil {
		var ahead int64
		if p.Ahead != nil {
			ahead = *p.Ahead
		}
		if n := len(v.positions); n > 0 && (*p.Position > v.positions[n-1] || p.State == "waiting" && ahead > v.ahead) {
			v.rose++
		}
		v.ahead = ahead
		v.positions = append(v.positions, *p.Position)
	}
}

// position returns the last position that the visitor received, 0 for none.
func (v *visitor) position() int64 {
	if n := len(v.positions); n > 0 {
		return v.positions[n-1]
	}
	return 0
}

package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

const (
	pulseEvery    = 5 * time.Second       // bans, and which processes are alive
	pulseGap      = 10 * time.Millisecond // minimum between two requested pulses, so that a storm of bans does not become a storm of requests
	restoreBatch  = 100                   // bans restored in one call: takes the store a few milliseconds
	historyWithin = 5 * time.Second
)

// BanHistory records bans.
type BanHistory interface {
	// Record stores events and skips those whose ID is stored already. After an error the same events are sent again.
	Record(ctx context.Context, events []BanEvent) error
}

// followBans fetches bans until ctx ends: at once when another process announces a change, and every five seconds.
func (g *Gate) followBans(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := g.store.Listen(ctx, g.keys.bans(), func(string) { g.heardOfBans() }); err != nil {
				g.opts.Logger.Warn("admission: not told of bans, they may take five seconds", "error", err)
				periodic.Pause(ctx, time.Second)
			}
		}
	})
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	failing := false
	for ctx.Err() == nil {
		err := g.pulse(ctx)
		if failed := err != nil && ctx.Err() == nil; failed != failing {
			failing = failed
			if failed {
				g.opts.Logger.Warn("admission: bans are not up to date, those known stay in force", "error", err)
			} else {
				g.opts.Logger.Info("admission: bans are up to date again")
			}
		}
		periodic.Pause(ctx, pulseGap)
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-g.bans.news:
		}
	}
}

// heardOfBans triggers a pulse.
func (g *Gate) heardOfBans() {
	select {
	case g.bans.news <- struct{}{}:
	default: // one is pending
	}
}

// pulse exchanges news with the store. If it fails, the known bans stay.
func (g *Gate) pulse(ctx context.Context) error {
	defer func() { g.bans.sweep(g.now()) }()
	var (
		logged     []string
		historyErr error
	)
	for {
		news := BanNews{Put: g.bans.owed(), Logged: logged, History: g.opts.History != nil && historyErr == nil}
		state, err := g.exchangeWithin(ctx, news)
		if err != nil {
			for _, order := range news.Put {
				g.bans.later(order)
			}
			return err
		}
		if g.bans.forgotten() {
			if err := g.restore(ctx); err != nil {
				g.bans.lose()
				return err
			}
		}
		logged, historyErr = g.record(ctx, state.Events)
		if !state.More && len(logged) == 0 && len(news.Put) < putBatch {
			return historyErr
		}
	}
}

// settleBans sends the pending orders at shutdown, when no pulse follows.
func (g *Gate) settleBans(ctx context.Context) {
	for orders := g.bans.owed(); len(orders) > 0; orders = g.bans.owed() {
		if _, err := g.exchangeWithin(ctx, BanNews{Put: orders}); err != nil {
			g.opts.Logger.Warn("admission: not banned", "targets", len(orders), "error", err)
			return
		}
	}
}

func (g *Gate) exchangeWithin(ctx context.Context, news BanNews) (BanState, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.Timeout)
	defer cancel()
	return g.exchange(ctx, news)
}

// restore writes bans that the store has lost back to it. The time left of each ban is added to the store's current clock.
func (g *Gate) restore(ctx context.Context) error {
	state, err := g.exchangeWithin(ctx, BanNews{}) // changes are followed from here on
	if err != nil {
		return err
	}
	now := g.now()
	held := g.bans.running(now)
	for len(held) > 0 {
		n := min(len(held), restoreBatch)
		bans := make([]Ban, n)
		for i, h := range held[:n] {
			bans[i] = h.Ban
			bans[i].Until = state.At.Add(time.Duration(h.ends - now))
		}
		if _, err := g.exchangeWithin(ctx, BanNews{Restore: bans}); err != nil {
			return err
		}
		held = held[n:]
	}
	g.heardOfBans() // there may be more
	return nil
}

// record sends events to the history and returns the IDs of those that it has stored.
func (g *Gate) record(ctx context.Context, events []BanEvent) (logged []string, err error) {
	if len(events) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	if err := g.opts.History.Record(ctx, events); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	for i := range events {
		logged = append(logged, events[i].ID)
	}
	return logged, nil
}

package bans

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/pubsub"
)

const (
	syncEvery     = 5 * time.Second       // bans, and which processes are alive
	syncGap       = 10 * time.Millisecond // minimum between two requested syncs, so that a storm of bans does not become a storm of requests
	restoreBatch  = 100                   // bans restored in one call: takes the store a few milliseconds
	historyWithin = 5 * time.Second
)

// History records bans.
type History interface {
	// Record stores events and skips those whose ID is stored already. After an error the same events are sent again.
	Record(ctx context.Context, events []Event) error
}

// Run keeps the list up to date until ctx ends; it then returns nil. It calls Sync at once when another process announces a change, and
// every five seconds. Call Flush afterwards.
func (l *List) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		_ = pubsub.Follow(ctx, time.Second, func() error {
			return l.store.Listen(ctx, l.key, func(string) { l.requestSync() })
		}, func(err error) {
			l.opts.Logger.Warn("bans: notices of changes are not received; changes may take up to five seconds", "error", err)
		})
	})
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	failing := false
	for ctx.Err() == nil {
		err := l.Sync(ctx)
		if failed := err != nil && ctx.Err() == nil; failed != failing {
			failing = failed
			if failed {
				l.opts.Logger.Warn("bans: they are not up to date, those known stay in force", "error", err)
			} else {
				l.opts.Logger.Info("bans: they are up to date again")
			}
		}
		periodic.Pause(ctx, syncGap)
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-l.wake:
		}
	}
	return nil
}

// requestSync triggers a sync.
func (l *List) requestSync() {
	select {
	case l.wake <- struct{}{}:
	default: // one is pending
	}
}

// Sync exchanges news with the store: it makes queued bans, fetches changes, restores bans that the store has lost, and writes the history.
// If it fails, the known bans stay in force. The error is the store's or the history's.
func (l *List) Sync(ctx context.Context) error {
	defer func() { l.sweep(l.now()) }()
	var (
		logged     []string
		historyErr error
	)
	for {
		news := News{Put: l.takePending(), Logged: logged, History: l.opts.History != nil && historyErr == nil}
		state, err := l.exchangeWithin(ctx, news)
		if err != nil {
			for _, order := range news.Put {
				l.later(order)
			}
			return err
		}
		if l.forgotten() {
			if err := l.restore(ctx); err != nil {
				l.lose()
				return err
			}
		}
		logged, historyErr = l.record(ctx, state.Events)
		if !state.More && len(logged) == 0 && len(news.Put) < putBatch {
			return historyErr
		}
	}
}

// Flush sends the queued orders at shutdown, when no sync follows.
func (l *List) Flush(ctx context.Context) {
	for orders := l.takePending(); len(orders) > 0; orders = l.takePending() {
		if _, err := l.exchangeWithin(ctx, News{Put: orders}); err != nil {
			l.opts.Logger.Warn("bans: not banned", "targets", len(orders), "error", err)
			return
		}
	}
}

// restore writes bans that the store has lost back to it. The time left of each ban is added to the store's current clock.
func (l *List) restore(ctx context.Context) error {
	state, err := l.exchangeWithin(ctx, News{}) // changes are followed from here on
	if err != nil {
		return err
	}
	now := l.now()
	held := l.running(now)
	for len(held) > 0 {
		n := min(len(held), restoreBatch)
		bans := make([]Ban, n)
		for i, h := range held[:n] {
			bans[i] = h.Ban
			bans[i].Until = state.At.Add(time.Duration(h.ends - now))
			if bans[i].Since.After(state.At) { // another Redis, whose clock is behind
				bans[i].Since = state.At
			}
		}
		if _, err := l.exchangeWithin(ctx, News{Restore: bans}); err != nil {
			return err
		}
		held = held[n:]
	}
	l.requestSync() // there may be more
	return nil
}

// record sends events to the history and returns the IDs of those that it has stored.
func (l *List) record(ctx context.Context, events []Event) (logged []string, err error) {
	if len(events) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	if err := l.opts.History.Record(ctx, events); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	for i := range events {
		logged = append(logged, events[i].ID)
	}
	return logged, nil
}

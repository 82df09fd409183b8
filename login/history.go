package login

import (
	"context"
	"encoding/base32"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

// An Event is the start of a penalty, for a history. It contains no names; Throttle.Reference returns the reference of a known name.
type Event struct {
	ID     string // unique
	At     time.Time
	Rule   string
	Count  Count
	Action Action
	Factor string
	// Name is a reference to the name, or empty if the rule does not count names. IP is the masked address, or empty.
	Name, IP string
	Until    time.Time // zero: as long as the failures count
	Times    int       // consecutive penalties, or for a rule without a window the failures
	Shadow   bool
}

// History records events.
type History interface {
	// Record stores events and skips those whose ID is stored already.
	Record(ctx context.Context, events []Event) error
}

const (
	maxEvents     = 4096 // that wait for the history
	eventsAtOnce  = 100
	recordWithin  = 5 * time.Second
	recordPause   = time.Second      // after the history failed
	stormPause    = 10 * time.Second // between full batches, so that invented names cannot fill the database
	referenceSize = 10               // characters, of 5 bits
)

// reference is short enough to be read out on the telephone, and reveals nothing.
func reference(d digest) string {
	return strings.ToUpper(base32.StdEncoding.EncodeToString(d[:])[:referenceSize])
}

// queueEvent queues an event for Run.
func (t *Throttle) queueEvent(r *rule, id *attemptID, p penalty, at int64) {
	if t.opts.History == nil {
		return
	}
	e := Event{
		At: time.UnixMicro(at).UTC(), Rule: r.name, Count: r.Count, Action: r.Then, Factor: id.factor, Times: int(p.times), Shadow: r.Shadow,
	}
	if p.until > 0 {
		e.Until = time.UnixMicro(p.until).UTC()
	}
	if r.kind != byIP && r.kind != byNetwork {
		e.Name = reference(id.name)
	}
	if r.kind != byName && r.kind != byDevice {
		e.IP = Mask(id.ip)
	}
	e.ID = t.keys.hash("event", e.At.String(), e.Rule, e.Name, string(id.nonce[:])).String()
	select {
	case t.events <- e:
	default:
		t.dropped.Add(1)
	}
}

// Dropped is how many events were lost because the history was unavailable for too long.
func (t *Throttle) Dropped() uint64 { return t.dropped.Load() }

// Run passes events to the history until ctx ends; it then flushes the queue. Without a history it only waits.
func (t *Throttle) Run(ctx context.Context) error {
	for {
		var events []Event
		select {
		case <-ctx.Done():
			return t.flush(context.WithoutCancel(ctx))
		case e := <-t.events:
			events = t.more([]Event{e})
		}
		for failing := false; ; failing = true {
			err := t.record(ctx, events)
			if err == nil {
				break
			}
			if !failing {
				t.opts.Logger.WarnContext(ctx, "login: the history is unavailable", "error", err)
			}
			if !periodic.Pause(ctx, recordPause) {
				return t.flush(context.WithoutCancel(ctx), events...)
			}
		}
		if len(events) == eventsAtOnce {
			periodic.Pause(ctx, stormPause)
		}
	}
}

func (t *Throttle) more(events []Event) []Event {
	for len(events) < eventsAtOnce {
		select {
		case e := <-t.events:
			events = append(events, e)
		default:
			return events
		}
	}
	return events
}

func (t *Throttle) record(ctx context.Context, events []Event) error {
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	return t.opts.History.Record(ctx, events)
}

// flush passes the remaining events to the history, with one attempt.
func (t *Throttle) flush(ctx context.Context, events ...Event) error {
	for events = t.more(events); len(events) > 0; events = t.more(nil) {
		if err := t.record(ctx, events); err != nil {
			t.opts.Logger.WarnContext(ctx, "login: events missing in the history", "events", len(events)+len(t.events), "error", err)
			return nil
		}
	}
	return nil
}

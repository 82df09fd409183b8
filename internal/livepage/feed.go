package livepage

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/recent"
)

// askWithin is the timeout of one query to a source.
const askWithin = 5 * time.Second

// countPause is how many times as long as counting the orders takes is the pause after it.
const countPause = 20

// kept is how much history a new page gets.
const kept = 5 * time.Minute

// unwatched is the interval in seconds of querying sales without viewers, so that a page opened during a sale shows its beginning.
const unwatched = 5

// A Feed makes the frames. Make it with NewFeed and call Run; it is safe for concurrent use.
type Feed struct {
	recorder *Recorder
	sources  Sources
	log      *slog.Logger
	pages    atomic.Int32

	parts    []partSource
	totals   *recent.Source[[]Totals]
	counting atomic.Int64 // how long the latest call of Sources.Totals took, also if it failed
	health   *recent.Source[[]string]

	mu      sync.Mutex
	seq     int64                    // guarded by mu
	history []summary                // guarded by mu, the oldest first
	stock   stock                    // guarded by mu
	streams map[chan []byte]struct{} // guarded by mu
}

// A past is the history that a new page gets first.
type past struct {
	Frames []summary `json:"frames"`
	Stock  []curve   `json:"stock"`
}

// A summary is the data that pages plot of a past frame.
type summary struct {
	At       time.Time         `json:"at"`
	WindowMS int64             `json:"window_ms"`
	Answers  map[string]uint64 `json:"answers"`
	Latency  *Latency          `json:"latency,omitempty"`
}

// NewFeed returns a feed of the data of r and the sources.
func NewFeed(r *Recorder, s Sources, log *slog.Logger) *Feed {
	f := &Feed{
		recorder: r, sources: s, log: log, stock: stock{}, streams: map[chan []byte]struct{}{},
		parts: s.parts(), health: recent.New(askWithin, s.Health),
	}
	f.totals = recent.New[[]Totals](askWithin, nil)
	if s.Totals != nil {
		f.totals = recent.New(askWithin, func(ctx context.Context) ([]Totals, error) {
			began := time.Now()
			defer func() { f.counting.Store(int64(time.Since(began))) }()
			return s.Totals(ctx)
		})
	}
	return f
}

// Run makes a frame every second until ctx ends; it then returns nil.
func (f *Feed) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	defer f.waitAll()
	before, from := f.counts(), time.Now()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		watched := f.pages.Load() > 0
		switch {
		case watched:
			f.askAll(ctx)
		case turn%unwatched == 0:
			for i := range f.parts {
				if f.parts[i].unwatched {
					f.parts[i].source.Ask(ctx, 0)
				}
			}
		}
		now, at := f.counts(), time.Now()
		f.publish(f.frame(now, before, at, at.Sub(from), watched), watched)
		before, from = now, at
	}
}

// counts are the recorder's counters since the start.
type counts struct {
	answers, charged, refused, shadow map[string]uint64
	took                              *durations
	committed, roundTrips             uint64
}

func (f *Feed) counts() counts {
	r := f.recorder
	t := counts{
		took: r.took.totals(), answers: r.answers.totals(), charged: r.charged.totals(), refused: r.refused.totals(),
		shadow: r.shadow.totals(),
	}
	if f.sources.Committed != nil {
		t.committed = f.sources.Committed()
	}
	if f.sources.RoundTrips != nil {
		t.roundTrips = f.sources.RoundTrips()
	}
	return t
}

func (f *Feed) frame(now, before counts, at time.Time, window time.Duration, watched bool) *Frame {
	frame := &Frame{
		At: at.UTC(), WindowMS: window.Milliseconds(), Answers: map[string]uint64{}, Latest: f.recorder.take(), Rules: f.rules(now, before),
	}
	for i := range f.parts {
		f.parts[i].put(frame, at)
	}
	if watched && f.sources.Process != nil { // it may query Redis and the database
		frame.Process = f.sources.Process()
	}
	if health := part(f.health, at).Known(); health != nil {
		frame.Process.Degraded = append(frame.Process.Degraded, *health...)
	}
	if sales := frame.Sales.Known(); sales != nil {
		for i := range *sales {
			if s := &(*sales)[i]; s.State == "recovering" {
				frame.Process.Degraded = append(frame.Process.Degraded, "the sale "+s.Sale+" is recovering")
			}
		}
	}
	p := &frame.Process
	p.Degraded = append(p.Degraded, p.Warnings...)
	frame.RoundTrips, frame.Latency = now.roundTrips-before.roundTrips, now.took.since(before.took)
	for answer, n := range now.answers {
		if n -= before.answers[answer]; n > 0 {
			frame.Answers[answer] = n
		}
	}
	if queue := frame.Queue.Known(); queue != nil {
		queue.Committed = now.committed - before.committed
	}
	frame.bound()
	if totals := part(f.totals, at); totals.Known() != nil {
		frame.addTotals(*totals.Value, totals.AgeMS)
	}
	return frame
}

// addTotals adds what the database counts to the sales that the frame lists.
func (frame *Frame) addTotals(totals []Totals, ageMS int64) {
	sales := frame.Sales.Known()
	if sales == nil {
		return
	}
	of := make(map[string]*Totals, len(totals))
	for i := range totals {
		of[totals[i].Sale] = &totals[i]
	}
	for i := range *sales {
		s := &(*sales)[i]
		t, ok := of[s.Sale]
		if !ok {
			continue
		}
		orders := t.Orders
		orders.AgeMS, s.Orders = ageMS, &orders
		for j := range s.Items {
			it := &s.Items[j]
			n := t.Items[it.Item]
			it.Cancelled, it.Expired = n.Cancelled, n.Expired
			if it.Free != nil && *it.Free == 0 && !n.Latest.IsZero() {
				it.SoldOutAt = &n.Latest
			}
		}
	}
}

// rules returns the rules in force, followed by others that have counts.
func (f *Feed) rules(now, before counts) []Rule {
	var names []string
	if f.sources.Rules != nil {
		names = slices.Clone(f.sources.Rules())
	}
	inForce := len(names)
	for _, of := range []map[string]uint64{now.charged, now.refused, now.shadow} {
		for name := range of {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names[inForce:])
	fullest := f.recorder.fullest.take()
	rules := make([]Rule, len(names))
	for i, name := range names {
		g := fullest[name]
		rules[i] = Rule{
			Name: name, Charged: now.charged[name] - before.charged[name], Refused: now.refused[name] - before.refused[name],
			Shadow: now.shadow[name] - before.shadow[name], Fullest: g.share(), Used: g.used(), Limit: g.limit(),
		}
	}
	return rules
}

// publish records a frame's summary for new pages, and encodes the frame once for all current ones.
func (f *Feed) publish(frame *Frame, watched bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	frame.Seq = f.seq
	// By time, not by number: a slow machine makes fewer frames than one a second.
	f.history = slices.DeleteFunc(f.history, func(s summary) bool { return frame.At.Sub(s.At) > kept })
	f.history = append(f.history, summary{frame.At, frame.WindowMS, frame.Answers, frame.Latency})
	if sales := frame.Sales.Known(); sales != nil {
		f.stock.fill(*sales, frame.At.Add(-time.Duration(frame.Sales.AgeMS)*time.Millisecond))
	}
	if !watched {
		return
	}
	encoded, err := json.Marshal(frame)
	if err != nil {
		f.log.Error("live page: a frame could not be encoded", "error", err)
		return
	}
	for stream := range f.streams {
		select {
		case stream <- encoded:
		default: // slow pages miss frames instead of blocking the feed
		}
	}
}

// maxPages is the maximum number of concurrent streams.
const maxPages = 1000

// open begins a stream of frames, and returns the history; ok is false if there are too many streams.
func (f *Feed) open() (frames chan []byte, history []byte, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.streams) == maxPages {
		return nil, nil, false
	}
	history, err := json.Marshal(past{append([]summary{}, f.history...), f.stock.curves()})
	if err != nil {
		f.log.Error("live page: history could not be encoded", "error", err)
		return nil, nil, false
	}
	frames = make(chan []byte, 2)
	f.streams[frames] = struct{}{}
	f.pages.Store(int32(len(f.streams)))
	return frames, history, true
}

func (f *Feed) close(frames chan []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, frames)
	f.pages.Store(int32(len(f.streams)))
}

// askAll starts a query for each source that has none pending, and waits for a short time.
func (f *Feed) askAll(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	f.totals.Ask(ctx, countPause*time.Duration(f.counting.Load()))
	pending := []<-chan struct{}{f.health.Ask(ctx, 0)}
	for i := range f.parts {
		pending = append(pending, f.parts[i].source.Ask(ctx, 0))
	}
	for _, done := range pending {
		select {
		case <-done:
		case <-wait.Done():
		}
	}
}

// waitAll waits until no query is pending.
func (f *Feed) waitAll() {
	for i := range f.parts {
		<-f.parts[i].source.Asking()
	}
	<-f.totals.Asking()
	<-f.health.Asking()
}

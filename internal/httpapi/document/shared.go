package document

import (
	"bytes"
	"compress/gzip"
	"context"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/singleflight"
)

// A document is shared for 200 ms, or for nine times as long as it took to make, so that large ones take at most a tenth of the
// time; but never longer than clients may keep it.
const (
	sharedFor = 200 * time.Millisecond
	sharedMax = time.Second // max-age in Output
)

// Shared has the latest documents by name. The zero value is ready to use. It is safe for concurrent use.
type Shared struct {
	flights singleflight.Group

	mu     sync.Mutex
	latest map[string]*made // guarded by mu
	swept  time.Time        // guarded by mu: when old ones were last dropped
}

type made struct {
	*Document
	until time.Time
	holds func() bool // nothing that callers must see at once has changed since
}

func (m *made) valid() bool { return m != nil && time.Now().Before(m.until) && m.holds() }

// Get returns the document of a name: the latest one while that may be shared and its holds returns true, otherwise the JSON of a
// new value. Concurrent callers share one call of read, which therefore continues when ctx is cancelled. Its error goes to all of
// them and is not kept.
func (s *Shared) Get(
	ctx context.Context, name string, read func(context.Context) (value any, holds func() bool, err error),
) (*Document, error) {
	for again := false; ; again = true {
		s.mu.Lock()
		m := s.latest[name]
		s.mu.Unlock()
		if m.valid() {
			return m.Document, nil
		}
		flight, err, _ := s.flights.Do(name, func() (any, error) { return s.read(context.WithoutCancel(ctx), name, read) })
		if err != nil {
			return nil, err
		}
		// A flight that began before a change may have read what was before it.
		if m = flight.(*made); again || m.holds() {
			return m.Document, nil
		}
	}
}

func (s *Shared) read(ctx context.Context, name string, read func(context.Context) (any, func() bool, error)) (*made, error) {
	began := time.Now()
	value, holds, err := read(ctx)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := huma.DefaultJSONFormat.Marshal(&text, value); err != nil {
		return nil, err
	}
	now := time.Now()
	m := &made{New(text.Bytes(), gzip.BestSpeed), now.Add(min(max(sharedFor, 9*now.Sub(began)), sharedMax)), holds}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil || now.Sub(s.swept) > sharedMax {
		for name, old := range s.latest {
			if now.After(old.until) {
				delete(s.latest, name)
			}
		}
		s.swept = now
	}
	if s.latest == nil {
		s.latest = make(map[string]*made)
	}
	s.latest[name] = m
	return m, nil
}

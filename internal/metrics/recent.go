package metrics

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/recent"
)

const (
	askAgain  = 3 * time.Second  // for so long scrapes by several see the same
	askWithin = 2 * time.Second  // a scrape waits for no more, well below Prometheus' ten seconds
	stale     = 10 * time.Second // what is older is not told any more
)

// found is what a source says now, or said a moment ago. It is not known while whoever is asked does not answer.
func found[T any](s *recent.Source[T]) (value T, known bool) {
	select {
	case <-s.Ask(context.Background(), askAgain):
		return lately(s)
	case <-time.After(askWithin):
		return value, false
	}
}

// latest is what a source said lately. It waits for nothing, and has it asked again if that was a while ago.
func latest[T any](s *recent.Source[T]) (value T, known bool) {
	s.Ask(context.Background(), askAgain)
	return lately(s)
}

func lately[T any](s *recent.Source[T]) (value T, known bool) {
	last := s.Last()
	if last.Err != nil || last.At.IsZero() || time.Since(last.At) > stale {
		return value, false
	}
	return last.Value, true
}

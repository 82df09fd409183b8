package metrics

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/recent"
)

const (
	askAgain  = 3 * time.Second  // scrapes within this interval share one query
	askWithin = 2 * time.Second  // maximum wait of a scrape, well below Prometheus' timeout of ten seconds
	stale     = 10 * time.Second // older results are not reported
)

// found returns the current or a recent result of a source. known is false while the source does not answer.
func found[T any](s *recent.Source[T]) (value T, known bool) {
	select {
	case <-s.Ask(context.Background(), askAgain):
		return lately(s)
	case <-time.After(askWithin):
		return value, false
	}
}

// latest returns the last result of a source if it is recent. It does not block, and starts a new query if the last one is old.
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

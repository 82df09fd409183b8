package livepage

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/recent"
)

// A Part is data from Redis or the database, and may be older than its frame.
type Part[T any] struct {
	AgeMS int64  `json:"age_ms"`
	Error string `json:"error,omitempty"` // why it is not current
	Value *T     `json:"value,omitempty"` // nil: no query has succeeded
}

// Known returns the value of a part, or nil if there is no part or no value.
func (p *Part[T]) Known() *T {
	if p == nil {
		return nil
	}
	return p.Value
}

// A partSource provides one part of each frame.
type partSource struct {
	source interface {
		Ask(ctx context.Context, fresh time.Duration) <-chan struct{}
		Asking() <-chan struct{}
	}
	put       func(frame *Frame, at time.Time)
	unwatched bool // it is queried without viewers, too
}

func partOf[T any](ask func(context.Context) (T, error), of func(*Frame) **Part[T]) partSource {
	source := recent.New(askWithin, ask)
	return partSource{source: source, put: func(frame *Frame, at time.Time) { *of(frame) = part(source, at) }}
}

// part returns the last result of a source, without a value if all queries failed, or nil if none has finished yet.
func part[T any](s *recent.Source[T], now time.Time) *Part[T] {
	last := s.Last()
	if last.At.IsZero() && last.Err == nil {
		return nil
	}
	p := &Part[T]{}
	if !last.At.IsZero() {
		p.Value, p.AgeMS = &last.Value, max(0, now.Sub(last.At).Milliseconds())
	}
	if last.Err != nil {
		p.Error = short(last.Err.Error(), mostReason)
	}
	return p
}

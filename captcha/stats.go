package captcha

import (
	"errors"
	"sync/atomic"
)

// Stats are statistics of a process since it started.
type Stats struct {
	Providers []ProviderStats
	Fallback  bool // a substitute provider is in use
}

// ProviderStats are the statistics of one provider.
type ProviderStats struct {
	Provider    string
	Challenges  uint64           // challenges made
	Solved      uint64           // valid solutions
	Refused     map[Cause]uint64 // invalid tokens by cause; contains every cause
	Unavailable uint64           // tokens that could not be verified
}

// A tally holds the counters of one provider. The zero value is ready, and safe for concurrent use.
type tally struct {
	challenges, solved, unavailable atomic.Uint64
	refused                         [len(causes)]atomic.Uint64
}

// verified counts the outcome of a verification and returns it.
func (t *tally) verified(err error) error {
	var no *RefusedError
	switch {
	case err == nil:
		t.solved.Add(1)
	case errors.As(err, &no):
		for i, c := range causes {
			if c == no.Cause {
				t.refused[i].Add(1)
			}
		}
	case errors.Is(err, ErrUnavailable):
		t.unavailable.Add(1)
	}
	return err
}

func (t *tally) stats(provider string) ProviderStats {
	s := ProviderStats{
		Provider: provider, Challenges: t.challenges.Load(), Solved: t.solved.Load(), Unavailable: t.unavailable.Load(),
		Refused: make(map[Cause]uint64, len(causes)),
	}
	for i, c := range causes {
		s.Refused[c] = t.refused[i].Load()
	}
	return s
}

package semaphore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/semaphore"
)

// A permit of several semaphores lasts as long as the shortest of their leases.
func TestShortestLeaseOfSeveral(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		sems := []*semaphore.Semaphore{h.defined("a", 2, semaphore.MinLease), h.defined("b", 2, long)}
		for i, s := range sems {
			other := sems[1-i]
			g := grant(t, s, semaphore.Request{Also: []string{other.Name()}})
			if g.Lease != semaphore.MinLease {
				t.Errorf("%s first: a lease of %v", s.Name(), g.Lease)
			}
			for _, in := range sems {
				if held := status(t, in).Holders; len(held) > 0 && held[0].Until.Sub(held[0].Since) != semaphore.MinLease {
					t.Errorf("%s first, in %s: %+v", s.Name(), in.Name(), held)
				}
			}
			if lease, err := s.Renew(soon(t), g.ID); err != nil || lease != semaphore.MinLease {
				t.Errorf("%s first, renewed: %v, %v", s.Name(), lease, err)
			}
			if err := s.Release(soon(t), g.ID); err != nil {
				t.Error(err)
			}
		}
	})
}

// A partial permit of several semaphores does not count: it is neither renewed nor returned to a repeated request.
func TestPartOfAPermit(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("a", 1, long), h.defined("b", 1, long)
		for _, part := range []*semaphore.Semaphore{a, b} {
			r := semaphore.Request{ID: "order 17", Also: []string{"b"}}
			g := grant(t, a, r)
			id, _, _ := strings.Cut(g.ID, "~")
			if err := part.Release(soon(t), id); err != nil {
				t.Fatal(err)
			}
			if _, _, err := a.Grant(soon(t), r); !errors.Is(err, semaphore.ErrInvalid) {
				t.Errorf("without %s, asked for again: %v", part.Name(), err)
			}
			if _, err := a.Renew(soon(t), g.ID); !errors.Is(err, semaphore.ErrPermitLost) {
				t.Errorf("without %s, renewed: %v", part.Name(), err)
			}
			for _, s := range []*semaphore.Semaphore{a, b} {
				if st := status(t, s); st.InUse != 0 || len(st.Holders) != 0 {
					t.Errorf("without %s: %+v", part.Name(), st)
				}
			}
		}
	})
}

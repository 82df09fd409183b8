package semaphore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tidegate/tidegate/semaphore"
)

// forgets removes the holders of name from Redis, as if it was restarted with an old file.
func (h *house) forgets(name string) {
	h.t.Helper()
	rdb, key := h.client(), h.namespace+":s:{:}:"+name
	if err := rdb.Del(soon(h.t), key+":holders", key+":entries", key+":weights").Err(); err != nil {
		h.t.Fatal(err)
	}
	if err := rdb.HSet(soon(h.t), key, "run", "before").Err(); err != nil {
		h.t.Fatal(err)
	}
}

func grant(t testing.TB, s *semaphore.Semaphore, r semaphore.Request) *semaphore.Grant {
	t.Helper()
	g, _, err := s.Grant(soon(t), r)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Another run of Redis than the one that made the last grants may not know of all of them: nobody comes in before the leases that there may be have ended,
// and who holds a permit registers again.
func TestAnotherRunOfRedis(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 2, long)
		g := grant(t, s, semaphore.Request{})
		h.forgets("report")
		if _, full, err := s.TryAcquire(soon(t)); full == nil {
			t.Errorf("who comes: %v", err)
		}
		if st := status(t, s); st.GrantsResumeIn <= 0 || st.GrantsResumeIn > long || st.InUse != 0 {
			t.Errorf("%+v", st)
		}
		if _, err := s.Renew(soon(t), g.ID); err != nil {
			t.Errorf("who holds: %v", err)
		}
		if st := status(t, s); st.InUse != 1 || st.Holders[0].ID != g.ID {
			t.Errorf("%+v", st)
		}
		if _, full, err := s.TryAcquire(soon(t)); full == nil {
			t.Errorf("who comes then: %v", err)
		}
	})
}

// The limit has shrunk below what is held, and then Redis forgets the holders: as many register again as there is room for.
func TestRegisteringNeedsRoom(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 3, long)
		grants := []*semaphore.Grant{grant(t, s, semaphore.Request{}), grant(t, s, semaphore.Request{Weight: 2})}
		define(t, s, 2, long)
		h.forgets("report")
		if _, err := s.Renew(soon(t), grants[0].ID); err != nil {
			t.Errorf("the first: %v", err)
		}
		if _, err := s.Renew(soon(t), grants[1].ID); !errors.Is(err, semaphore.ErrPermitLost) {
			t.Errorf("the second: %v", err)
		}
		if st := status(t, s); st.InUse != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// How long nothing is granted: for the longest lease that a permit may have, even if it is no longer the lease of new ones, and no longer.
func TestQuietForTheLongestLease(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 1, 2*semaphore.MinLease)
		define(t, s, 1, semaphore.MinLease)
		h.forgets("report")
		if quiet := status(t, s).GrantsResumeIn; quiet <= semaphore.MinLease || quiet > 2*semaphore.MinLease {
			t.Errorf("with permits of the longer lease: %v", quiet)
		}
		p := acquire(t, s, semaphore.Request{})
		await(t, s, func(st semaphore.Status) bool { // until it was renewed when that lease had ended
			if p.Context().Err() != nil { // a machine that stands still for the shortest lease loses it
				p = acquire(t, s, semaphore.Request{})
			}
			return len(st.Holders) == 1 && st.Holders[0].Until.Sub(st.Holders[0].Since) >= 3*semaphore.MinLease
		})
		release(t, p)
		h.forgets("report")
		if quiet := status(t, s).GrantsResumeIn; quiet <= 0 || quiet > semaphore.MinLease {
			t.Errorf("when the longer lease is over: %v", quiet)
		}
	})
}

// Redis' data of a queue stays while there are waiters.
func TestQueueLivesWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, h *house) {
		s, both := h.defined("report", 1, long), h.defined("other", 1, long)
		p := acquire(t, s, semaphore.Request{})
		waiters := []*caller{queue(t, s, semaphore.Request{}, 1), queue(t, both, semaphore.Request{Also: []string{"report"}}, 1)}
		const aged, fresh = patience / 2, long
		rdb, ctx := h.client(), soon(t)
		for _, name := range []string{"report", "other"} {
			for _, part := range []string{"queue", "entries", "processes"} {
				key := h.namespace + ":s:{:}:" + name + ":" + part
				if err := rdb.PExpire(ctx, key, aged).Err(); err != nil { // as if that much time had passed
					t.Fatal(err)
				}
				for ttl := aged; ttl < fresh; { // until a heartbeat
					var err error
					if ttl, err = rdb.PTTL(ctx, key).Result(); err != nil || ttl <= 0 {
						t.Fatalf("%s lives for %v, %v", key, ttl, err)
					}
				}
			}
		}
		release(t, p)
		for _, c := range waiters {
			release(t, c.got())
		}
	})
}

// A key of another type is the same as the loss of the semaphore: nobody comes in, and who holds a permit registers again.
func TestADamagedKeyIsALostSemaphore(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		set := h.setOn(h.client(), semaphore.SetOptions{Lookup: func(context.Context, string) (semaphore.Definition, error) {
			return semaphore.Definition{Limit: 1, Lease: long}, nil
		}})
		s, rdb := of(t, set, "report"), h.client()
		g := grant(t, s, semaphore.Request{})
		for _, part := range []string{"", ":holders", ":entries", ":weights", ":queue", ":processes"} {
			if err := rdb.Set(soon(t), h.namespace+":s:{:}:report"+part, "x", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if _, full, err := s.TryAcquire(soon(t)); full == nil {
				t.Errorf("%q is damaged: who comes: %v", part, err)
			}
			if _, err := s.Renew(soon(t), g.ID); err != nil {
				t.Errorf("%q is damaged: who holds: %v", part, err)
			}
			if st := status(t, s); st.InUse != 1 || st.Limit != 1 {
				t.Errorf("%q is damaged: %+v", part, st)
			}
		}
	})
}

package login_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/login"
)

// history keeps events, once it is there.
type history struct {
	mu     sync.Mutex
	away   int // answers that are errors yet; guarded by mu
	events map[string]login.Event
	told   chan struct{} // after each answer
}

func (h *history) Record(_ context.Context, events []login.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() {
		select {
		case h.told <- struct{}{}:
		default:
		}
	}()
	if h.away > 0 {
		h.away--
		return errors.New("away")
	}
	for _, e := range events {
		h.events[e.ID] = e
	}
	return nil
}

// told returns the events that a history has received after the throttle has stopped.
func told(t *testing.T, th *login.Throttle, h *history) []login.Event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := th.Run(ctx); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []login.Event
	for _, e := range h.events {
		all = append(all, e)
	}
	return all
}

func TestHistoryHearsOfPenaltiesAndOfNobody(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		h := &history{events: map[string]login.Event{}, told: make(chan struct{}, 1)}
		th := throttle(t, store, rules.Default, login.Options{History: h, Bans: newBans(c), Captcha: everything{}})
		attacked(t, th, "alice")
		events := told(t, th, h)
		reference, err := th.Reference(" ALICE ")
		if err != nil || len(events) != 1 {
			t.Fatal(events, err)
		}
		e := events[0]
		if e.Rule != "login-name-3-in-1m-challenge" || e.Name != reference || e.IP != "" || e.Action != login.Challenge || e.Factor != "password" ||
			!e.At.Equal(time.UnixMicro(c.now())) || e.Until.Sub(e.At) != 10*time.Minute || e.Times != 1 || e.Shadow {
			t.Errorf("%+v, want the reference %s", e, reference)
		}
		for i := range 30 {
			a := attempt(fmt.Sprint("user", i), "203.0.113.77")
			a.Captcha = "right"
			try(t, th, a, login.Failure)
		}
		bans := 0
		for _, e := range told(t, th, h) {
			if e.Action == login.Ban {
				bans++
				if e.IP != "203.0.113.x" || e.Name != "" {
					t.Errorf("%+v", e)
				}
			}
		}
		if bans != 1 {
			t.Errorf("%d bans in the history", bans)
		}
	})
}

func TestBanInShadowIsToldOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		h := &history{events: map[string]login.Event{}, told: make(chan struct{}, 1)}
		b := newBans(c)
		th := throttle(t, store, rulesOf(t, "  - {count: ip, limit: 2, window: 1h, then: ban, for: 1h, shadow: true}"), login.Options{History: h, Bans: b})
		for i := range 20 {
			if d, _ := try(t, th, attempt(fmt.Sprint("user", i), "192.0.2.1"), login.Failure); d.Action != login.Allow {
				t.Fatalf("%+v", d)
			}
			c.advance(time.Minute)
		}
		if events := told(t, th, h); len(events) != 1 || !events[0].Shadow || b.count() != 0 {
			t.Errorf("%d bans, events %+v", b.count(), events)
		}
	})
}

// A revocation in shadow mode does not invalidate tokens.
func TestRevocationInShadowIsToldAlone(t *testing.T) {
	set := rulesOf(t, "  - {count: device, limit: 2, consecutive: true, then: revoke, shadow: true}\n  - {count: name, limit: 3, window: 1m, then: challenge, for: 10m}")
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		h := &history{events: map[string]login.Event{}, told: make(chan struct{}, 1)}
		th := throttle(t, store, set, login.Options{History: h})
		a := attempt("alice", "203.0.113.1")
		a.Device = device(t, th, "alice")
		for range 3 {
			try(t, th, a, login.Failure)
		}
		attacked(t, th, "alice")
		if d, err := th.Check(t.Context(), a); err != nil || d.Action != login.Allow {
			t.Errorf("the holder of the token: %+v, %v", d, err)
		}
		revocations := 0
		for _, e := range told(t, th, h) {
			if e.Action == login.Revoke && e.Shadow {
				revocations++
			}
		}
		if revocations != 1 {
			t.Errorf("%d revocations in the history", revocations)
		}
	})
}

// However many attempts are left unsettled at once, their failures are recorded, and a shadow rule reports each penalty once.
func TestManyUnsettledAttemptsEndAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		h := &history{events: map[string]login.Event{}, told: make(chan struct{}, 1)}
		set := rulesOf(t, "  - {count: ip, limit: 1, window: 1h, then: ban, for: 1h, shadow: true}\n"+
			"  - {count: ip, limit: 1000, window: 1h, then: deny, for: 1h}\n"+
			"  - {count: ip, limit: 2, window: 1h, then: challenge, for: 1ms, shadow: true}")
		th := throttle(t, store, set, login.Options{History: h, Logger: quietly})
		for i := range 600 {
			d, err := th.Reserve(t.Context(), attempt(fmt.Sprint("user", i), "192.0.2.1"))
			if i > 0 && d.Reason == login.ReasonInFlight {
				t.Fatalf("a rule in shadow holds: %+v", d)
			}
			if err != nil || d.Action != login.Allow {
				t.Fatalf("%d: %+v, %v", i, d, err)
			}
			c.advance(2 * time.Millisecond)
		}
		c.advance(31 * time.Second)
		if d, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.1")); err != nil || d.Action != login.Allow || d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
		byRule := map[login.Action]int{}
		for _, e := range told(t, th, h) {
			byRule[e.Action]++
		}
		if byRule[login.Ban] != 1 || byRule[login.Challenge] != 1 { // all of them have the time of the one that noticed
			t.Errorf("events: %v", byRule)
		}
	})
}

func TestHistoryThatIsAwayHearsOfItLater(t *testing.T) {
	h := &history{away: 1, events: map[string]login.Event{}, told: make(chan struct{})}
	th := throttle(t, memoryStore(newClock()), rules.Default, login.Options{History: h, Logger: quietly})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- th.Run(ctx) }()
	attacked(t, th, "alice")
	<-h.told // that it is away
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(h.events) != 1 || th.Dropped() != 0 {
		t.Errorf("%d events, %d dropped", len(h.events), th.Dropped())
	}
}

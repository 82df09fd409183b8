package admission_test

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

func chargeUnless(t *testing.T, g *admission.Gate, req admission.Request, excused bool) (d admission.Decision, asked int) {
	t.Helper()
	d, err := g.ChargeUnless(t.Context(), req, func(context.Context) bool { asked++; return excused })
	if err != nil || d.Degraded {
		t.Fatalf("%+v, %v", d, err)
	}
	return d, asked
}

// An excused request is admitted whatever refuses it, and is counted nowhere; other requests are refused and counted by Run as usual.
func TestExcusedRequestsAreNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, strikes+`
- {name: counts, subject: session, limit: 2, window: 1m, count_rejected: true}
- {name: closed, match: {route: /closed}, algorithm: direct, action: deny}
`)
		defer running(t, g)()
		ann := admission.Request{User: "ann"}
		if d, asked := chargeUnless(t, g, ann, true); !d.Admitted || d.Rule != "r" || asked != 0 {
			t.Errorf("while there is room: %+v, asked %d times", d, asked)
		}
		store.asked()
		for i := range 10 { // the store refuses the first, this process the others
			if d, asked := chargeUnless(t, g, ann, true); !d.Admitted || d.Action != rules.Allow || len(d.Rules) != 0 || asked != 1 {
				t.Fatalf("excused %d: %+v, asked %d times", i, d, asked)
			}
		}
		if n := store.asked(); n != 1 {
			t.Errorf("the store was asked %d times", n)
		}
		if d, asked := chargeUnless(t, g, admission.Request{Route: "/closed"}, true); !d.Admitted || asked != 1 {
			t.Errorf("by a direct rule: %+v, asked %d times", d, asked)
		}
		time.Sleep(2 * flushes)
		synctest.Wait()
		if n := store.asked(); n != 0 || len(g.Bans()) != 0 {
			t.Errorf("excused refusals were counted by %d calls; bans: %+v", n, g.Bans())
		}

		for range 3 {
			if d, asked := chargeUnless(t, g, ann, false); d.Action != rules.Deny || asked != 1 {
				t.Fatalf("not excused: %+v, asked %d times", d, asked)
			}
		}
		time.Sleep(flushes + 50*ms)
		synctest.Wait()
		if d, asked := chargeUnless(t, g, ann, false); d.Action != rules.Ban || asked != 1 {
			t.Errorf("after three refusals: %+v, asked %d times", d, asked)
		}
		if d, asked := chargeUnless(t, g, ann, true); !d.Admitted || asked != 1 {
			t.Errorf("banned and excused: %+v, asked %d times", d, asked)
		}

		// A rule that counts the rejected counts them, also in a window that had room.
		session := admission.Request{Session: "s", IP: netip.MustParseAddr("192.0.2.1")}
		chargeUnless(t, g, session, false)
		chargeUnless(t, g, session, true)
		if d := check(t, g, admission.Request{Session: "s"}); d.Remaining != 1 {
			t.Errorf("an excused request was counted: %+v", d)
		}
		time.Sleep(flushes) // so that it is the store that refuses
		chargeUnless(t, g, session, false)
		time.Sleep(flushes + 50*ms)
		synctest.Wait()
		if d := check(t, g, admission.Request{Session: "s"}); d.Remaining != 0 {
			t.Errorf("a rejected request was not counted: %+v", d)
		}
	})
}

// It is the same without a memory of denials.
func TestExcusesWithoutADenyCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), parse(t, strikes), admission.Options{Secret: secret, DenyCache: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer running(t, g)()
		ann := admission.Request{User: "ann"}
		charge(t, g, ann)
		for i := range 10 {
			if d, asked := chargeUnless(t, g, ann, true); !d.Admitted || asked != 1 {
				t.Fatalf("excused %d: %+v, asked %d times", i, d, asked)
			}
		}
		time.Sleep(2 * flushes)
		synctest.Wait()
		if len(g.Bans()) != 0 {
			t.Errorf("excused refusals were counted: %+v", g.Bans())
		}
		for range 3 {
			if d, asked := chargeUnless(t, g, ann, false); d.Action != rules.Deny || asked != 1 {
				t.Fatalf("not excused: %+v, asked %d times", d, asked)
			}
		}
		time.Sleep(2 * flushes)
		synctest.Wait()
		if d, _ := chargeUnless(t, g, ann, false); d.Action != rules.Ban {
			t.Errorf("after three refusals: %+v", d)
		}
	})
}

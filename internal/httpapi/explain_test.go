package httpapi

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
)

func TestExplain(t *testing.T) {
	b := setup(t)
	b.gate.explanation = admission.Explanation{
		Version: "abc", Ban: &bans.Ban{Target: bans.Target{Kind: bans.User, Value: "ann"}, Rule: "api", Since: noon, Until: noon.Add(time.Hour), Times: 2},
		Rules: []admission.RuleState{
			{Rule: "api", Applies: true, Windows: []admission.Verdict{{Rule: "api", Action: rules.Deny, Limit: 10, Remaining: 3, Admitted: true, Window: time.Minute}}},
			{Rule: "other", Reason: "match"},
		},
	}
	w := call(b.Internal(), "GET", "/v1/explain?user=ann&ip=192.0.2.1&route=/v1/x&method=get&tier=gold&attribute=plan:big:er&attribute=size:7&cost=3", "")
	want := admission.Request{
		User: "ann", IP: netip.MustParseAddr("192.0.2.1"), Route: "/v1/x", Method: "GET", Tier: "gold", Cost: 3,
		Attributes: map[string]string{"plan": "big:er", "size": "7"},
	}
	if w.Code != 200 || fmt.Sprintf("%+v", b.gate.asked[0]) != fmt.Sprintf("%+v", want) {
		t.Errorf("%d %s %+v", w.Code, w.Body, b.gate.asked)
	}
	for _, part := range []string{
		`"version":"abc"`, `"ban":{"kind":"user","value":"ann","rule":"api"`, `"times":2`, `{"rule":"api","applies":true,"windows":[{"rule":"api"`, `"remaining":3`,
		`{"rule":"other","applies":false,"why":"match","windows":[]}`,
	} {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("no %s in %s", part, w.Body)
		}
	}
	for query, at := range map[string]string{
		"ip=x": "query.ip", "plan=gold": "query.plan", "cost=0": "query.cost", "attribute=plan": "query.attribute", "attribute=route:/x": "query.attribute", "attribute=user:x": "query.attribute.user",
		"user=" + strings.Repeat("x", 256): "query.user",
	} {
		if p := problemIn(t, call(b.Internal(), "GET", "/v1/explain?"+query, "")); p.Status != 422 || p.Errors[0].Location != at {
			t.Errorf("%s: %+v", query, p)
		}
	}
	real := setup(t, realGate(t, twoAMinute))
	for range 3 {
		w := call(real.Internal(), "GET", "/v1/explain?user=ann&route=/v1/x", "")
		if !strings.Contains(w.Body.String(), `"remaining":2`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

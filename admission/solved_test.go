package admission_test

import (
	"testing"
	"testing/synctest"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

const hurdles = `
- {name: hurdle, subject: user, limit: 1, window: 1m, on_exceed: challenge}
- {name: wall, subject: user, limit: 3, window: 1m}`

var solved = admission.Request{User: "ann", Solved: true}

// A solved challenge admits one request over the limit, and all other rules still apply.
func TestSolvedChallengeOpensItsRuleOnly(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		g := gate(t, open(newClock()), namespace(), hurdles)
		ann := admission.Request{User: "ann"}
		for i, s := range []struct {
			req  admission.Request
			want rules.Action
			rule string
		}{
			{ann, allow, "hurdle"},
			{ann, challenge, "hurdle"},
			{solved, allow, "hurdle"},
			{ann, challenge, "hurdle"}, // one solution, one request
			{solved, allow, "hurdle"},
			{solved, deny, "wall"},
			{ann, deny, "wall"},
		} {
			d := charge(t, g, s.req)
			if d.Action != s.want || d.Rule != s.rule || d.Admitted != (s.want == allow) {
				t.Errorf("%d: %+v, want %s by %s", i, d, s.want, s.rule)
			}
			if d.Admitted && d.RetryAfter != 0 {
				t.Errorf("%d: admitted, but to come back in %v", i, d.RetryAfter)
			}
		}
	})
}

func TestSolvedIsNoHelpElsewhere(t *testing.T) {
	for name, tt := range map[string]struct {
		rules string
		req   admission.Request
		want  rules.Action
	}{
		"direct challenge":        {"- {name: r, algorithm: direct, action: challenge}", solved, allow},
		"direct denial":           {"- {name: r, algorithm: direct, action: deny}", solved, deny},
		"challenge before denial": {"- {name: a, algorithm: direct, action: challenge}\n- {name: b, algorithm: direct, action: deny}", solved, deny},
		"limit of nobody":         {"- {name: r, subject: user, limit: 0, window: 1s, on_exceed: challenge}", solved, deny},
		"too much at once": {
			"- {name: r, subject: user, limit: 2, window: 1s, on_exceed: challenge}",
			admission.Request{User: "ann", Solved: true, Cost: 3},
			deny,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := charge(t, gate(t, memorystore.New(memorystore.Options{}), namespace(), tt.rules), tt.req); d.Action != tt.want {
				t.Errorf("%+v, want %s", d, tt.want)
			}
		})
	}
}

// A remembered refusal does not apply to a request with a solved challenge, and still applies to others.
func TestSolvedChallengeAndTheDenyCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, hurdles)
		ann := admission.Request{User: "ann"}
		charge(t, g, ann)
		charge(t, g, ann)
		store.asked()
		for _, s := range []struct {
			req   admission.Request
			want  rules.Action
			asked int
		}{
			{ann, challenge, 0},
			{solved, allow, 1},
			{ann, challenge, 0},
			{solved, allow, 1},
			{solved, deny, 1}, // by the other rule, which is remembered
			{solved, deny, 0},
		} {
			if d, asked := charge(t, g, s.req), store.asked(); d.Action != s.want || asked != s.asked {
				t.Errorf("%s after %d questions, want %s after %d", d.Action, asked, s.want, s.asked)
			}
		}
	})
}

// A solved request that is refused elsewhere leaves no challenge behind for those to come.
func TestSolvedChallengeIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, `
- {name: hurdle, subject: user, limit: 1, window: 1m, on_exceed: challenge}
- {name: wall, subject: device, limit: 1, window: 1m}`)
		charge(t, g, admission.Request{User: "ann", Device: "phone"})
		charge(t, g, admission.Request{User: "ann", Device: "phone", Solved: true})
		store.asked()
		if d := charge(t, g, admission.Request{User: "ann", Device: "desk"}); d.Action != challenge || store.asked() != 1 {
			t.Errorf("%+v", d)
		}
	})
}

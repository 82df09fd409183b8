package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/auth/authtest"
	"github.com/tidegate/tidegate/internal/httpapi/live"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/orders"
)

// withPage enables the page of an API.
func withPage(cfg *Config) { cfg.Live = &live.Options{Recorder: livepage.NewRecorder()} }

// TestThePageKnowsTheReasons: the page groups reasons by name, in JavaScript. Each name must be a reason of this API, and each
// reason must be in one group.
func TestThePageKnowsTheReasons(t *testing.T) {
	w := httptest.NewRecorder()
	livepage.Assets().ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "answers.js"}, Header: http.Header{}})
	seen := map[string]bool{}
	for _, group := range regexp.MustCompile(`of: \[([^\]]*)\]`).FindAllStringSubmatch(w.Body.String(), -1) {
		for _, quoted := range strings.Split(group[1], ", ") {
			reason := strings.Trim(quoted, "'")
			if problem.New(reason).Cause != nil && reason != livepage.Admitted {
				t.Errorf("there is no reason %s", quoted)
			}
			if seen[reason] {
				t.Errorf("%s is in two groups", reason)
			}
			seen[reason] = true
		}
	}
	for _, reason := range []admission.Reason{admission.RateLimited, admission.CostAboveLimit, admission.Banned, admission.Forbidden, admission.CaptchaRequired} {
		if !seen[string(reason)] {
			t.Errorf("%s is in no group", reason)
		}
	}
	for _, reason := range reasonsOfOrders(t) {
		if !seen[string(reason)] {
			t.Errorf("%s is in no group", reason)
		}
	}
}

// reasonsOfOrders returns for what an order can be refused. Go has no list of the constants of a type.
func reasonsOfOrders(t *testing.T) (all []orders.Reason) {
	source, err := os.ReadFile("../../orders/reason.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`Reason = "(\w+)"`).FindAllSubmatch(source, -1) {
		if r := orders.Reason(m[1]); r != orders.ReasonRecoveredLate && r != orders.ReasonDuplicate { // these were accepted first
			all = append(all, r)
		}
	}
	if !slices.Contains(all, orders.ReasonTurnRequired) {
		t.Fatalf("reasons are %q", all)
	}
	return all
}

// TestThePageIsForViewers: the page itself is public; its data is for viewers and operators.
func TestThePageIsForViewers(t *testing.T) {
	b := setup(t, withPage, withTokens(t))
	for _, path := range []string{"/", "/assets/main.js"} {
		if w := call(b.Internal(), "GET", path, ""); w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
		if w := call(b.Internal(), "POST", path, "{}", "X-Tidegate-Token", "operator-token-of-tests"); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, w.Code)
		}
		if w := call(b.Public(), "GET", path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s in public: %d", path, w.Code)
		}
	}
	if w := call(b.Internal(), "GET", "/events", ""); w.Code != http.StatusUnauthorized || w.Header().Get("Www-Authenticate") != "Bearer" {
		t.Errorf("without a token: %d %v", w.Code, w.Header())
	}
	for _, token := range []string{"admit-token-of-tests", "metrics-token-of-tests"} {
		if w := call(b.Internal(), "GET", "/events", "", "X-Tidegate-Token", token); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", token, w.Code)
		}
	}
	if w := call(b.Public(), "GET", "/events", ""); w.Code != http.StatusNotFound {
		t.Errorf("in public: %d", w.Code)
	}
}

// TestAStreamEndsWithItsToken: after its token is removed, a stream sends no further frame.
func TestAStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	file := authtest.WriteTokens(t, authtest.TokenList)
	tokens, err := auth.LoadTokens(file, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, withPage, func(c *Config) { c.Tokens = tokens })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.RunLive(ctx) }()
	server := httptest.NewServer(b.Internal())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Tidegate-Token", "operator-token-of-tests")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan() && frames < 5; {
		if lines.Text() != "event: frame" {
			continue
		}
		if frames++; frames == 2 { // a token with the same name, as when an operator changes a token
			if err := os.WriteFile(file, []byte("- {name: ops, role: operator, token: another-token-of-tests}"), 0o600); err != nil {
				t.Error(err)
			}
			if err := tokens.Reload(); err != nil {
				t.Error(err)
			}
		}
	}
	if frames != 2 && frames != 3 { // one may have been sent already
		t.Errorf("%d frames", frames)
	}
	_ = resp.Body.Close()
	server.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAFrame: a frame has the data of the API and of Live.
func TestAFrame(t *testing.T) {
	b := setup(t, withPage, func(c *Config) { c.Outdated = func() []string { return []string{"JWT_JWKS_URL", "RULES_FILE"} } })
	draft := flash
	draft.ID, draft.Switch, draft.State, draft.Free = "next", orders.SwitchDraft, orders.StateScheduled, nil // it recovers
	b.orders.sales = append(b.orders.sales, draft)
	b.gate.stats = admission.Stats{Version: "v7", Processes: 2}
	b.gate.bans = []bans.Ban{
		{Target: bans.Target{Kind: bans.User, Value: "eve"}, Reason: "scalper", Until: noon},
		{Target: bans.Target{Kind: bans.User, Value: "bob"}, Until: noon.AddDate(1, 0, 0)},
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.RunLive(ctx) }()
	server := httptest.NewServer(b.Internal())
	resp, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	lines, frame := bufio.NewScanner(resp.Body), livepage.Frame{}
	for lines.Scan() && frame.Seq == 0 {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && strings.Contains(data, `"seq"`) {
			if err := json.Unmarshal([]byte(data), &frame); err != nil {
				t.Error(err)
			}
		}
	}
	_ = resp.Body.Close()
	server.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	p := frame.Process
	if p.Rules != "v7" || p.Processes != 2 || !slices.Contains(p.Degraded, "not reloaded, the last good content stays in force: JWT_JWKS_URL, RULES_FILE") {
		t.Errorf("%+v", p)
	}
	if sales := frame.Sales.Known(); sales == nil || len(*sales) != 2 {
		t.Errorf("%+v", frame.Sales)
	} else if it := (*sales)[0].Items[0]; it.Item != "shoe" || it.Stock != 100 || it.Free == nil || *it.Free != 40 || !(*sales)[1].Draft || (*sales)[1].Items[0].Free != nil {
		t.Errorf("%+v", sales)
	}
	if frame.Bans.Known() == nil || frame.Bans.Value.Count != 2 || frame.Bans.Value.Bans[0].Value != "bob" || frame.Bans.Value.Bans[1].Reason != "scalper" {
		t.Errorf("%+v", frame.Bans)
	}
	if frame.Semaphores != nil {
		t.Errorf("there are none: %+v", frame.Semaphores)
	}
	if len(frame.Rules) == 0 || frame.Rules[0].Limit != 0 {
		t.Errorf("rules in force: %+v", frame.Rules)
	}
}

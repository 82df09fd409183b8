package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/login"
)

// fakeHistory is a history in memory.
type fakeHistory struct {
	mu     sync.Mutex
	events []login.Event // the newest first
	err    error
	asked  string
}

func (h *fakeHistory) Record(_ context.Context, events []login.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		h.events = append([]login.Event{e}, h.events...)
	}
	return h.err
}

func (h *fakeHistory) List(_ context.Context, reference, after string, limit int) ([]login.Event, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = fmt.Sprintf("%q after %q, %d", reference, after, limit)
	var found []login.Event
	for _, e := range h.events {
		if reference == "" || e.Name == reference {
			found = append(found, e)
		}
	}
	if after != "" {
		found = found[1+slices.IndexFunc(found, func(e login.Event) bool { return e.ID == after }):]
	}
	return found[:min(limit, len(found))], h.err
}

func (h *fakeHistory) BannedFor(_ context.Context, ip string) (factors []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.IP == ip && e.Action == login.Ban {
			factors = append(factors, e.Factor)
		}
	}
	return factors, h.err
}

// told adds the events so far to the history.
func (b *loginBed) told() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	cancel()
	if err := b.Run(ctx); err != nil {
		b.t.Fatal(err)
	}
}

type stands struct {
	Items []struct {
		Rule, Count, Action  string
		Limit, Failed, Times int
		WindowMS             int64 `json:"window_ms"`
		InFlight             int   `json:"in_flight"`
		Active, Shadow       bool
		Since, Until         *time.Time
	}
	Reference string
	Banned    *struct{ Since, Until, Rule, Reason string }
}

func (b *loginBed) subject(query string) (s stands) {
	b.t.Helper()
	w := b.call("GET", "/v1/login/subjects?"+query, "")
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != 200 || w.Header().Get("Cache-Control") != "no-store" {
		b.t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	return s
}

// failed formats what each rule counts for a subject; active rules have an exclamation mark.
func (s *stands) failed() string {
	var all []string
	for _, i := range s.Items {
		mark := ""
		if i.Active {
			mark = "!"
		}
		all = append(all, fmt.Sprintf("%s/%d-%s %d%s", i.Count, i.Limit, i.Action, i.Failed, mark))
	}
	return strings.Join(all, ", ")
}

func TestLoginSubjects(t *testing.T) {
	b := setupLogin(t)
	none := b.subject("name=ann")
	b.fail(3)
	b.attempt("name", "bob")
	b.told()
	name := b.subject("name=%20ANN") // as a person would type it
	want := "name/3-challenge 3!, name/10-challenge 3, name/10-delay 3, name/100-challenge 3"
	if got := name.failed(); got != want || name.Reference == "" || name.Reference != none.Reference {
		t.Errorf("%s %q %q", got, name.Reference, none.Reference)
	}
	first := name.Items[0]
	if first.Since == nil || first.Until == nil || first.Until.Sub(*first.Since) != 10*time.Minute || first.WindowMS != 60_000 || first.Times < 1 ||
		!strings.HasPrefix(first.Rule, "login-name-3-") {
		t.Errorf("%+v", first)
	}
	if s := name.Items[1]; s.Since != nil || s.Until != nil {
		t.Errorf("%+v", s)
	}
	for query, want := range map[string]string{
		"ip=192.0.2.7":                   "names_per_ip/10-challenge 1, ip/30-ban 3",
		"ip=::ffff:192.0.2.7":            "names_per_ip/10-challenge 1, ip/30-ban 3",
		"ip=192.0.2.8":                   "names_per_ip/10-challenge 0, ip/30-ban 0",
		"ip=2001:db8::1":                 "names_per_ip/10-challenge 0, ip/30-ban 0, network/240-challenge 0",
		"name=ann&factor=otp":            "name/3-challenge 0, name/10-challenge 0, name/10-delay 0, name/100-challenge 0",
		"name=ann&ip=192.0.2.7":          want + ", name_ip/10-deny 3, names_per_ip/10-challenge 1, ip/30-ban 3",
		"name=bob&ip=192.0.2.7":          "name/3-challenge 0, name/10-challenge 0, name/10-delay 0, name/100-challenge 0, name_ip/10-deny 0, names_per_ip/10-challenge 1, ip/30-ban 3",
		"name=" + url.QueryEscape("é/&"): "name/3-challenge 0, name/10-challenge 0, name/10-delay 0, name/100-challenge 0",
	} {
		s := b.subject(query)
		if got := s.failed(); got != want || s.Banned != nil || (s.Reference != "") != strings.Contains(query, "name=") {
			t.Errorf("%s: %s", query, got)
		}
		if under := s.Items[0].InFlight; strings.HasPrefix(query, "name=bob") != (under == 1) && !strings.HasPrefix(query, "ip") {
			t.Errorf("%s: %d under way", query, under)
		}
	}
	b.history.err = errors.New("the database is away")
	if s := b.subject("name=ann"); s.failed() != want || s.Items[0].Since != nil {
		t.Errorf("%+v", s)
	}
}

func TestLiftLoginSubjects(t *testing.T) {
	b := setupLogin(t)
	b.fail(3)
	b.fail(3, "name", "bob")
	for _, other := range []string{"name=ann&factor=otp", "ip=192.0.2.8", "name=anna"} {
		if w := b.call("DELETE", "/v1/login/subjects?"+other, ""); w.Code != 204 || w.Body.Len() != 0 {
			t.Errorf("%s: %d %s", other, w.Code, w.Body)
		}
		b.attempt("mode", "check").wants(t, "challenge", "name_failures")
	}
	for range 2 { // also again
		if w := b.call("DELETE", "/v1/login/subjects?name=Ann", ""); w.Code != 204 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	b.attempt("mode", "check").wants(t, "allow", "")
	b.attempt("name", "bob", "mode", "check").wants(t, "challenge", "name_failures")
	if s := b.subject("ip=192.0.2.7"); s.Items[1].Failed != 6 {
		t.Errorf("%+v", s.Items[1])
	}
	if w := b.call("DELETE", "/v1/login/subjects?name=bob&ip=192.0.2.7", ""); w.Code != 204 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if s := b.subject("name=bob&ip=192.0.2.7"); strings.ContainsAny(strings.NewReplacer("/3-", "", "/10-", "", "/30-", "", "/100-", "").Replace(s.failed()), "123456789") {
		t.Errorf("%s", s.failed())
	}
}

func TestLoginSubjectsHostile(t *testing.T) {
	b := setupLogin(t)
	for query, at := range map[string]string{
		"": "query.name", "name=": "query.name", "name=%20": "query.name", "name=%00": "query.name", "name=%FF": "query.name",
		"name=" + strings.Repeat("x", 257): "query.name", "ip=x": "query.ip", "ip=192.0.2.0%2F24": "query.ip", "name=ann&ip=x": "query.ip",
		"name=ann&factor=A": "query.factor", "name=ann&factor=a%3Ab": "query.factor",
	} {
		for _, method := range []string{"GET", "DELETE"} {
			w := b.call(method, "/v1/login/subjects?"+query, "")
			if p := problemIn(t, w); p.Status != 422 || len(p.Errors) == 0 || p.Errors[0].Location != at {
				t.Errorf("%s %.40s: %s, want %s", method, query, w.Body, at)
			}
		}
	}
	for _, query := range []string{"cursor=!", "limit=0", "limit=1001", "reference=" + strings.Repeat("x", 65)} {
		if p := problemIn(t, b.call("GET", "/v1/login/history?"+query, "")); p.Status != 422 {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// TestLiftedBanIsNotMadeAnew: a lifted ban stays lifted: the failures that led to it are deleted, for every factor.
func TestLiftedBanIsNotMadeAnew(t *testing.T) {
	for _, factor := range []string{"password", "otp"} {
		for _, away := range []bool{false, true} {
			b := setupLogin(t)
			if away {
				if factor != "password" {
					continue // it is not in the history
				}
				b.history.err = errors.New("the database is away")
			}
			for n := range 30 { // several names, none of which is denied
				b.fail(1, "factor", factor, "name", fmt.Sprint(n%5)).wants(t, []string{"allow", "challenge"}[min(n/10, 1)], []string{"", "name_failures"}[min(n/10, 1)])
			}
			b.told()
			b.fail(1, "factor", factor).wants(t, "deny", "banned")
			if s := b.subject("ip=192.0.2.7&factor=" + factor); s.Banned == nil || s.Banned.Rule != "login-ip-30-in-10m-ban" || s.Banned.Since == "" || s.Banned.Until <= s.Banned.Since {
				t.Errorf("%+v", s.Banned)
			}
			if w := b.call("DELETE", "/v1/bans/ip/192.0.2.7", ""); w.Code != 204 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			b.fail(1, "factor", factor, "name", "bob").wants(t, "allow", "")
			b.attempt("factor", factor, "name", "bob").wants(t, "allow", "")
			if p := problemIn(t, b.call("DELETE", "/v1/bans/ip/192.0.2.7", "")); p.Status != 404 {
				t.Errorf("%+v", p)
			}
		}
	}
}

// TestBannedName: a ban of a user applies to every spelling of the name that logs in as that user.
func TestBannedName(t *testing.T) {
	b := setupLogin(t)
	for _, user := range []string{"Ann", "bob"} {
		if w := b.call("PUT", "/v1/bans/user/"+user, `{"for_ms":3600000,"reason":"fraud"}`); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	for name, banned := range map[string]bool{"Ann": true, "ann": false, "bob": true, "Bob": true, "eve": false} {
		s := b.subject("ip=192.0.2.7&name=" + name)
		if (s.Banned != nil) != banned || banned && s.Banned.Reason != "fraud" {
			t.Errorf("%s: %+v", name, s.Banned)
		}
		if d := b.attempt("mode", "check", "name", name); (*d.Reason == "banned") != banned {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestLoginHistory(t *testing.T) {
	b := setupLogin(t)
	b.fail(3)
	b.fail(3, "name", "bob", "ip", "2001:db8:1:2::3")
	b.fail(3, "name", "bob", "factor", "otp")
	b.told()
	var seen []string
	for cursor, pages := "", 0; ; pages++ {
		w := b.call("GET", "/v1/login/history?limit=2&cursor="+cursor, "")
		var got struct {
			Items []struct {
				ID, At, Rule, Count, Action, Factor, Reference, IP, Until string
				Times                                                     int
				Shadow                                                    bool
			}
			Next *string `json:"next_cursor"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || pages > 2 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		for _, e := range got.Items {
			seen = append(seen, e.Factor+" "+e.Reference+" "+e.IP)
			if e.ID == "" || e.At == "" || e.Until == "" || e.Count != "name" || e.Action != "challenge" || e.Times != 1 || e.Shadow {
				t.Errorf("%+v", e)
			}
		}
		if got.Next == nil {
			break
		}
		cursor = *got.Next
	}
	ann, bob := b.subject("name=ann").Reference, b.subject("name=bob").Reference
	if want := []string{"otp " + bob + " ", "password " + bob + " ", "password " + ann + " "}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
	w := b.call("GET", "/v1/login/history?limit=7&reference="+ann, "")
	if strings.Count(w.Body.String(), `"id"`) != 1 || b.history.asked != fmt.Sprintf("%q after %q, 7", ann, "") {
		t.Errorf("%s: %s", b.history.asked, w.Body)
	}
	b.history.events = []login.Event{{ID: "x", Rule: "r", Count: login.CountIP, Action: login.Ban, Factor: "otp", IP: "192.0.2.x"}}
	if w := b.call("GET", "/v1/login/history", ""); !strings.Contains(w.Body.String(), `"ip":"192.0.2.x","until":null`) {
		t.Errorf("%s", w.Body)
	}
	if w := call(setupLogin(t, func(c *Config) { c.LoginHistory = nil }).Internal(), "GET", "/v1/login/history", ""); w.Body.String() != `{"items":[],"next_cursor":null}`+"\n" {
		t.Errorf("%s", w.Body)
	}
	b.history.err = fmt.Errorf("%w: list: connection refused", history.ErrUnavailable)
	if p := problemIn(t, b.call("GET", "/v1/login/history", "")); p.Status != 503 || p.Reason != "store_unavailable" {
		t.Errorf("the database is away: %+v", p)
	}
}

// TestLoginRoles: services ask and settle; counts of subjects are for operators.
func TestLoginRoles(t *testing.T) {
	b := setupLogin(t, withTokens(t))
	for _, tt := range []struct {
		method, path, body string
		admit              int
	}{
		{"POST", attempts, attemptBody(), 200},
		{"POST", attempts + "/x/outcome", `{"result":"success"}`, 404},
		{"GET", "/v1/login/subjects?name=ann", "", 403},
		{"DELETE", "/v1/login/subjects?name=ann", "", 403},
		{"GET", "/v1/login/history", "", 403},
	} {
		for token, status := range map[string]int{"admit-token-of-tests": tt.admit, "metrics-token-of-tests": 403, "": 401} {
			if w := call(b.Internal(), tt.method, tt.path, tt.body, "X-Tidegate-Token", token); w.Code != status {
				t.Errorf("%s %s as %q: %d %s", tt.method, tt.path, token, w.Code, w.Body)
			}
		}
		if w := call(b.Internal(), tt.method, tt.path, tt.body, "X-Tidegate-Token", "operator-token-of-tests"); w.Code == 403 || w.Code == 401 {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, w.Code, w.Body)
		}
		if w := call(b.Public(), tt.method, tt.path, tt.body); w.Code != 404 {
			t.Errorf("%s %s in public: %d", tt.method, tt.path, w.Code)
		}
	}
	if w := call(setup(t).Internal(), "POST", attempts, attemptBody()); w.Code != http.StatusNotFound {
		t.Errorf("without a throttle: %d", w.Code)
	}
}

func TestLoginMatchesItsDocument(t *testing.T) {
	b := setupLogin(t)
	h, id := b.Internal(), b.attempt().AttemptID
	const subjects = "/v1/login/subjects"
	answers(t, h, "POST", attempts, attemptBody(), 200)
	answers(t, h, "POST", attempts+"/"+id+"/outcome", `{"result":"success"}`, 200)
	answers(t, h, "POST", attempts+"/"+id+"/outcome", `{"result":"failure"}`, 409)
	answers(t, h, "POST", attempts+"/x/outcome", `{"result":"failure"}`, 404)
	for range 30 {
		answers(t, h, "POST", attempts, attemptBody("mode", "report"), 200)
	}
	b.told()
	answers(t, h, "POST", attempts, attemptBody("ip", "192.0.2.8"), 200)
	answers(t, h, "POST", attempts, attemptBody("ip", "192.0.2.8", "captcha", "x"), 200)
	answers(t, h, "POST", attempts, attemptBody("ip", "x"), 422)
	answers(t, h, "GET", subjects+"?name=ann&ip=192.0.2.7", "", 200)
	answers(t, h, "GET", subjects, "", 422)
	answers(t, h, "GET", "/v1/login/history", "", 200)
	answers(t, h, "DELETE", subjects+"?name=ann&ip=192.0.2.7", "", 204)
}

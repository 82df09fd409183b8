package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/history"
)

func banned(kind bans.Kind, value string) bans.Ban {
	return bans.Ban{Target: bans.Target{Kind: kind, Value: value}, Rule: "api", Since: noon, Until: noon.Add(time.Hour), Times: 1}
}

func TestListBans(t *testing.T) {
	b := setup(t)
	b.gate.bans = []bans.Ban{
		banned(bans.User, "ann"), banned(bans.Network, "203.0.113.0/24"), banned(bans.User, "a b"), banned(bans.IP, "192.0.2.1"),
	}
	var seen []string
	for cursor, pages := "", 0; ; pages++ {
		w := call(b.Internal(), "GET", "/v1/bans?limit=1&cursor="+url.QueryEscape(cursor), "")
		var got struct {
			Items []struct {
				Kind, Value, Rule, Since, Until string
				Times                           int
			}
			Next *string `json:"next_cursor"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || len(got.Items) != 1 || pages > 4 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		first := got.Items[0]
		seen = append(seen, first.Kind+" "+first.Value)
		if first.Since != "2026-11-21T11:00:00.123Z" || first.Until != "2026-11-21T12:00:00.123Z" || first.Times != 1 || first.Rule != "api" {
			t.Errorf("%+v", first)
		}
		if got.Next == nil {
			break
		}
		cursor = *got.Next
	}
	if want := "[ip 192.0.2.1 network 203.0.113.0/24 user a b user ann]"; fmt.Sprint(seen) != want {
		t.Errorf("%v", seen)
	}
	if w := call(setup(t).Internal(), "GET", "/v1/bans", ""); w.Body.String() != `{"items":[],"next_cursor":null}`+"\n" {
		t.Errorf("%s", w.Body)
	}
	for _, query := range []string{"cursor=!", "limit=0", "limit=1001", "limit=x"} {
		if p := problemIn(t, call(b.Internal(), "GET", "/v1/bans?"+query, "")); p.Status != 422 {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// TestBanTargets: values in paths may be encoded in several ways, and are decoded once.
func TestBanTargets(t *testing.T) {
	for path, want := range map[string]bans.Target{
		"network/203.0.113.0/24":         {Kind: bans.Network, Value: "203.0.113.0/24"}, // as a person would type it
		"network/203.0.113.0%2F24":       {Kind: bans.Network, Value: "203.0.113.0/24"},
		"network/203.0.113.77%2f24":      {Kind: bans.Network, Value: "203.0.113.0/24"},
		"network/2001%3Adb8::%2F48":      {Kind: bans.Network, Value: "2001:db8::/48"},
		"ip/192.0.2.1":                   {Kind: bans.IP, Value: "192.0.2.1"},
		"ip/%3A%3Affff:192.0.2.1":        {Kind: bans.IP, Value: "192.0.2.1"},
		"user/ann":                       {Kind: bans.User, Value: "ann"},
		"user/%61nn":                     {Kind: bans.User, Value: "ann"},
		"user/ann%20lee":                 {Kind: bans.User, Value: "ann lee"},
		"user/100%25":                    {Kind: bans.User, Value: "100%"},
		"user/100%2525":                  {Kind: bans.User, Value: "100%25"},
		"user/a%2Fb%2520c":               {Kind: bans.User, Value: "a/b%20c"},
		"user/%C3%A9":                    {Kind: bans.User, Value: "é"},
		"device/:x":                      {Kind: bans.Device, Value: ":x"},
		"user/history":                   {Kind: bans.User, Value: "history"},
		"%75ser/ann":                     {Kind: bans.User, Value: "ann"},
		"user/" + url.PathEscape("?#&+"): {Kind: bans.User, Value: "?#&+"},
	} {
		b := setup(t)
		h := b.API.Internal() // the document has no path with a slash in the value
		w := call(h, "PUT", "/v1/bans/"+path, `{"for_ms":60000,"reason":"spam"}`)
		want := bans.Order{Target: want, For: time.Minute, Reason: "spam"}
		if w.Code != 200 || b.gate.ordered != want {
			t.Errorf("%s: %d %s %+v", path, w.Code, w.Body, b.gate.ordered)
			continue
		}
		var got struct{ Kind, Value, Reason, Until string }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Kind != string(want.Kind) || got.Value != want.Value || got.Reason != "spam" || got.Until == "" {
			t.Errorf("%s: %s", path, w.Body)
		}
		if p := problemIn(t, call(h, "DELETE", "/v1/bans/"+path, "")); p.Status != 404 || p.Reason != "unknown_ban" {
			t.Errorf("%s: %+v", path, p)
		}
		b.gate.bans = []bans.Ban{{Target: want.Target}}
		if w := call(h, "DELETE", "/v1/bans/"+path, ""); w.Code != 204 || w.Body.Len() != 0 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestBansHostile(t *testing.T) {
	b := setup(t)
	for _, tt := range []struct {
		path, body string
		status     int
		at         string
	}{
		{"user/ann", `{}`, 422, "body"},
		{"user/ann", `{"for_ms":0}`, 422, "body.for_ms"},
		{"user/ann", `{"for_ms":-1}`, 422, "body.for_ms"},
		{"user/ann", `{"for_ms":1.5}`, 422, "body.for_ms"},
		{"user/ann", `{"for_ms":"1"}`, 422, "body.for_ms"},
		{"user/ann", `{"for_ms":9223372036854775807}`, 422, "body.for_ms"},
		{"user/ann", `{"for_ms":1,"growing":true}`, 422, "body.growing"},
		{"user/ann", `{"for_ms":1,"reason":"` + strings.Repeat("x", 256) + `"}`, 422, "body.reason"},
		{"users/ann", `{"for_ms":1}`, 422, "path.kind"},
		{"ip/ann", `{"for_ms":1}`, 422, "path.value"},
		{"network/0.0.0.0%2F0", `{"for_ms":1}`, 422, "path.value"},
		{"network/203.0.113.0", `{"for_ms":1}`, 422, "path.value"},
		{"user/" + strings.Repeat("x", 256), `{"for_ms":1}`, 422, "path.value"},
		{"user/%00", `{"for_ms":1}`, 422, "path.value"},
		{"user/", `{"for_ms":1}`, 404, ""},
	} {
		p := problemIn(t, call(b.Internal(), "PUT", "/v1/bans/"+tt.path, tt.body))
		if p.Status != tt.status || tt.at != "" && p.Errors[0].Location != tt.at {
			t.Errorf("%.60s %.60s: %+v", tt.path, tt.body, p)
		}
	}
	if b.gate.ordered != (bans.Order{}) {
		t.Errorf("%+v", b.gate.ordered)
	}
	b.gate.err = failure.New(bans.ErrRefused, "192.0.2.1 is on the list office")
	if p := problemIn(t, call(b.Internal(), "PUT", "/v1/bans/ip/192.0.2.1", `{"for_ms":1}`)); p.Status != 409 || p.Reason != "conflict" || !strings.Contains(p.Detail, "office") {
		t.Errorf("%+v", p)
	}
	b.gate.err = admission.ErrUnavailable
	for _, method := range []string{"PUT", "DELETE"} {
		body := ""
		if method == "PUT" {
			body = `{"for_ms":1}`
		}
		if p := problemIn(t, call(b.Internal(), method, "/v1/bans/ip/192.0.2.1", body)); p.Status != 503 || p.Reason != "store_unavailable" {
			t.Errorf("%+v", p)
		}
	}
}

type banHistory []bans.Event

func (h banHistory) List(_ context.Context, after string, limit int) ([]bans.Event, error) {
	for i := range h {
		if after == "" || h[i].ID == after {
			if after != "" {
				i++
			}
			return h[i:min(i+limit, len(h))], nil
		}
	}
	return nil, nil
}

func TestBanHistory(t *testing.T) {
	ended := banned(bans.User, "ann")
	b := setup(t, func(c *Config) {
		c.Bans = banHistory{{ID: "2", At: noon.Add(time.Minute), Ban: ended, Lifted: true}, {ID: "1", At: noon, Ban: ended}}
	})
	var seen string
	for cursor := ""; ; {
		w := call(b.Internal(), "GET", "/v1/bans/history?limit=1&cursor="+cursor, "")
		var got struct {
			Items []struct{ ID, At, Event, Kind, Value, Rule string }
			Next  *string `json:"next_cursor"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.Items == nil {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		seen += fmt.Sprint(got.Items)
		if got.Next == nil {
			break
		}
		cursor = *got.Next
	}
	if want := "[{2 2026-11-21T11:01:00.123Z lifted user ann api}][{1 2026-11-21T11:00:00.123Z banned user ann api}][]"; seen != want {
		t.Errorf("%s", seen)
	}
	if w := call(setup(t).Internal(), "GET", "/v1/bans/history", ""); w.Body.String() != `{"items":[],"next_cursor":null}`+"\n" {
		t.Errorf("%s", w.Body)
	}
	if p := problemIn(t, call(b.Internal(), "GET", "/v1/bans/history?cursor=!", "")); p.Status != 422 {
		t.Errorf("%+v", p)
	}
	gone := setup(t, func(c *Config) { c.Bans = noHistory{} })
	if p := problemIn(t, call(gone.Internal(), "GET", "/v1/bans/history", "")); p.Status != 503 || p.Reason != "store_unavailable" {
		t.Errorf("the database is away: %+v", p)
	}
}

type noHistory struct{}

func (noHistory) List(context.Context, string, int) ([]bans.Event, error) {
	return nil, fmt.Errorf("%w: list: connection refused", history.ErrUnavailable)
}

// TestBannedCaller: a ban by an operator applies on all listeners, until it is lifted.
func TestBannedCaller(t *testing.T) {
	b := setup(t, realGate(t, twoAMinute))
	admitAnn := `{"subject":{"user":"ann"},"attributes":{"route":"/v1/x"}}`
	if d := admitted(t, b, admitAnn); !d.Admitted {
		t.Fatalf("%+v", d)
	}
	if w := call(b.Internal(), "PUT", "/v1/bans/user/ann", `{"for_ms":3600000,"reason":"a secret reason"}`); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if d := admitted(t, b, admitAnn); d.Admitted || d.Action != "ban" || d.Reason != "banned" || d.RetryAfter <= 3_500_000 || d.RetryAfter > 3_600_000 {
		t.Errorf("%+v", d)
	}
	w := call(b.Public(), "POST", placePath, `{"item":"shoe"}`, "X-User-ID", "ann")
	if p := problemIn(t, w); p.Status != 403 || p.Type != "/problems/banned" || p.Reason != "banned" || w.Header().Get("Retry-After") != "3600" || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%+v %v", p, w.Header())
	}
	w = call(b.Internal(), "GET", "/v1/authz", "", "X-User-ID", "ann", "X-Forwarded-Uri", "/v1/x", "X-Forwarded-Method", "GET")
	if p := problemIn(t, w); p.Status != 403 || p.Reason != "banned" || w.Header().Get("Retry-After") != "3600" {
		t.Errorf("%+v %v", p, w.Header())
	}
	if w := call(b.Internal(), "GET", "/v1/explain?user=ann", ""); !strings.Contains(w.Body.String(), `"reason":"a secret reason"`) {
		t.Errorf("%s", w.Body)
	}
	if w := call(b.Internal(), "DELETE", "/v1/bans/user/ann", ""); w.Code != 204 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if d := admitted(t, b, admitAnn); !d.Admitted {
		t.Errorf("%+v", d)
	}
}

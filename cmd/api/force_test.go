package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// hours are those of a sale, from now on.
type hours struct{ starts, ends time.Duration }

// definition returns the definition of a sale of two tickets.
func (h hours) definition(requiresUser bool) string {
	now := time.Now().UTC()
	return fmt.Sprintf(`{"starts_at":%q,"ends_at":%q,"requires_user":%t,"hold_ms":0,"items":[{"item":"ticket","stock":2}]}`,
		now.Add(h.starts).Format(time.RFC3339), now.Add(h.ends).Format(time.RFC3339), requiresUser)
}

// A change that shuts a running sale, or that admits other buyers than those who have ordered, needs ?force=true; any other does not.
func TestAChangeThatDisruptsASale(t *testing.T) {
	p := start(t, t.TempDir(), io.Discard)
	const hour = time.Hour
	running, later, over := hours{-2 * hour, 2 * hour}, hours{hour, 2 * hour}, hours{-2 * hour, -hour}
	const (
		shut     = "is open, and would be shut until its new start at "
		ended    = "and would end now, because its new end at "
		anybody  = "has orders, all of known users, and would take orders without a user as well"
		somebody = "has orders, and buyers without a user could neither order nor repeat an order any more"
	)
	for i, tt := range []struct {
		is       string // draft, open or paused
		hours    hours
		open     bool // to buyers without a user
		order    bool // somebody has ordered
		to       hours
		identity bool     // requires_user changes as well
		refused  []string // what the problem names; nil: the change needs no force
	}{
		{is: "open", hours: running, to: later, refused: []string{shut}},
		{is: "open", hours: running, to: over, refused: []string{ended}},
		{is: "open", hours: running, to: hours{-hour, hour}},
		{is: "open", hours: running, to: running, identity: true},
		{is: "open", hours: running, order: true, to: hours{-hour, hour}},
		{is: "open", hours: running, order: true, to: running, identity: true, refused: []string{anybody}},
		{is: "open", hours: running, order: true, open: true, to: running, identity: true, refused: []string{somebody}},
		{is: "open", hours: running, order: true, to: over, identity: true, refused: []string{ended, anybody}},
		{is: "open", hours: later, to: hours{2 * hour, 3 * hour}},
		{is: "open", hours: later, to: over, identity: true},
		{is: "open", hours: over, to: later},
		{is: "paused", hours: running, to: later},
		{is: "paused", hours: running, to: over},
		{is: "paused", hours: running, order: true, to: running, identity: true, refused: []string{anybody}},
		{is: "draft", hours: running, to: later, identity: true},
		{is: "draft", hours: running, to: over},
	} {
		sale := fmt.Sprint("sale-", i)
		t.Run(fmt.Sprintf("%s %s %v order %t to %v identity %t", sale, tt.is, tt.hours, tt.order, tt.to, tt.identity), func(t *testing.T) {
			at := p.URL("internal") + "/v1/sales/" + sale
			put := func(query, definition string) servetest.Answer {
				return servetest.Decided(func() servetest.Answer { return servetest.Call("PUT", at+query, definition) })
			}
			audited := func(outcome string, force bool) {
				t.Helper()
				var log struct {
					Items []struct{ Action, Target, Detail, Outcome string }
				}
				servetest.Call("GET", p.URL("internal")+"/v1/audit?limit=1", "").Into(t, &log)
				e := log.Items[0]
				if e.Action != "put-sale" || e.Target != "/v1/sales/"+sale || e.Outcome != outcome || strings.HasPrefix(e.Detail, `{"force":true,"starts_at":`) != force || strings.Contains(e.Detail, "force") != force {
					t.Errorf("%+v, want outcome %s, force %t", e, outcome, force)
				}
			}
			if a := put("", tt.hours.definition(!tt.open)); a.Status != http.StatusCreated {
				t.Fatal(a)
			}
			set := func(verb string) {
				t.Helper()
				servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("POST", at+"/"+verb, "") })
			}
			if tt.is != "draft" {
				set("open")
			}
			if tt.order {
				servetest.Until(t, http.StatusAccepted, func() servetest.Answer { return place(p, sale, "ann") })
			}
			if tt.is == "paused" {
				set("pause")
			}
			revision := func() (revision int64) {
				var list struct {
					Items []struct {
						Sale     string
						Revision int64
					}
				}
				servetest.Call("GET", p.URL("internal")+"/v1/sales", "").Into(t, &list)
				for _, s := range list.Items {
					if s.Sale == sale {
						return s.Revision
					}
				}
				return 0
			}
			before := revision()
			changed := tt.to.definition(!tt.open != tt.identity)
			a := put("?force=false", changed)
			if tt.refused == nil {
				if a.Status != http.StatusOK {
					t.Error(a)
				}
				audited("done", false)
				return
			}
			var problem struct{ Type, Reason, Detail string }
			a.Into(t, &problem)
			if a.Status != http.StatusConflict || problem.Reason != "force_required" || !strings.HasPrefix(problem.Detail, "sale "+sale+" ") || !strings.HasSuffix(problem.Detail, "; ?force=true does it") {
				t.Errorf("%v", a)
			}
			for _, what := range tt.refused {
				if !strings.Contains(problem.Detail, what) {
					t.Errorf("%q is not in %s", what, problem.Detail)
				}
			}
			audited("force_required", false)
			if now := revision(); now != before {
				t.Errorf("it has changed: revision %d after %d", now, before)
			}
			if a := put("?force=true", changed); a.Status != http.StatusOK {
				t.Error(a)
			}
			audited("done", true)
			for _, listener := range []string{"public", "internal"} {
				if a := servetest.Call("GET", p.URL(listener)+problem.Type, ""); a.Status != http.StatusOK || !strings.Contains(string(a.Body), "?force=true") {
					t.Errorf("%s does not explain %s: %v", listener, problem.Type, a)
				}
			}
		})
	}
	if a := servetest.Call("PUT", p.URL("internal")+"/v1/sales/sale-0?force=maybe", running.definition(true)); a.Status != http.StatusUnprocessableEntity {
		t.Error(a)
	}
	for listener, want := range map[string]bool{"public": false, "internal": true} {
		document := string(servetest.Call("GET", p.URL(listener)+"/openapi.json", "").Body)
		if strings.Contains(document, "?force=true") != want || strings.Contains(document, `"force"`) != want {
			t.Errorf("the document of the %s listener has force: want %t", listener, want)
		}
	}
}

package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestBatch(t *testing.T) {
	b := setup(t, realGate(t, twoAMinute))
	var asked []string
	for i := range 99 {
		asked = append(asked, fmt.Sprintf(`{"subject":{"user":"user-%d"},"attributes":{"route":"/v1/x"},"cost":%d}`, i%50, 1+i/50))
	}
	asked = append(asked, `{"mode":"refund","request_id":"never","subject":{"user":"ann"}}`)
	w := call(b.Internal(), "POST", "/v1/admit/batch", `{"requests":[`+strings.Join(asked, ",")+`]}`)
	var got struct{ Decisions []decided }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || len(got.Decisions) != 100 {
		t.Fatalf("%d %v %s", w.Code, err, w.Body)
	}
	for i, d := range got.Decisions[:99] {
		// Of a user's two requests, with cost 1 and 2, only the first one decided is admitted.
		if i < 49 && d.Admitted == got.Decisions[i+50].Admitted || d.Problem != nil {
			t.Errorf("%d: %+v %+v", i, d, got.Decisions[min(i+50, 98)])
		}
	}
	if last := got.Decisions[99]; last.Admitted || last.Problem == nil || last.Problem.Reason != "unknown_request" || last.Action != "" {
		t.Errorf("%+v", last)
	}
}

func TestBatchKeepsTheOrder(t *testing.T) {
	b := setup(t, realGate(t, "  - {name: api, subject: [user], limit: 100, window: 1m}\n"))
	var asked []string
	for i := range 100 {
		asked = append(asked, fmt.Sprintf(`{"subject":{"user":"user-%d"},"cost":%d}`, i, i+1))
	}
	w := call(b.Internal(), "POST", "/v1/admit/batch", `{"requests":[`+strings.Join(asked, ",")+`]}`)
	var got struct{ Decisions []decided }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for i, d := range got.Decisions {
		if d.Remaining == nil || *d.Remaining != 99-i {
			t.Errorf("%d: %+v", i, d)
		}
	}
}

func TestBatchHostile(t *testing.T) {
	b := setup(t)
	for body, at := range map[string]string{
		`{"requests":[]}`:   "body.requests",
		`{"requests":null}`: "body.requests",
		`{}`:                "body",
		`{"requests":[` + strings.Repeat("{},", 100) + `{}]}`: "body.requests",
		`{"requests":[{},{"subject":{"ip":"x"}}]}`:            "body.requests[1].subject.ip",
		`{"requests":[{},{"mode":"refund"}]}`:                 "body.requests[1].request_id",
		`{"requests":[{},{"attributes":{"device":"x"}}]}`:     "body.requests[1].attributes.device",
		`{"requests":[{},{"cost":0}]}`:                        "body.requests[1].cost",
		`{"requests":[{},{"colour":0}]}`:                      "body.requests[1].colour",
		`{"requests":[{},7]}`:                                 "body.requests[1]",
	} {
		if p := problemIn(t, call(b.Internal(), "POST", "/v1/admit/batch", body)); p.Status != 422 || p.Errors[0].Location != at {
			t.Errorf("%.80s: %+v", body, p)
		}
	}
	if len(b.gate.asked) != 0 {
		t.Errorf("something was charged before the rest was found wrong: %+v", b.gate.asked)
	}
	// A request that cannot be decided does not affect the others, and the cause is only in the log.
	b.gate.err = errors.New("with a password")
	w := call(b.Internal(), "POST", "/v1/admit/batch", `{"requests":[{}]}`)
	if !strings.Contains(w.Body.String(), `{"decisions":[{"problem":{"type":"/problems/internal"`) || strings.Contains(w.Body.String(), "password") ||
		!strings.Contains(b.logged.String(), "password") {
		t.Errorf("%d %s %s", w.Code, w.Body, b.logged)
	}
}

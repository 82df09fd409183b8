package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/dialects/koala/koalahttp"
)

const koalaFile = `[dicts]
[rules]
rule : [direct] [uid=black] [time=1; count=0] [result=2; return=101]
rule : [direct] [uid=white] [time=1; count=0] [result=1; return=102]
rule : [count] [act=ask; uid=+] [time=600; count=2] [result=2; return=201]
rule : [leak] [act=ask; uid=+] [time=600; count=9; erase1=1; erase2=3] [result=3; return=202]
rule : [direct] [act="a-b+c*d@e<f>g&h","%"] [time=1; count=0] [result=4; return=103]
rule : [base] [uip=+; act=base] [base=1; time=600; count=1] [result=2; return=203]
[result]
1 : {"Ret_type":1, "Str_reason":"Allow"}
2 : {"Ret_type":2, "Err_no":10, "Err_msg":"too often", "Str_reason":"Deny"}
3 : {"Ret_type":3, "Err_no":20, "Str_reason":"Vcode", "Need_vcode":1, "Vcode_len":4, "Vcode_type":5, "Other":"o", "Version":6}
4 : {"Ret_type":4, "Err_no":21, "Str_reason":"<b>it's \"a & b\"</b>"}
`

// overMemory sets up Koala's endpoints with a store in memory.
func overMemory(t testing.TB, change ...func(*koala.Options)) func(*Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.conf")
	if err := os.WriteFile(path, []byte(koalaFile), 0o600); err != nil {
		t.Fatal(err)
	}
	o := koala.Options{Path: path, Secret: []byte("sixteen bytes or more"), Alive: func(context.Context) error { return nil }}
	for _, c := range change {
		c(&o)
	}
	s, err := koala.New(memorystore.New(memorystore.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Koala = s }
}

func koalaResult(kind, code, number int, message, reason string) string {
	return fmt.Sprintf(`{"Ret_type":%d,"Ret_code":%d,"Err_no":%d,"Err_msg":%q,"Str_reason":%q,"Need_vcode":0,"Vcode_len":0,"Vcode_type":0,"Other":"","Version":0}`,
		kind, code, number, message, reason)
}

var (
	koalaNone     = koalaResult(0, 0, 0, "", "Allow")
	koalaWithin   = koalaResult(1, 0, 0, "", "Allow")
	koalaWhite    = koalaResult(1, 102, 0, "", "Allow")
	koalaBlack    = koalaResult(2, 101, 10, "too often", "Deny")
	koalaTooOften = koalaResult(2, 201, 10, "too often", "Deny")
	koalaVcode    = `{"Ret_type":3,"Ret_code":202,"Err_no":20,"Err_msg":"","Str_reason":"Vcode","Need_vcode":1,"Vcode_len":4,"Vcode_type":5,"Other":"o","Version":6}`
	koalaDone     = `{"err_no":0,"err_msg":"OK"}`
)

// TestKoalaEndpoints: a session with each endpoint, as Koala's clients see it, byte by byte. K6, K7, K8 and K10 over HTTP.
func TestKoalaEndpoints(t *testing.T) {
	h := setup(t, overMemory(t)).Internal()
	ask := "?act=ask&uid=7"
	for i, step := range []struct{ path, want string }{
		{"/rule/browse", koalaNone},
		{"/rule/browse?other=1", koalaNone},
		{"/rule/browse" + ask, koalaWithin},
		{"/rule/browse" + ask + "&_writeThrough=no", koalaWithin},
		{"/rule/browse" + ask + "&_writeThrough=", koalaWithin},
		{"/rule/value" + ask + "&rule_no=201", `{"err_no":0,"err_msg":"","cache_val":0}`},
		{"/rule/browse" + ask + "&_writeThrough=yes", koalaWithin},
		{"/rule/value" + ask + "&rule_no=201", `{"err_no":0,"err_msg":"","cache_val":1}`},
		{"/rule/update" + ask, koalaDone},
		{"/rule/value" + ask + "&rule_no=202", `{"err_no":0,"err_msg":"","cache_val":2}`},
		{"/rule/browse" + ask, koalaTooOften},
		{"/rule/browse" + ask + "&_writeThrough=yes", koalaTooOften},
		{"/rule/browse_complete" + ask + "&_writeThrough=yes", "[" + koalaTooOften + "]"},
		{"/rule/value" + ask + "&rule_no=202", `{"err_no":0,"err_msg":"","cache_val":2}`}, // refused requests are not counted
		{"/rule/feedback" + ask, koalaDone},
		{"/rule/value" + ask + "&rule_no=202", `{"err_no":0,"err_msg":"","cache_val":1}`},
		{"/rule/update" + ask, koalaDone},
		{"/rule/update" + ask, koalaDone},
		{"/rule/feedback" + ask + "&_feedbackType=erase2", koalaDone},
		{"/rule/value" + ask + "&rule_no=202", `{"err_no":0,"err_msg":"","cache_val":0}`},
		{"/rule/update" + ask, koalaDone},
		{"/rule/feedback" + ask + "&_feedbackType=erase1", koalaDone},
		{"/rule/value" + ask + "&rule_no=202", `{"err_no":0,"err_msg":"","cache_val":0}`},
		{"/rule/browse_complete", "[" + koalaNone + "]"},
		{"/rule/browse_complete?act=ask&uid=8", "[" + koalaWithin + "]"},
		{"/rule/browse_complete?act=ask&uid=8&_writeThrough=yes", "[" + koalaWithin + "]"},
		{"/rule/value?act=ask&uid=8&rule_no=201", `{"err_no":0,"err_msg":"","cache_val":1}`},
		{"/rule/browse?act=ask&uid=white", koalaWhite},
		{"/rule/browse?act=ask&uid=black", koalaBlack},
		{"/rule/browse?act=a-b%2Bc*d@e%3Cf%3Eg%26h", koalaResult(4, 103, 21, "", `<b>it's "a & b"</b>`)},
		{"/rule/browse?act=%25", koalaResult(4, 103, 21, "", `<b>it's "a & b"</b>`)},
		{"/rule/browse?act=base&uip=fd00::1&_writeThrough=yes", koalaWithin},
		{"/rule/browse?act=base&uip=fd00::1&_writeThrough=yes", koalaWithin},
		{"/rule/browse?act=base&uip=fd00::1&_writeThrough=yes", koalaResult(2, 203, 10, "too often", "Deny")},
		{"/monitor/alive", `{"errno":0,"errmsg":"OK!"}`},
	} {
		w := call(h, "GET", koalahttp.Path+step.path, "")
		if w.Code != 200 || w.Body.String() != step.want || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("step %d, %s: %d %v\n%s\nwant\n%s", i, step.path, w.Code, w.Header(), w.Body, step.want)
		}
	}
	// browse_complete also returns the rules after a white list.
	for range 9 {
		call(h, "GET", koalahttp.Path+"/rule/update?act=ask&uid=white", "")
	}
	w := call(h, "GET", koalahttp.Path+"/rule/browse_complete?act=ask&uid=white", "")
	if want := "[" + koalaWhite + "," + koalaTooOften + "," + koalaVcode + "]"; w.Body.String() != want {
		t.Errorf("%s\nwant\n%s", w.Body, want)
	}
}

// TestKoalaMultiBrowse: multi/browse as written by hand, and as sent by Koala's client for PHP: json_encode of urlencode of
// http_build_query.
func TestKoalaMultiBrowse(t *testing.T) {
	h := setup(t, overMemory(t)).Internal()
	for range 2 {
		call(h, "GET", koalahttp.Path+"/rule/update?act=ask&uid=a%26b%3D1+%25", "")
	}
	php := func(pairs ...string) string {
		query := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			query.Set(pairs[i], pairs[i+1])
		}
		return url.QueryEscape(query.Encode())
	}
	// PHP writes / as \/, and names the id Id.
	sdk := `[{"Id":"0","Arg":"` + php("act", "ask", "uid", "a&b=1 %") + `"},{"Id":"1","Arg":"` + php("act", "ask", "uid", "8") + `"},{"Id":"7","Arg":"` + php("uid", "black") + `"}]`
	byHand := `[{"ID":"0","Arg":"act=ask&uid=a%26b%3D1+%25"},{"ID":"1","Arg":"act=ask&uid=8"},{"id":"7","arg":"uid=black"}]`
	want := `[{"ID":"0","Id":"0","Result":` + koalaTooOften + `},{"ID":"1","Id":"1","Result":` + koalaWithin + `},{"ID":"7","Id":"7","Result":` + koalaBlack + `}]`
	for _, args := range []string{sdk, byHand} {
		if w := call(h, "GET", koalahttp.Path+"/multi/browse?argsJson="+url.QueryEscape(args), ""); w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s: %d %s\nwant %s", args, w.Code, w.Body, want)
		}
	}
	for args, want := range map[string]string{
		`[]`: `[]`, `null`: `[]`,
		`[{"Id":"x","Arg":""}]`: `[{"ID":"x","Id":"x","Result":` + koalaNone + `}]`,
		// A job that cannot be decided does not affect the others.
		`[{"Id":"1","Arg":"act=ask&act=x"},{"Id":"7","Arg":"uid=black"}]`: `[{"ID":"1","Id":"1","err_no":-1,"err_msg":"the parameter \"act\" comes twice"},{"ID":"7","Id":"7","Result":` + koalaBlack + `}]`,
		`[{"Id":"7","Arg":"uid=black"},{"Id":"1","Arg":"uid%253Dblack"}]`: `[{"ID":"7","Id":"7","Result":` + koalaBlack + `},{"ID":"1","Id":"1","err_no":-1,"err_msg":"Arg must be like act=ask&uid=7, got \"uid%3Dblack\""}]`,
		`[{"Id":"1","Arg":"%zz"},{"Id":"7","Arg":"uid=black"}]`:           `[{"ID":"1","Id":"1","err_no":-1,"err_msg":"Arg must be like act=ask&uid=7: invalid URL escape \"%zz\""},{"ID":"7","Id":"7","Result":` + koalaBlack + `}]`,
		`[{"Id":"<&>","Arg":"act=ask&uid=8"}]`:                            `[{"ID":"<&>","Id":"<&>","Result":` + koalaWithin + `}]`,
		// A job only browses: parameters that say how to count are refused.
		`[{"Id":"1","Arg":"act=ask&uid=8&_writeThrough=yes"},{"Id":"7","Arg":"uid=black"}]`: `[{"ID":"1","Id":"1","err_no":-1,"err_msg":"unknown parameter \"_writeThrough\""},{"ID":"7","Id":"7","Result":` + koalaBlack + `}]`,
		`[{"Id":"1","Arg":"_writeTrough%3Dyes"}]`:                                           `[{"ID":"1","Id":"1","err_no":-1,"err_msg":"unknown parameter \"_writeTrough\""}]`,
	} {
		if w := call(h, "GET", koalahttp.Path+"/multi/browse?argsJson="+url.QueryEscape(args), ""); w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s: %d %s", args, w.Code, w.Body)
		}
	}
	for range 2 { // nothing was counted
		if w := call(h, "GET", koalahttp.Path+"/rule/browse?act=ask&uid=8&_writeThrough=yes", ""); w.Body.String() != koalaWithin {
			t.Errorf("%s", w.Body)
		}
	}
	// As many as fit into a request.
	var many []map[string]string
	for i := range 500 {
		many = append(many, map[string]string{"Id": fmt.Sprint(i), "Arg": "act=ask&uid=" + []string{"black", "9"}[i%2]})
	}
	args, _ := json.Marshal(many)
	var got []struct {
		ID     string
		Result koala.Result
	}
	w := call(h, "GET", koalahttp.Path+"/multi/browse?argsJson="+url.QueryEscape(string(args)), "")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got) != 500 {
		t.Fatalf("%v: %d answers", err, len(got))
	}
	for i, one := range got {
		if one.ID != fmt.Sprint(i) || one.Result.RetCode != []int{101, 0}[i%2] {
			t.Errorf("%d: %+v", i, one)
		}
	}
}

// TestKoalaDumps: operators see today's tallies, and the rules.
func TestKoalaDumps(t *testing.T) {
	h := setup(t, overMemory(t)).Internal()
	for range 3 {
		call(h, "GET", koalahttp.Path+"/rule/browse?act=ask&uid=7&_writeThrough=yes", "")
	}
	var today struct {
		Date     string
		Counters []koala.Tally
	}
	for path, want := range map[string][]koala.Tally{
		"":             {{Rule: 201, Allow: 2, Deny: 1}, {Rule: 202, Allow: 2}},
		"?rule_no=201": {{Rule: 201, Allow: 2, Deny: 1}},
		"?rule_no=203": {{Rule: 203}},
	} {
		w := call(h, "GET", koalahttp.Path+"/dump/counter"+path, "")
		if err := json.Unmarshal(w.Body.Bytes(), &today); err != nil || len(today.Date) != 10 || !reflect.DeepEqual(today.Counters, want) {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
	var policy koala.Dump
	w := call(h, "GET", koalahttp.Path+"/dump/policy", "")
	if err := json.Unmarshal(w.Body.Bytes(), &policy); err != nil || len(policy.Rules) != 6 || policy.File != "rules.conf" || strings.Contains(w.Body.String(), os.TempDir()) {
		t.Errorf("%v %s", err, w.Body)
	}
	if r := policy.Rules[4]; r.Rule != 103 || r.Line != 7 || !reflect.DeepEqual(r.Keys, []string{`act="a-b+c*d@e<f>g&h","%"`}) {
		t.Errorf("%+v", r)
	}
}

// brokenKoala has a store that is down.
type brokenKoala struct{ koalahttp.Service }

var errAway = fmt.Errorf("%w: redis://hunter2@db refused", admission.ErrUnavailable)

func (brokenKoala) Browse(context.Context, koala.Params, bool) (koala.Result, error) {
	return koala.Result{}, errAway
}

func (brokenKoala) BrowseComplete(context.Context, koala.Params, bool) ([]koala.Result, error) {
	return nil, errAway
}

func (brokenKoala) BrowseAll(context.Context, []koala.Params) ([]koala.Answer, error) {
	return nil, errAway
}
func (brokenKoala) Update(context.Context, koala.Params) error            { return errAway }
func (brokenKoala) Feedback(context.Context, koala.Params, int) error     { return errAway }
func (brokenKoala) Value(context.Context, koala.Params, int) (int, error) { return 0, errAway }
func (brokenKoala) Alive(context.Context) error                           { return errors.New("hunter2 refused") }

// TestKoalaFailures: requests that cannot be decided get 500 without the cause, which is logged.
func TestKoalaFailures(t *testing.T) {
	b := setup(t, func(c *Config) { c.Koala = brokenKoala{} })
	for _, path := range koalaEndpoints(b) {
		if strings.HasPrefix(path, koalahttp.Path+"/dump/") {
			continue
		}
		want := `{"err_no":-1,"err_msg":"system error!"}`
		if path == koalahttp.Path+"/monitor/alive" {
			want = `{"errno":-1,"errmsg":"redis-error!"}`
		}
		b.logged.Reset()
		w := call(b.Internal(), "GET", path+"?rule_no=201&argsJson=[]", "")
		if w.Code != 500 || w.Body.String() != want || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if !strings.Contains(b.logged.String(), "hunter2") || !strings.Contains(b.logged.String(), path) {
			t.Errorf("%s: logged %s", path, b.logged)
		}
	}
}

// koalaEndpoints returns the paths of Koala's endpoints.
func koalaEndpoints(b *bed) (paths []string) {
	for _, r := range b.internal.Routes() {
		if strings.HasPrefix(r.Path, koalahttp.Path+"/") {
			paths = append(paths, r.Path)
		}
	}
	if len(paths) != 9 {
		b.test.Errorf("%v are not all of Koala's endpoints", paths)
	}
	return paths
}

package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/dialects/koala/koalahttp"
)

// TestKoalaWrongRequests: invalid requests get 400, and are not counted.
func TestKoalaWrongRequests(t *testing.T) {
	h := setup(t, overMemory(t)).Internal()
	long := strings.Repeat("x", 20_000)
	for path, want := range map[string]string{
		"/rule/browse?act=ask&act=ask":                                             `{"err_no":-1,"err_msg":"the parameter \"act\" comes twice"}`,
		"/rule/browse?act=ask&uid=7&_writeThrough=1":                               `{"err_no":-1,"err_msg":"_writeThrough must be yes or no, got \"1\""}`,
		"/rule/browse?act=ask&uid=7&_writeTrough=yes":                              `{"err_no":-1,"err_msg":"unknown parameter \"_writeTrough\""}`,
		"/rule/update?act=ask&uid=7&_writeThrough=yes":                             `{"err_no":-1,"err_msg":"unknown parameter \"_writeThrough\""}`,
		"/rule/browse_complete?act=ask&uid=7&_writeThrough=YES":                    `{"err_no":-1,"err_msg":"_writeThrough must be yes or no, got \"YES\""}`,
		"/rule/browse?act=ask&uid=7&_writeThrough=yes&_writeThrough=":              `{"err_no":-1,"err_msg":"the parameter \"_writeThrough\" comes twice"}`,
		"/rule/feedback?act=ask&uid=7&_feedbackType=erase3":                        `{"err_no":-1,"err_msg":"_feedbackType must be erase1 or erase2, got \"erase3\""}`,
		"/rule/value?act=ask&uid=7&rule_no=x":                                      `{"err_no":-1,"err_msg":"rule_no must be the return number of a rule, got \"x\""}`,
		"/rule/value?act=ask&uid=7&rule_no=-201":                                   `{"err_no":-1,"err_msg":"rule_no must be the return number of a rule, got \"-201\""}`,
		"/rule/value?act=ask&uid=7&rule_no=99999999999999999999":                   `{"err_no":-1,"err_msg":"rule_no must be the return number of a rule, got \"99999999999999999999\""}`,
		"/rule/value?act=ask&uid=7":                                                `{"err_no":-2,"err_msg":"unknown rule_no!"}`,
		"/rule/value?act=ask&uid=7&rule_no=999":                                    `{"err_no":-2,"err_msg":"unknown rule_no!"}`,
		"/dump/counter?rule_no=999":                                                `{"err_no":-2,"err_msg":"unknown rule_no!"}`,
		"/dump/counter?rule_no=0":                                                  `{"err_no":-1,"err_msg":"rule_no must be the return number of a rule, got \"0\""}`,
		"/rule/browse?act=%zz&uid=7":                                               "must be like act=ask&uid=7",
		"/rule/update?act=ask;uid=7":                                               "must be like act=ask&uid=7",
		"/multi/browse":                                                            "argsJson must be like",
		"/multi/browse?argsJson=":                                                  "argsJson must be like",
		"/multi/browse?argsJson=%7B%7D":                                            "argsJson must be like",
		"/multi/browse?argsJson=%5B1%5D":                                           "argsJson must be like",
		"/multi/browse?argsJson=%5B%7B%22Id%22:1%7D%5D":                            "argsJson must be like",
		"/multi/browse?argsJson=%5B%7B%22Arg%22:%22uid=%FF%22%7D%5D":               "is not valid UTF-8",
		"/multi/browse?argsJson=" + url.QueryEscape(`[{}]`):                        "job 1 has no Arg",
		"/multi/browse?argsJson=" + url.QueryEscape(`[{"Id":"7","Arg":null}]`):     "job 1 has no Arg",
		"/multi/browse?argsJson=" + url.QueryEscape(`[{"Id":"7","Args":"uid=7"}]`): "Args",
		"/multi/browse?argsJson=" + url.QueryEscape(`[]x`):                         "argsJson must be like",
		"/multi/browse?argsJson=" + url.QueryEscape(strings.Repeat("[", 20_000)):   "argsJson must be like",
		"/rule/browse?act=ask&uid=7&_writeThrough=" + long:                         "must be yes or no",
	} {
		w := call(h, "GET", koalahttp.Path+path, "")
		if w.Code != 400 || !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), `\u0026`) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%.100s: %d %.300s, want %s", path, w.Code, w.Body, want)
		}
	}
	for _, step := range []struct{ method, path string }{{"POST", "/rule/browse"}, {"POST", "/rule/update"}, {"DELETE", "/dump/policy"}} {
		if w := call(h, step.method, koalahttp.Path+step.path, ""); w.Code != 405 {
			t.Errorf("%s %s: %d", step.method, step.path, w.Code)
		}
	}
	if w := call(h, "GET", koalahttp.Path+"/rule/value?act=ask&uid=7&rule_no=201", ""); !strings.HasSuffix(w.Body.String(), `"cache_val":0}`) {
		t.Errorf("something was counted: %s", w.Body)
	}
}

// TestKoalaHostileParameters: every parameter is an ordinary value, or is refused: nothing breaks, and different values stay
// different.
func TestKoalaHostileParameters(t *testing.T) {
	h := setup(t, overMemory(t)).Internal()
	var many strings.Builder
	for i := range 9_000 {
		fmt.Fprintf(&many, "&p%d=1", i)
	}
	seen := map[string]bool{}
	for i, value := range []string{
		"%00", "%00%00", "a%00", "%FF", "%FE", "%ED%A0%80", "%C0%80", "%EF%BF%BD", "a%0A7", "7%0Dx", "%7C", "r201%7C7", "%7B%7E%7D", "..%2F..%2F", "%24%7Bx%7D",
		strings.Repeat("z", 30_000), strings.Repeat("z", 30_001), "%F0%9F%90%A8", "%E8%80%83%E6%8B%89", "user%3A7", "%2B", "%22", "%5C", "1e3", "0x7", "-0",
	} {
		if seen[value] {
			t.Fatal(value)
		}
		seen[value] = true
		for n := range 3 {
			w := call(h, "GET", koalahttp.Path+"/rule/browse?act=ask&_writeThrough=yes&uid="+value, "")
			if want := []string{koalaWithin, koalaWithin, koalaTooOften}[n]; w.Code != 200 || w.Body.String() != want {
				t.Errorf("%d, %.20s: time %d: %d %.200s", i, value, n, w.Code, w.Body)
			}
		}
	}
	for path, want := range map[string]int{
		"/rule/browse?act=ask&uid=7" + many.String():                                               200,
		"/rule/browse?act=ask&uid=7" + strings.ReplaceAll(many.String()[:20_000], "&", "&&&"):      200,
		"/rule/browse?act=ask&uid=7" + many.String() + strings.ReplaceAll(many.String(), "p", "q"): 400, // too many for net/url
		"/rule/browse?act=ask&uid=7&" + strings.Repeat("n", 20_000) + "=1":                         200,
		"/rule/browse?=1":         200,
		"/rule/browse?&&&":        200,
		"/rule/browse?act":        200,
		"/rule/browse?%00=%00":    200,
		"/rule/browse?%FF=1&%FE=": 200,
		"/rule/browse?user=" + strings.Repeat("u", 10_000) + "&device=%00&session=%FF&ip=none&route=%2F..&method=GET&tier=vip&koala_user=1": 400, // a user of that name could not be banned
		"/rule/browse?user=ann&device=d&session=s&ip=none&route=%2F..&method=GET&tier=vip&koala_user=1":                                     200,
	} {
		if w := call(h, "GET", koalahttp.Path+path, ""); w.Code != want || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%.60s: %d %.200s, want %d", path, w.Code, w.Body, want)
		}
	}
	if w := call(h, "GET", koalahttp.Path+"/rule/value?act=ask&uid=7&rule_no=201", ""); !strings.HasSuffix(w.Body.String(), `"cache_val":0}`) {
		t.Errorf("something was counted: %s", w.Body)
	}
}

// TestKoalaCallers checks roles and origins. Update is a GET here, so pages must not be able to send it.
func TestKoalaCallers(t *testing.T) {
	b := setup(t, overMemory(t), withTokens(t))
	h := b.Internal()
	for _, path := range koalaEndpoints(b) {
		endpoint := strings.TrimPrefix(path, koalahttp.Path)
		if endpoint == "/rule/value" {
			path += "?rule_no=201"
		}
		if endpoint == "/multi/browse" {
			path += "?argsJson=[]"
		}
		admit := 200
		if strings.HasPrefix(endpoint, "/dump/") {
			admit = 403
		}
		for _, tt := range []struct {
			who    string
			want   int
			fields []string
		}{
			{"nobody", 401, nil},
			{"a wrong token", 401, []string{"Authorization", "Bearer wrong"}},
			{"metrics", 403, []string{"Authorization", "Bearer metrics-token-of-tests"}},
			{"admit", admit, []string{"Authorization", "Bearer admit-token-of-tests"}},
			{"admit, by its own field", admit, []string{"X-Tidegate-Token", "admit-token-of-tests"}},
			{"operator", 200, []string{"Authorization", "Bearer operator-token-of-tests"}},
			{"operator, Basic", 200, []string{"Authorization", basic("any", "operator-token-of-tests")}},
			{"a page of another origin", 403, []string{"Authorization", basic("any", "operator-token-of-tests"), "Origin", "https://evil.example"}},
			{"an image on another site", 403, []string{"Authorization", basic("any", "operator-token-of-tests"), "Sec-Fetch-Site", "cross-site"}},
			{"an image on another port", 403, []string{"Authorization", basic("any", "operator-token-of-tests"), "Sec-Fetch-Site", "same-site"}},
			{"another name of the host", 200, []string{"Authorization", "Bearer operator-token-of-tests", "Host", "evil.example"}},
			{"its own page", 200, []string{"Authorization", "Bearer operator-token-of-tests", "Host", "localhost:8081", "Origin", "http://localhost:8081", "Sec-Fetch-Site", "same-origin"}},
			{"the address bar", 200, []string{"Authorization", basic("any", "operator-token-of-tests"), "Sec-Fetch-Site", "none"}},
		} {
			if w := call(h, "GET", path, "", tt.fields...); w.Code != tt.want {
				t.Errorf("%s by %s: %d, want %d: %s", path, tt.who, w.Code, tt.want, w.Body)
			}
		}
	}
	open := setup(t, overMemory(t)) // on loopback every caller is an operator, except pages
	for _, from := range []struct {
		want   int
		fields []string
	}{
		{200, nil},
		{403, []string{"Origin", "https://evil.example"}},
		{403, []string{"User-Agent", "Mozilla/5.0"}}, // an image, in a browser that sends neither Origin nor Sec-Fetch-Site
		{403, []string{"User-Agent", "Mozilla/5.0", "Referer", "https://evil.example/"}},
		{200, []string{"User-Agent", "Mozilla/5.0", "Sec-Fetch-Site", "none"}},
	} {
		if w := call(open.Internal(), "GET", koalahttp.Path+"/rule/update?act=ask&uid=7", "", from.fields...); w.Code != from.want {
			t.Errorf("%v: %d", from.fields, w.Code)
		}
	}
	if w := call(open.Public(), "GET", koalahttp.Path+"/rule/browse?act=ask", ""); w.Code != 404 {
		t.Errorf("the public has Koala's endpoints: %d", w.Code)
	}
	if w := call(setup(t).Internal(), "GET", koalahttp.Path+"/rule/browse?act=ask", ""); w.Code != 404 {
		t.Errorf("without a file: %d", w.Code)
	}
}

// TestK14UnknownPathsAreNotFound (K14): unknown paths are not found, and names of methods are no paths.
func TestK14UnknownPathsAreNotFound(t *testing.T) {
	h := setup(t, overMemory(t)).Internal()
	for _, path := range []string{"", "/", "/rule", "/rule/", "/rule/rewrite", "/rule/Browse", "/RULE/browse", "/rule/browsecomplete", "/rule/browse/", "/rule//browse", "/dump/all", "/admin/allrules", "/monitor/alive/x", "/rule/browse%2F"} {
		if w := call(h, "GET", koalahttp.Path+path, ""); w.Code != 404 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestK14ConnectionsAreKept (K14): connections are kept alive between requests.
func TestK14ConnectionsAreKept(t *testing.T) {
	server := httptest.NewUnstartedServer(setup(t, overMemory(t)).Internal())
	server.Config = Server(server.Config.Handler, 0)
	var connections atomic.Int32
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	for range 5 {
		w, err := server.Client().Get(server.URL + koalahttp.Path + "/rule/browse?act=ask&uid=7")
		if err != nil {
			t.Fatal(err)
		}
		var result koala.Result
		if err := json.NewDecoder(w.Body).Decode(&result); err != nil || w.Close || result.RetType != 1 {
			t.Errorf("%v %+v %+v", err, w, result)
		}
		w.Body.Close()
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

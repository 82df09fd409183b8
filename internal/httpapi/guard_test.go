package httpapi

import "testing"

// TestRebinding: without tokens the internal listener serves this machine's programs, and no page in its browser. A page of
// another origin cannot make a browser send a token in a separate field, so such requests are accepted wherever they claim to
// come from.
func TestRebinding(t *testing.T) {
	open := setup(t).Internal()
	guarded := setup(t, withTokens(t)).Internal()
	for _, tt := range []struct {
		name   string
		fields []string
		open   int // without tokens
	}{
		{"localhost", []string{"Host", "localhost:8081"}, 200},
		{"no port", []string{"Host", "LOCALHOST"}, 200},
		{"address", []string{"Host", "127.0.0.1:8081"}, 200},
		{"IPv6", []string{"Host", "[::1]:8081"}, 200},
		{"rebound name", []string{"Host", "evil.example:8081"}, 403},
		{"like localhost", []string{"Host", "localhost.evil.example"}, 403},
		{"other address", []string{"Host", "192.0.2.1:8081"}, 403},
		{"no host", []string{"Host", ""}, 403},
		{"own origin", []string{"Host", "localhost:8081", "Origin", "http://localhost:8081"}, 200},
		{"own origin behind a proxy", []string{"Host", "ops.example", "Origin", "https://ops.example", "Sec-Fetch-Site", "same-origin"}, 403},
		{"rebound name, another's origin", []string{"Host", "ops.example", "Origin", "https://evil.example"}, 403},
		{"foreign origin", []string{"Origin", "https://evil.example"}, 403},
		{"other port", []string{"Host", "localhost:8081", "Origin", "http://localhost:3000"}, 403},
		{"null origin", []string{"Origin", "null"}, 403},
		{"bad origin", []string{"Origin", "http://%zz"}, 403},
		{"cross-site fetch", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"fetch by another port", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"through a proxy", []string{"Host", "localhost:8081", "X-Forwarded-For", "192.0.2.7"}, 403},
		{"through another proxy", []string{"Host", "localhost:8081", "X-Real-IP", "192.0.2.7"}, 403},
		{"through a third", []string{"Host", "localhost:8081", "Via", "1.1 caddy"}, 403},
	} {
		for method, path := range map[string]string{"GET": "/v1/rules", "POST": "/v1/sales/flash/pause"} {
			w := call(open, method, path, "", tt.fields...)
			if w.Code != tt.open {
				t.Errorf("%s, %s: %d, want %d", tt.name, method, w.Code, tt.open)
			}
			if w.Code == 403 {
				if p := problemIn(t, w); p.Reason != "forbidden" {
					t.Errorf("%+v", p)
				}
			}
			if w := call(guarded, method, path, "", append([]string{"X-Tidegate-Token", "operator-token-of-tests"}, tt.fields...)...); w.Code != 200 {
				t.Errorf("%s, %s with a token: %d", tt.name, method, w.Code)
			}
		}
	}
}

// TestBasic: credentials that a browser adds by itself, such as a Basic password, are ignored in requests of pages of another
// origin. A gateway that can only use Basic forwards its clients' fields, and describes their request in fields that no page
// can set.
func TestBasic(t *testing.T) {
	h := setup(t, withTokens(t), overMemory(t)).Internal()
	operator := []string{"Authorization", basic("any", "operator-token-of-tests")}
	forwarded := []string{"X-Forwarded-Uri", "/shop", "X-Forwarded-Method", "GET"}
	for _, tt := range []struct {
		method, path string
		fields       []string
		own, foreign int
	}{
		{"GET", "/v1/authz", forwarded, 200, 200},
		{"GET", "/v1/authz", nil, 422, 403},
		{"GET", "/v1/authz/shop", nil, 200, 403},
		{"POST", "/v1/authz/shop", nil, 200, 403},
		{"GET", "/koala/rule/update?act=ask&uid=7", nil, 200, 403},
		{"GET", "/koala/dump/policy", nil, 200, 403},
		{"GET", "/v1/rules", nil, 401, 401},
		{"GET", "/events", nil, 401, 401},
		{"POST", "/v1/sales/flash/pause", nil, 401, 401},
		{"GET", "/v1/sales/flash/orders.csv", nil, 401, 401},
		{"GET", "/koala/rule/update?act=ask&uid=7", []string{"User-Agent", "Mozilla/5.0"}, 403, 403}, // an image of a page of another origin, over plain HTTP
		{"GET", "/v1/authz", append(forwarded, "User-Agent", "Mozilla/5.0"), 200, 200},
	} {
		with := append(append([]string{}, operator...), tt.fields...)
		if w := call(h, tt.method, tt.path, "", with...); w.Code != tt.own {
			t.Errorf("%s %s: %d, want %d: %s", tt.method, tt.path, w.Code, tt.own, w.Body)
		}
		for _, from := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
			if w := call(h, tt.method, tt.path, "", append(append([]string{}, with...), from...)...); w.Code != tt.foreign {
				t.Errorf("%s %s from %v: %d, want %d: %s", tt.method, tt.path, from, w.Code, tt.foreign, w.Body)
			}
		}
	}
}

// TestALinkToThePage: a link opens the page. Without tokens, pages of another origin get nothing else.
func TestALinkToThePage(t *testing.T) {
	h := setup(t, withPage).Internal()
	linked := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	for _, tt := range []struct {
		name, method, path string
		but                map[string]string
		want               int
	}{
		{"a link", "GET", "/", nil, 200},
		{"on another port", "GET", "/", map[string]string{"Sec-Fetch-Site": "same-site"}, 200},
		{"to a name that was led here", "GET", "/", map[string]string{"Host": "evil.example"}, 403},
		{"a frame", "GET", "/", map[string]string{"Sec-Fetch-Dest": "iframe"}, 403},
		{"an image", "GET", "/", map[string]string{"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403},
		{"a fetch", "GET", "/", map[string]string{"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, 403},
		{"a form", "POST", "/", nil, 403},
		{"a link to a script", "GET", "/assets/main.js", nil, 403},
		{"a link to the stream", "GET", "/events", nil, 403},
		{"a link to the rules", "GET", "/v1/rules", nil, 403},
		{"a form that changes", "POST", "/v1/sales/flash/pause", nil, 403},
	} {
		var fields []string
		for _, of := range []map[string]string{linked, tt.but} {
			for name, value := range of {
				fields = append(fields, name, value)
			}
		}
		if w := call(h, tt.method, tt.path, "", fields...); w.Code != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, w.Code, tt.want)
		}
	}
}

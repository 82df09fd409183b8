package httpapi

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Without tokens the internal listener serves this machine's programs, and no
// page in its browser. With tokens it does not ask by which name it was found.
func TestRebinding(t *testing.T) {
	open := setup(t).Internal()
	guarded := setup(t, withTokens(t)).Internal()
	for _, tt := range []struct {
		name                       string
		fields                     []string
		read, change               int // without tokens
		guardedRead, guardedChange int
	}{
		{"localhost", []string{"Host", "localhost:8081"}, 200, 200, 200, 200},
		{"no port", []string{"Host", "LOCALHOST"}, 200, 200, 200, 200},
		{"address", []string{"Host", "127.0.0.1:8081"}, 200, 200, 200, 200},
		{"IPv6", []string{"Host", "[::1]:8081"}, 200, 200, 200, 200},
		{"rebound name", []string{"Host", "evil.example:8081"}, 403, 403, 200, 200},
		{"like localhost", []string{"Host", "localhost.evil.example"}, 403, 403, 200, 200},
		{"other address", []string{"Host", "192.0.2.1:8081"}, 403, 403, 200, 200},
		{"no host", []string{"Host", ""}, 403, 403, 200, 200},
		{"own origin", []string{"Host", "localhost:8081", "Origin", "http://localhost:8081"}, 200, 200, 200, 200},
		{"own origin behind a proxy", []string{"Host", "ops.example", "Origin", "https://ops.example", "Sec-Fetch-Site", "same-origin"}, 403, 403, 200, 200},
		{"rebound name, another's origin", []string{"Host", "ops.example", "Origin", "https://evil.example"}, 403, 403, 200, 403},
		{"foreign origin", []string{"Origin", "https://evil.example"}, 403, 403, 200, 403},
		{"other port", []string{"Host", "localhost:8081", "Origin", "http://localhost:3000"}, 403, 403, 200, 403},
		{"null origin", []string{"Origin", "null"}, 403, 403, 200, 403},
		{"bad origin", []string{"Origin", "http://%zz"}, 403, 403, 200, 403},
		{"cross-site fetch", []string{"Sec-Fetch-Site", "cross-site"}, 403, 403, 200, 403},
		{"fetch by another port", []string{"Sec-Fetch-Site", "same-site"}, 403, 403, 200, 403},
	} {
		with := append([]string{"X-Tidegate-Token", "operator-token"}, tt.fields...)
		for name, c := range map[string]struct {
			w    *httptest.ResponseRecorder
			want int
		}{
			"read":           {call(open, "GET", "/v1/rules", "", tt.fields...), tt.read},
			"change":         {call(open, "POST", "/v1/sales/flash/pause", "", tt.fields...), tt.change},
			"guarded read":   {call(guarded, "GET", "/v1/rules", "", with...), tt.guardedRead},
			"guarded change": {call(guarded, "POST", "/v1/sales/flash/pause", "", with...), tt.guardedChange},
		} {
			if c.w.Code != c.want {
				t.Errorf("%s, %s: %d, want %d", tt.name, name, c.w.Code, c.want)
			}
			if c.w.Code == 403 {
				if p := problemIn(t, c.w); p.Reason != "forbidden" {
					t.Errorf("%+v", p)
				}
			}
		}
	}
}

// A link to the page opens it. Whatever else a page of another origin asks for without tokens, it does not get.
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

// A listener that is not on loopback is known by names we cannot know.
func TestServiceNames(t *testing.T) {
	h := setup(t, withTokens(t)).Internal()
	local := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 8081}
	for origin, want := range map[string]int{"": 200, "http://api:8081": 200, "https://evil.example": 403} {
		r := httptest.NewRequest("POST", "/v1/sales/flash/pause", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
		r.Host = "api:8081"
		r.Header.Set("Authorization", "Bearer operator-token")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d %s", origin, w.Code, w.Body)
		}
	}
}

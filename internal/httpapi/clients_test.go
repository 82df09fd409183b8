package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestGatewaysMaySpeakHTTP2 without TLS, on both listeners.
func TestGatewaysMaySpeakHTTP2(t *testing.T) {
	b := setup(t)
	for name, h := range map[string]http.Handler{"public": b.Public(), "internal": b.Internal()} {
		server := httptest.NewUnstartedServer(nil)
		server.Config = Server(h, 0)
		server.Start()
		defer server.Close()
		for major, unencrypted := range map[int]bool{1: false, 2: true} {
			protocols := new(http.Protocols)
			protocols.SetHTTP1(!unencrypted)
			protocols.SetUnencryptedHTTP2(unencrypted)
			transport := &http.Transport{Protocols: protocols}
			defer transport.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+placePath, strings.NewReader(`{"item":"shoe"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatalf("%s, HTTP/%d: %v", name, major, err)
			}
			_ = resp.Body.Close()
			if want := http.StatusAccepted; resp.ProtoMajor != major || resp.StatusCode != want {
				t.Errorf("%s: HTTP/%d and %s, want HTTP/%d and %d", name, resp.ProtoMajor, resp.Status, major, want)
			}
		}
	}
}

// TestKeysMayBeQuoted as strings of structured fields.
func TestKeysMayBeQuoted(t *testing.T) {
	for sent, want := range map[string]string{
		`k`: `k`, `"k"`: `k`, `"a\"b\\c"`: `a"b\c`, `k"`: `k"`, `k"k"`: `k"k"`, `"a b"`: `a b`,
		`"`: "", `""`: "", `"k`: "", `"k"x`: "", `"a"b"`: "", `"a\b"`: "", `"k\"`: "", `"k\`: "", `"k";p=1`: "",
	} {
		b := setup(t)
		w := call(b.Public(), "POST", placePath, `{"item":"shoe"}`, "X-User-ID", "ann", "Idempotency-Key", sent)
		if want == "" {
			if p := problemIn(t, w); p.Status != 422 || !strings.Contains(w.Body.String(), "header.Idempotency-Key") {
				t.Errorf("%s: %+v", sent, p)
			}
			continue
		}
		if len(b.orders.requests) == 0 {
			t.Fatalf("%s: %d %s", sent, w.Code, w.Body)
		}
		if got := b.orders.requests[0].Key; w.Code != 202 || got != want {
			t.Errorf("%s: %d, and the key is %s, want %s", sent, w.Code, got, want)
		}
	}
}

// TestAByteOrderMarkIsSkipped before JSON, as some programs write it.
func TestAByteOrderMarkIsSkipped(t *testing.T) {
	b := setup(t)
	const bom = "\uFEFF"
	for _, body := range []string{`{"item":"shoe"}`, `{"item":"sh\u006fe"}`} { // the second is not decoded by the fast path
		if w := call(b.Public(), "POST", placePath, bom+body); w.Code != 202 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	admit := `{"subject": {"user": "ann"}, "attributes": {"route": "/x", "method": "GET"}}`
	if w := call(b.Internal(), "POST", "/v1/admit", bom+admit); w.Code != 200 {
		t.Errorf("admit: %d %s", w.Code, w.Body)
	}
	for _, body := range []string{bom, bom + bom + admit, "\xef\xbb" + admit} {
		if w := call(b.Internal(), "POST", "/v1/admit", body); w.Code < 400 || w.Code >= 500 {
			t.Errorf("%q: %d", body, w.Code)
		}
	}
}

// TestPagesMaySendFieldsOfTracing, and those of CORSHeaders.
func TestPagesMaySendFieldsOfTracing(t *testing.T) {
	b := setup(t, func(c *Config) {
		c.CORSOrigins, c.CORSHeaders = []string{"https://shop.example"}, []string{"X-Campaign"}
	})
	w := call(b.Public(), "OPTIONS", placePath, "", "Origin", "https://shop.example", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "baggage,traceparent,tracestate,x-campaign")
	allowed := strings.ToLower(w.Header().Get("Access-Control-Allow-Headers"))
	for _, name := range []string{"baggage", "traceparent", "tracestate", "x-campaign"} {
		if !strings.Contains(allowed, name) {
			t.Errorf("%s is not allowed: %s", name, allowed)
		}
	}
}

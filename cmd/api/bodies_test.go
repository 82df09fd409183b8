package main

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// exchange sends a request with exactly these fields, without even a Content-Type by default.
func exchange(t *testing.T, method, url, body string, header http.Header) servetest.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return servetest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: content, Err: err}
}

// Every call with a body requires JSON as its content type: any page can submit a form, with the user's cookie for the proxy in front.
func TestABodyWithoutItsType(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	p := startWith(t, nil)
	putOnSale(t, p, "concert", 3)
	parameter := regexp.MustCompile(`\{\w+\}`)
	for listener, least := range map[string]int{"public": 1, "internal": 10} {
		var described struct {
			Paths map[string]map[string]struct{ RequestBody any }
		}
		servetest.Call("GET", p.URL(listener)+"/openapi.json", "").Into(t, &described)
		taking := 0
		for path, methods := range described.Paths {
			for method, op := range methods {
				if op.RequestBody == nil {
					continue
				}
				taking++
				for name, header := range map[string]http.Header{
					"none":        {},
					"empty":       {"Content-Type": {""}},
					"text":        {"Content-Type": {"text/plain"}},
					"form":        {"Content-Type": {"application/x-www-form-urlencoded"}},
					"twice":       {"Content-Type": {"application/json", "text/plain"}},
					"twice alike": {"Content-Type": {"application/json", "application/json"}},
					"gzip":        {"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}},
				} {
					a := exchange(t, strings.ToUpper(method), p.URL(listener)+parameter.ReplaceAllString(path, "concert"), `{"item":"ticket"}`, header)
					wrong := "Content-Type must be"
					if name == "gzip" {
						wrong = "Content-Encoding must be"
					}
					if a.Status != http.StatusUnsupportedMediaType || !bytes.Contains(a.Body, []byte(wrong)) {
						t.Errorf("%s: %s %s with type %s: %v", listener, method, path, name, a)
					}
				}
			}
		}
		if taking < least {
			t.Errorf("%s: only %d calls take a body", listener, taking)
		}
	}
	if a := place(p, "concert", "ann"); a.Status != http.StatusAccepted {
		t.Errorf("with its type: %v", a)
	}
}

func TestBodiesThatSayTwoThings(t *testing.T) {
	p := startWith(t, nil)
	putOnSale(t, p, "concert", 3)
	for _, tt := range []struct{ listener, method, path, body, at string }{
		{"public", "POST", "/v1/sales/concert/orders", `{"item":"ticket","quantity":null}`, "body.quantity"},
		{"public", "POST", "/v1/sales/concert/orders", `{"item":"ticket","quantity":1,"quantity":1}`, "body.quantity"},
		{"public", "POST", "/v1/sales/concert/orders", `{"item":"other","\u0069tem":"ticket"}`, "body.item"},
		{"internal", "POST", "/v1/admit", `{"subject":{"user":"ann","user":"bob"}}`, "body.subject.user"},
		{"internal", "POST", "/v1/admit", `{"subject":{"user":"ann"},"attributes":{"plan":"free","plan":"gold"}}`, "body.attributes.plan"},
		{"internal", "POST", "/v1/admit", `{"subject":{"user":"ann"},"cost":null}`, "body.cost"},
		{"internal", "POST", "/v1/admit/batch", `{"requests":[{"subject":{"user":"ann"}},{"subject":{"user":null}}]}`, "body.requests[1].subject.user"},
		{"internal", "POST", "/v1/login/attempts", `{"name":"ann","ip":"192.0.2.1","mode":"check","mode":"report"}`, "body.mode"},
		{"internal", "PUT", "/v1/semaphores/x", `{"limit":1,"limit":2}`, "body.limit"},
	} {
		a := servetest.Call(tt.method, p.URL(tt.listener)+tt.path, tt.body, "X-User-ID", "ann")
		if a.Status != http.StatusUnprocessableEntity || !bytes.Contains(a.Body, []byte(`"location":"`+tt.at+`"`)) {
			t.Errorf("%s %s: %v, want 422 at %s", tt.path, tt.body, a, tt.at)
		}
	}
}

// The proxy in front identifies users by a cookie, which browsers add to requests from any page.
func TestAForeignPageOrdersNothing(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	p := startWith(t, map[string]string{"CORS_ORIGINS": "https://shop.example"})
	putOnSale(t, p, "concert", 30)
	all := startWith(t, map[string]string{"CORS_ORIGINS": "*"})
	putOnSale(t, all, "concert", 30)

	var o order
	place(p, "concert", "victim").Into(t, &o)
	look(t, p, o.OrderID, "victim")
	for _, tt := range []struct {
		name   string
		p      *servetest.Program
		header http.Header
		want   int
	}{
		{"no browser", p, http.Header{}, 202},
		{"the page of this host", p, http.Header{"Origin": {p.URL("public")}}, 202},
		{"as its browser says", p, http.Header{"Origin": {"https://behind-a-proxy.example"}, "Sec-Fetch-Site": {"same-origin"}}, 202},
		{"the shop's page", p, http.Header{"Origin": {"https://shop.example"}, "Sec-Fetch-Site": {"cross-site"}}, 202},
		{"any page, when all may", all, http.Header{"Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}, 202},
		{"a foreign page", p, http.Header{"Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}, 403},
		{"a neighbour's page", p, http.Header{"Origin": {"https://evil.shop.example"}, "Sec-Fetch-Site": {"same-site"}}, 403},
		{"an old browser", p, http.Header{"Origin": {"https://evil.example"}}, 403},
		{"a page without an origin", p, http.Header{"Origin": {"null"}}, 403},
		{"no origin", p, http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"the shop without TLS", p, http.Header{"Origin": {"http://shop.example"}}, 403},
	} {
		tt.header["Content-Type"] = []string{"application/json"}
		tt.header["X-User-Id"] = []string{tt.name}
		a := exchange(t, "POST", tt.p.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, tt.header)
		if a.Status != tt.want {
			t.Errorf("%s: %v, want %d", tt.name, a, tt.want)
		}
		if origin := tt.header.Get("Origin"); a.Status == 403 && (!bytes.Contains(a.Body, []byte("CORS_ORIGINS")) || !bytes.Contains(a.Body, []byte(origin))) {
			t.Errorf("%s: %v does not say what is right", tt.name, a)
		}
		if tt.want == 403 { // nor does a form without a body, which needs no preflight
			delete(tt.header, "Content-Type")
			tt.header["X-User-Id"] = []string{"victim"}
			if a := exchange(t, "POST", p.URL("public")+"/v1/orders/"+o.OrderID+"/cancel", "", tt.header); a.Status != 403 {
				t.Errorf("%s cancels: %v", tt.name, a)
			}
		}
		delete(tt.header, "Content-Type")
		if a := exchange(t, "GET", tt.p.URL("public")+"/v1/sales/concert", "", tt.header); a.Status != 200 {
			t.Errorf("%s reads: %v", tt.name, a)
		}
	}
}

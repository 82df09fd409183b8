package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// raw sends text to a listener, and returns the first answer with its body, and what followed it until the connection was closed.
func raw(t *testing.T, addr, text string) (first *http.Response, body, rest string) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	first, err = http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	content, err := io.ReadAll(first.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Body.Close()
	after, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%.60q: the connection stays open: %v", text, err)
	}
	return first, string(content), string(after)
}

// What no handler gets to see is answered by a problem all the same, on both listeners.
func TestProblemsBeforeAnyHandler(t *testing.T) {
	p := start(t, t.TempDir(), io.Discard)
	for _, listener := range []string{"public", "internal"} {
		for _, tt := range []struct {
			text, reason, detail string
			status               int
		}{
			{"not a request\r\n\r\n", "malformed_request", "", 400},
			{"GET /livez HTTP/1.1\r\n\r\n", "malformed_request", "missing required Host header", 400},
			{"GET /livez HTTP/1.1\r\nHost: localhost\r\nExpect: nonsense\r\n\r\n", "expectation_failed", "", 417},
			{"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 40<<10) + "\r\n\r\n", "header_too_large", "", 431},
			{"POST /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", "unsupported_transfer_coding", "", 501},
			{"GET /livez HTTP/3.0\r\nHost: localhost\r\n\r\n", "unsupported_http_version", "unsupported protocol version", 505},
		} {
			answer, body, rest := raw(t, p.Addr(listener), tt.text)
			var problem struct {
				Type, Title, Reason, Detail string
				Status                      int
			}
			err := json.Unmarshal([]byte(body), &problem)
			if err != nil || answer.StatusCode != tt.status || answer.Header.Get("Content-Type") != "application/problem+json" || rest != "" ||
				problem.Status != tt.status || problem.Reason != tt.reason || problem.Detail != tt.detail || problem.Title == "" {
				t.Errorf("%s, %.60q: %v %s %v, then %q", listener, tt.text, answer.Status, body, err, rest)
			}
			if a := servetest.Call("GET", p.URL(listener)+problem.Type, ""); a.Status != http.StatusOK {
				t.Errorf("%s is not explained: %v", problem.Type, a)
			}
		}
		// With two different lengths in a request, the rest of the stream cannot be trusted.
		answer, body, rest := raw(t, p.Addr(listener), "POST /v1/sales/spring/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if rest != "" || !answer.Close {
			t.Errorf("%s: Content-Length and chunked: %v %s, then %q", listener, answer.Status, body, rest)
		}
	}
}

// Every refusal says what is wrong, and what would be right.
func TestRefusalsSayWhatIsRight(t *testing.T) {
	p := start(t, t.TempDir(), io.Discard)
	putOnSale(t, p, "concert", 3)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL("internal")+"/v1/rules", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "gate.example"
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if err != nil || answer.StatusCode != http.StatusForbidden || !strings.Contains(string(body), `\"gate.example\", and must be localhost, 127.0.0.1 or [::1]`) {
		t.Errorf("a foreign Host: %v %s %v", answer.Status, body, err)
	}
	a := servetest.Call("GET", p.URL("internal")+"/v1/rules", "", "Origin", "https://evil.example")
	if a.Status != http.StatusForbidden || !strings.Contains(string(a.Body), `Origin \"https://evil.example\"`) || !strings.Contains(string(a.Body), "Only pages of 127.0.0.1:") {
		t.Errorf("a foreign origin: %v", a)
	}
	a = servetest.Call("PUT", p.URL("internal")+"/v1/bans/user/bob", `{"for_ms":999999999999}`)
	if a.Status != http.StatusUnprocessableEntity || !strings.Contains(string(a.Body), "expected number <= 316224000000") {
		t.Errorf("a number too large: %v", a)
	}
	var o order
	place(p, "concert", "ann").Into(t, &o)
	look(t, p, o.OrderID, "ann")
	a = servetest.Call("POST", p.URL("public")+"/v1/orders/"+o.OrderID+"/cancel", "", "X-User-ID", "ann")
	if a.Status != http.StatusConflict || !strings.Contains(string(a.Body), "is confirmed, which is final where the sale's hold_ms is 0") {
		t.Errorf("to cancel what is final: %v", a)
	}
	a = servetest.Call("PUT", p.URL("internal")+"/v1/sales/concert", servetest.Sale("ticket", 2))
	if a.Status != http.StatusConflict || strings.Count(string(a.Body), "contradicts") != 1 {
		t.Errorf("less stock: %v", a)
	}
}

package httpapi

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHeadIsGetWithoutABody(t *testing.T) {
	b := setup(t)
	server := httptest.NewServer(b.Public())
	defer server.Close()
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/v1/sales/flash": 200, "/nothing": 404, "/v1/orders/x": 404} {
		resp, err := server.Client().Head(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != want || len(body) > 0 {
			t.Errorf("HEAD %s: %d %q %v, want %d", path, resp.StatusCode, body, err, want)
		}
	}
}

func TestWhatABodyMayBe(t *testing.T) {
	b := setup(t)
	for said, want := range map[string]int{
		"application/json": 202, "Application/JSON": 202, "application/json; charset=UTF-8": 202, "": 415,
		"application/json; charset=utf-16": 415, "application/problem+json": 415, "text/plain": 415, "json": 415, ";;;": 415,
	} {
		w := call(b.Public(), "POST", "/v1/sales/flash/orders", orderBody, "Content-Type", said, "X-User-ID", "ada")
		if w.Code != want {
			t.Errorf("Content-Type %q: %d %s, want %d", said, w.Code, w.Body, want)
		}
	}
}

func TestAFieldThatStandsTwice(t *testing.T) {
	b := setup(t)
	for _, name := range single {
		r := httptest.NewRequest("POST", "/v1/sales/flash/orders", strings.NewReader(orderBody))
		r.RemoteAddr = "127.0.0.1:4000"
		r.Header[name] = []string{"one", "two"}
		w := httptest.NewRecorder()
		b.Public().ServeHTTP(w, r)
		if p := problemIn(t, w); p.Status != 422 || len(p.Errors) != 1 || p.Errors[0].Location != "header."+name {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestNumbersThatAreNoIntegers(t *testing.T) {
	b := setup(t)
	for _, quantity := range []string{"1.0", "1e0", "1.5", "1e400"} {
		w := call(b.Public(), "POST", "/v1/sales/flash/orders", `{"item":"shoe","quantity":`+quantity+`}`, "X-User-ID", "ada")
		if p := problemIn(t, w); p.Status != 422 || strings.Contains(w.Body.String(), "Go struct") || strings.Contains(w.Body.String(), "json:") {
			t.Errorf("%s: %s", quantity, w.Body)
		}
	}
}

// TestCharactersThatAreNone: values that encoding/json would map to the same U+FFFD must not become the same reference or user.
func TestCharactersThatAreNone(t *testing.T) {
	b := setup(t, withSemaphores(t))
	for route, body := range map[string]string{
		"POST /v1/sales/flash/orders":                      `{"item":"shoe?"}`,
		"POST /v1/orders/" + orderID.String() + "/payment": `{"outcome":"captured","reference":"ref-?"}`,
		"PUT /v1/sales/flash":                              strings.Replace(definition, "shoe", "shoe?", 1),
		"POST /v1/admit":                                   `{"subject":{"user":"ann?"}}`,
		"POST /v1/admit/batch":                             `{"requests":[{"subject":{"user":"ann?"}}]}`,
		"PUT /v1/bans/user/ann":                            `{"for_ms":1000,"reason":"spam?"}`,
		"PUT /v1/semaphores/render":                        `{"limit?":1}`,
		"POST /v1/semaphores/render/permits":               `{"holder":"ann?"}`,
	} {
		listeners := []http.Handler{b.Internal()}
		if strings.HasSuffix(route, "/orders") {
			listeners = append(listeners, b.Public())
		}
		method, path, _ := strings.Cut(route, " ")
		for written, message := range map[string]string{
			"\xe9": "is not valid UTF-8 at byte", "\xe8": "is not valid UTF-8 at byte", "\xed\xa0\x80": "is not valid UTF-8 at byte",
			`\ud800`: `has \ud800 at byte`, `\uDC00`: `has \uDC00 at byte`, `\ud800\ud800`: `has \ud800 at byte`, `\ud800\n`: `has \ud800 at byte`,
		} {
			for _, h := range listeners {
				w := call(h, method, path, strings.Replace(body, "?", written, 1))
				if p := problemIn(t, w); p.Status != 422 || p.Reason != "invalid" || len(p.Errors) != 1 || p.Errors[0].Location != "body" ||
					!strings.HasPrefix(p.Errors[0].Message, message) {
					t.Errorf("%s with %q: %s", route, written, w.Body)
				}
			}
		}
	}
	for _, reference := range []string{"ref-é", `ref-\u00e9`, `ref-\ud83e\udd86`, `ref-\\ud800`, `ref-\"`, "ref-🦆", `ref-\u0041\u0042`} {
		w := call(b.Internal(), "POST", "/v1/orders/"+orderID.String()+"/payment", `{"outcome":"captured","reference":"`+reference+`"}`)
		if w.Code != 200 {
			t.Errorf("%s: %s", reference, w.Body)
		}
	}
}

// TestHalfABody: a client that sends half a body gets an error, and its connection is closed.
func TestHalfABody(t *testing.T) {
	t.Parallel()
	public := setup(t).Public()
	for request, want := range map[string]int{
		"POST /v1/sales/flash/orders HTTP/1.1\r\nHost: x\r\nX-User-ID: a\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"it": 408,
		"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n":                                                                         415,
	} {
		t.Run(strings.Fields(request)[0], func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := Server(public, 0)
			go func() { _ = server.Serve(listener) }()
			defer server.Close()
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(4 * bodyWithin))
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			answer := bufio.NewReader(conn)
			resp, err := http.ReadResponse(answer, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%d, want %d", resp.StatusCode, want)
			}
			if _, err := io.Copy(io.Discard, answer); err != nil {
				t.Errorf("the connection stays open: %v", err)
			}
		})
	}
}

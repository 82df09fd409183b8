package apiclient

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestDo(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+" "+r.Header.Get("X-User-Id")+" "+r.Header.Get("Content-Type")+" "+string(body))
	})
	mux.Handle("GET /moved", http.RedirectHandler("/echo", http.StatusFound))
	mux.HandleFunc("GET /partial", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	c := &Client{Transport: s.Client().Transport, Base: s.URL + "/", Token: "secret"}
	for _, tt := range []struct {
		method, path string
		in           any
		code         int
		body         string
		retryAfter   time.Duration
		wrong        error
	}{
		{"POST", "/echo", map[string]int{"a": 1}, 503, `Bearer secret ann application/json {"a":1}`, 3 * time.Second, nil},
		{"POST", "/echo", nil, 503, "Bearer secret ann  ", 3 * time.Second, nil},
		{"GET", "/moved", nil, 302, "<a href=\"/echo\">Found</a>.\n\n", 0, nil},
		{"GET", "/partial", nil, 200, "half", 0, io.ErrUnexpectedEOF},
	} {
		r, err := c.Do(t.Context(), tt.method, tt.path, http.Header{"X-User-Id": {"ann"}}, tt.in)
		if !errors.Is(err, tt.wrong) || r.Response == nil || r.StatusCode != tt.code || string(r.Body) != tt.body || r.RetryAfter() != tt.retryAfter {
			t.Errorf("%s %s: %+v, %q, %v", tt.method, tt.path, r.Response, r.Body, err)
		}
	}
	s.Close()
	if r, err := c.Do(t.Context(), "GET", "/moved", nil, nil); err == nil || r.Response != nil {
		t.Errorf("%+v, %v without a server", r, err)
	}
}

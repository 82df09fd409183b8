package servetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Answer is the result of a call. Status 0: no response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Took   time.Duration
	Err    error
}

// Call makes an HTTP call until the answer is a decision: see Decided and Once.
func Call(method, url, body string, headers ...string) Answer {
	return Decided(func() Answer { return Once(method, url, body, headers...) })
}

// Once makes one HTTP call. headers are name, value, name, value …; a body is sent as JSON.
func Once(method, url, body string, headers ...string) (a Answer) {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return Answer{Err: err}
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	start := time.Now()
	// A new connection per call, so that none is left over from a program that has ended.
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return Answer{Err: err, Took: time.Since(start)}
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: content, Err: err, Took: time.Since(start)}
}

// String formats the answer for a test's message.
func (a Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return http.StatusText(a.Status) + " " + strings.TrimSpace(string(a.Body))
}

// Into decodes the body.
func (a Answer) Into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		t.Fatalf("%v: %v", a, err)
	}
}

// Decided repeats a call while its answer is 503 with reason store_unavailable, or one of also: on a busy machine Redis answers
// later than the program waits.
func Decided(call func() Answer, also ...string) Answer {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for start := time.Now(); ; <-again.C {
		a := call()
		busy := slices.ContainsFunc(append(also, "store_unavailable"), func(reason string) bool {
			return bytes.Contains(a.Body, []byte(`"reason":"`+reason+`"`))
		})
		if a.Status != http.StatusServiceUnavailable || !busy || time.Since(start) > waitTimeout {
			return a
		}
	}
}

// Until repeats the call until the answer has the status, or fails the test.
func Until(t testing.TB, status int, call func() Answer) Answer {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for start := time.Now(); ; <-again.C {
		a := call()
		if a.Status == status {
			return a
		}
		if time.Since(start) > waitTimeout {
			t.Fatalf("after %v still %v, want status %d", waitTimeout, a, status)
		}
	}
}

package contract

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Checked returns h, and reports each of its answers that is not as d has it to t.
func Checked(t testing.TB, d *Document, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method, target := r.Method, *r.URL // handlers may change them
		seen := &answer{ResponseWriter: w}
		h.ServeHTTP(seen, r)
		if seen.status == 0 {
			seen.WriteHeader(http.StatusOK)
		}
		body, err := seen.content()
		if err != nil {
			t.Errorf("%s %s: %v", method, target.RequestURI(), err)
		}
		for _, wrong := range d.Mismatches(method, &target, seen.status, seen.header, body) {
			t.Errorf("%s %s answers %d, which contradicts its document: %s", method, target.RequestURI(), seen.status, wrong)
		}
	})
}

// answer remembers what is written.
type answer struct {
	http.ResponseWriter

	status int
	header http.Header
	body   []byte
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status, a.header = status, a.Header().Clone()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		a.body = append(a.body, b...)
	}
	return a.ResponseWriter.Write(b)
}

// content returns what was written, decompressed.
func (a *answer) content() ([]byte, error) {
	if a.header.Get("Content-Encoding") != "gzip" || len(a.body) == 0 {
		return a.body, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpacked)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

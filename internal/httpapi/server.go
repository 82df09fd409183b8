package httpapi

import (
	"cmp"
	"net/http"
	"time"
)

// maxWait is the longest that an answer may wait for a change.
const maxWait = 30 * time.Second

// DefaultKeepAlive is longer than most balancers keep idle connections (not Envoy: 1 h): otherwise one may send a request on a connection
// that the server is closing.
const DefaultKeepAlive = 620 * time.Second

// bodyWithin is how long a body may take to arrive, also what remains of it after the answer: a client that sends only half of one holds a
// connection, and delays shutdown.
const bodyWithin = 5 * time.Second

// arriving gives each body bodyWithin, whatever handlers and frameworks set.
func arriving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d, ok := w.(interface{ SetReadDeadline(at time.Time) error }); ok && r.ContentLength != 0 {
			if d.SetReadDeadline(time.Now().Add(bodyWithin)) == nil {
				w = bodyWriter{w}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// bodyWriter keeps the deadline of the request's body.
type bodyWriter struct{ http.ResponseWriter }

// SetReadDeadline is for http.ResponseController.
func (bodyWriter) SetReadDeadline(time.Time) error { return nil }

// Unwrap is for http.ResponseController.
func (w bodyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Server returns a server for one of the listeners. Its limits disconnect clients that are slow on purpose, and leave room for
// the longest wait.
// keepAlive is how long idle connections stay open; 0 = DefaultKeepAlive. It speaks HTTP/1 and, as gateways do, HTTP/2 without TLS.
func Server(handler http.Handler, keepAlive time.Duration) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Protocols:         protocols,
		Handler:           arriving(handler),
		ReadHeaderTimeout: 5 * time.Second,
		// After this time a handler's context also ends, because the server keeps reading to detect disconnects: it must be
		// longer than any wait.
		ReadTimeout:    maxWait + 10*time.Second,
		WriteTimeout:   maxWait + 15*time.Second,
		IdleTimeout:    cmp.Or(keepAlive, DefaultKeepAlive),
		MaxHeaderBytes: 32 << 10,
	}
}

package httpapi

import (
	"net/http"
	"time"
)

const (
	maxBody  = 64 << 10
	maxOrder = 4 << 10 // of an order's body: whoever sends one need not be known, and parsing it is the dearest thing that happens to it
	maxWait  = 30 * time.Second
)

// Server returns a server for one of the listeners. Its limits cut off clients
// that are slow on purpose, and leave room for the longest wait.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		// Also the time after which a handler's context ends, because the
		// server keeps reading to notice a hang-up: longer than any wait.
		ReadTimeout:    maxWait + 10*time.Second,
		WriteTimeout:   maxWait + 15*time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 32 << 10,
	}
}

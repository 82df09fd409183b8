package httpapi

import (
	"net/http"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/request"
)

const (
	maxBody  = request.MaxBody
	maxOrder = 4 << 10 // of an order's body: its sender may be anonymous, and parsing is the most expensive step of a refusal
	maxWait  = 30 * time.Second
)

// Server returns a server for one of the listeners. Its limits disconnect clients that are slow on purpose, and leave room for
// the longest wait.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		// After this time a handler's context also ends, because the server keeps reading to detect disconnects: it must be
		// longer than any wait.
		ReadTimeout:    maxWait + 10*time.Second,
		WriteTimeout:   maxWait + 15*time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 32 << 10,
	}
}

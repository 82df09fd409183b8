package httpapi

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// bodyWithin is how long a body may take to arrive: a client that sends half of
// one keeps a connection, and delays a shutdown.
const bodyWithin = 5 * time.Second

// single are the fields of which a second one would leave open whom to
// believe: a proxy that adds its own to the client's instead of replacing it
// would hand identities out.
var single = []string{"X-User-Id", "X-User-Tier", "Idempotency-Key", "Authorization", "X-Tidegate-Token"}

// hygiene refuses what no handler should have to think about.
func hygiene(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		for _, name := range single {
			if n := len(r.Header[name]); n > 1 {
				return invalidAt("header."+name, fmt.Sprintf("is sent %d times, and must be sent once", n))
			}
		}
		if r.ContentLength == 0 || isAuthz(c.Path()) { // what a gateway says of a body is its client's, and not looked at
			return next(c)
		}
		if r.ContentLength > maxBody { // Huma counts those that do not say
			c.Response().Header().Set("Connection", "close") // do not read it just to reuse the connection
			return problem(reasonTooLarge)
		}
		if !spokenJSON(r.Header) {
			return problem(reasonMediaType)
		}
		// Kept until the answer, so that a body nobody reads ends with it.
		_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Now().Add(bodyWithin)) // a test's recorder has none
		return next(c)
	}
}

// spokenJSON tells whether a body is said to be JSON in UTF-8, or nothing is
// said of it, and then says so in the one way that Huma knows.
func spokenJSON(header http.Header) bool {
	said := header.Get("Content-Type")
	if said == "application/json" || said == "" {
		return true
	}
	kind, parameters, err := mime.ParseMediaType(said)
	if charset, ok := parameters["charset"]; err != nil || kind != "application/json" || ok && !strings.EqualFold(charset, "utf-8") {
		return false
	}
	header.Set("Content-Type", "application/json")
	return true
}

// headAsGet routes HEAD like GET; the server leaves the body out. Balancers probe so.
func headAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			get := *r // the server looks at its own copy
			get.Method = http.MethodGet
			r = &get
		}
		next.ServeHTTP(w, r)
	})
}

package httpapi

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
)

// bodyWithin is how long a body may take to arrive: a client that sends half of
// one keeps a connection, and delays a shutdown.
const bodyWithin = 5 * time.Second

// single are the fields of which a second one would leave open whom to
// believe: a proxy that adds its own to the client's instead of replacing it
// would hand identities out.
var single = []string{"X-User-Id", "X-User-Tier", "Idempotency-Key", "X-Captcha", "Authorization", "X-Tidegate-Token"}

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

// wellFormed is JSON of which every character is one. encoding/json reads
// U+FFFD for all else, so that two references of payments, or two users, that
// differ only there would be one.
var wellFormed = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(body []byte, into any) error {
		if err := wellWritten(body); err != nil {
			return err
		}
		return json.Unmarshal(body, into)
	},
}

// wellWritten refuses bytes that are not UTF-8, and escapes of half a character.
func wellWritten(body []byte) error {
	for i := 0; i < len(body); {
		r, size := utf8.DecodeRune(body[i:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Errorf("is not valid UTF-8 at byte %d", i)
		}
		if r != '\\' {
			i += size
			continue
		}
		first, ok := escaped(body[i:])
		switch {
		case !ok:
			i += 2 // another escape; or none, which the parser refuses
		case !utf16.IsSurrogate(first):
			i += 6
		default:
			if second, _ := escaped(body[i+6:]); utf16.DecodeRune(first, second) == utf8.RuneError {
				return fmt.Errorf("has %s at byte %d, which is half a character", body[i:i+6], i)
			}
			i += 12
		}
	}
	return nil
}

// escaped reads what \u and four digits stand for.
func escaped(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
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

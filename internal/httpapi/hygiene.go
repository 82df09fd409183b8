package httpapi

import (
	"bytes"
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
		if len(r.TransferEncoding) > 0 {
			// It may have had a Content-Length as well, which net/http drops: a proxy that believed that one takes what follows the body for
			// the next request (RFC 9112, section 6.3).
			c.Response().Header().Set("Connection", "close")
		}
		if r.ContentLength == 0 || isAuthz(c.Path()) { // what a gateway says of a body is its client's, and not looked at
			return next(c)
		}
		// Kept until the answer, so that a body nobody reads ends with it. A test's recorder has no deadline.
		_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Now().Add(bodyWithin))
		most := int64(maxBody)
		if c.Path() == placePattern {
			most = maxOrder
		}
		if r.ContentLength > most { // Huma counts those that do not say
			c.Response().Header().Set("Connection", "close") // do not read it just to reuse the connection
			return problem(reasonTooLarge)
		}
		if wrong := spokenJSON(r.Header); wrong != "" {
			p := problem(reasonMediaType)
			p.Detail = wrong
			return p
		}
		return next(c)
	}
}

// spokenJSON tells what is wrong with the fields of a body that is not plain JSON in UTF-8, and writes the type of others in the one way
// that Huma knows. A body whose type is not said is refused: a form of any page sends such a one, with the cookies of whoever looks at it.
func spokenJSON(header http.Header) (wrong string) {
	if header.Get("Content-Encoding") != "" {
		return "Content-Encoding must be left out: a body is read as it is sent."
	}
	if said := header["Content-Type"]; len(said) != 1 || said[0] != "application/json" {
		kind, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
		if charset, ok := parameters["charset"]; len(said) != 1 || err != nil || kind != "application/json" || ok && !strings.EqualFold(charset, "utf-8") {
			return "Content-Type must be application/json, and sent once."
		}
		header.Set("Content-Type", "application/json")
	}
	return ""
}

// foreignPages refuses what pages of other origins send, except of those given: the proxy in front may know its user by a cookie, which a
// browser adds by itself.
func foreignPages(origins []string) (echo.MiddlewareFunc, error) {
	protection := http.NewCrossOriginProtection()
	for _, o := range origins {
		if o == "*" {
			return func(next echo.HandlerFunc) echo.HandlerFunc { return next }, nil
		}
		if err := protection.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("httpapi: %w", err)
		}
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if protection.Check(r) == nil {
				return next(c)
			}
			p := problem(reasonForbidden)
			p.Detail = fmt.Sprintf("A page must be of the host that it calls (here %s), or its origin must stand in CORS_ORIGINS; this one is of %q.",
				quoted(r.Host), quoted(r.Header.Get("Origin")))
			return p
		}
	}, nil
}

// plainJSON is JSON that all parsers understand alike, and of which every character is one. encoding/json reads U+FFFD for all else, so
// that two references of payments, or two users, that differ only there would be one.
var plainJSON = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(body []byte, into any) error {
		if err := wellWritten(body); err != nil {
			return err
		}
		if err := json.Unmarshal(body, into); err != nil {
			return err
		}
		if _, first := into.(*any); !first { // Huma reads a body twice
			return nil
		}
		return (&walk{decoder: json.NewDecoder(bytes.NewReader(body))}).value()
	},
}

// A walk through valid JSON finds what it should not have.
type walk struct {
	decoder *json.Decoder
	path    []string
}

// misplaced is what is wrong at a place in a body. Huma keeps only its text, of which humaProblem makes two again.
type misplaced struct{ at, message string }

const misplacedAt = "\x00"

func (e *misplaced) Error() string { return e.at + misplacedAt + e.message }

func (w *walk) wrong(message string) error {
	return &misplaced{"body" + strings.Join(w.path, ""), message}
}

// value refuses a key that stands twice in one object, of which some parsers read the first and others the last; and null, which is
// neither a value nor its absence.
func (w *walk) value() error {
	token, err := w.decoder.Token()
	if err != nil {
		return err
	}
	switch token {
	case nil:
		return w.wrong("must not be null; leave it out for the default")
	case json.Delim('{'):
		return w.members()
	case json.Delim('['):
		return w.elements()
	}
	return nil
}

func (w *walk) members() error {
	seen := map[string]bool{}
	for w.decoder.More() {
		token, err := w.decoder.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		w.path = append(w.path, "."+key)
		if seen[key] {
			return w.wrong("must be given once")
		}
		seen[key] = true
		if err := w.value(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.decoder.Token()
	return err
}

func (w *walk) elements() error {
	for i := 0; w.decoder.More(); i++ {
		w.path = append(w.path, "["+strconv.Itoa(i)+"]")
		if err := w.value(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.decoder.Token()
	return err
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

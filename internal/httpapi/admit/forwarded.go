package admit

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
)

// A forwarded request is the client's request that a gateway asks about.
type forwarded struct{ route, method, host string }

// askedBy reads the client's request from the gateway's. Envoy appends the path to ours, and keeps the method. All others send
// both in fields, of one of two families. Duplicates are refused: one of the two may come from the client itself.
func askedBy(c echo.Context) (f forwarded, err error) {
	r := c.Request()
	if c.Path() == AuthzBelow {
		for _, name := range []string{"X-Forwarded-Uri", "X-Original-Uri"} {
			if r.URL.Path == AuthzPath+"/" && len(r.Header[name]) > 0 {
				return f, problem.InvalidAt("header."+name,
					"must not be sent to "+AuthzPath+"/, which asks about the path /: the gateway must ask "+AuthzPath+" without the slash")
			}
		}
		f.method, f.host = r.Method, canonicalHost(r.Host)
		f.route, err = routeAt("path", strings.TrimPrefix(r.URL.EscapedPath(), AuthzPath))
		return f, err
	}
	if deny := c.QueryParams()["deny"]; len(deny) > 1 || len(deny) == 1 && deny[0] != "403" {
		return f, problem.InvalidAt("query.deny", "must be 403 or left out")
	}
	family := "X-Forwarded-"
	if len(r.Header["X-Original-Uri"]) > 0 {
		family = "X-Original-"
		if len(r.Header["X-Forwarded-Uri"]) > 0 {
			return f, problem.InvalidAt("header.X-Forwarded-Uri",
				"must not be sent together with X-Original-URI: the gateway must remove the one that it does not set")
		}
	}
	uri, err := one(r.Header, family+"Uri")
	if err != nil {
		return f, err
	}
	if f.method, err = one(r.Header, family+"Method"); err != nil {
		return f, err
	}
	if f.method = strings.ToUpper(f.method); f.method == http.MethodHead {
		f.method = http.MethodGet // as on our own routes: HEAD reveals as much as GET, and must not bypass a rule
	}
	if len(r.Header["X-Forwarded-Host"]) > 0 {
		host, err := one(r.Header, "X-Forwarded-Host")
		if err != nil {
			return f, err
		}
		f.host = canonicalHost(host)
	}
	f.route, err = routeAt("header."+family+"Uri", uri)
	return f, err
}

// one returns the value of a field that must be sent exactly once.
func one(header http.Header, name string) (string, error) {
	values := header[name]
	if len(values) != 1 || values[0] == "" {
		return "", problem.InvalidAt("header."+name, "must be sent once by the gateway")
	}
	return values[0], nil
}

// routeAt is canonicalPath with an error that names the location place in the request.
func routeAt(place, uri string) (string, error) {
	route, err := canonicalPath(uri)
	if err != nil {
		return "", problem.InvalidAt(place, err.Error())
	}
	return route, nil
}

// canonicalPath returns the route that rules match: the path of a URI, without query and fragment, decoded once, without empty
// segments, and with "." and ".." resolved. So "/v1/orders", "//v1/./orders/", "/v1/%6frders", "/v1/x/%2e%2e/orders" and
// "/v1%2Forders" are all one route. An upstream that distinguishes some of them gets one rule for all; one that treats further
// paths as equal, for example by ignoring case or what follows a semicolon, needs rules that name them all. Double encoding is
// text: "/v1/%256frders" is the route "/v1/%6frders". Spaces are part of the path, also at its end.
func canonicalPath(uri string) (string, error) {
	if scheme, rest, ok := strings.Cut(uri, "://"); ok && (scheme == "http" || scheme == "https") {
		uri = rest[strings.IndexByte(rest+"/", '/'):] // absolute form: without scheme and authority
	}
	path := uri
	if end := strings.IndexAny(uri, "?#"); end >= 0 { // nginx cuts off a fragment, which clients should not send
		path = uri[:end]
	}
	decoded, err := url.PathUnescape(path)
	if err != nil || path != "" && path[0] != '/' {
		return "", errors.New("must be the URI of the client's request, beginning with /")
	}
	if hiddenSlash.MatchString(path) && dotSegment.MatchString(decoded) {
		return "", errors.New("must not have an encoded slash beside a dot segment: servers disagree on what that is")
	}
	if strings.ContainsFunc(decoded, ambiguous) {
		return "", errors.New("must not have a backslash or a control character, encoded or not: servers disagree on what that is")
	}
	if overlong(decoded) {
		return "", errors.New("must not have an overlong form of UTF-8, such as %C0%AE for a dot: servers disagree on what that is")
	}
	var segments []string
	for segment := range strings.SplitSeq(decoded, "/") {
		switch segment {
		case "", ".":
		case "..":
			segments = segments[:max(0, len(segments)-1)]
		default:
			segments = append(segments, segment)
		}
	}
	return "/" + strings.Join(segments, "/"), nil
}

// overlong reports whether a path has a character in more bytes than UTF-8 allows, which lenient servers read as the shorter
// form.
func overlong(path string) bool {
	for i := range len(path) - 1 {
		if next := path[i+1]; next&0xc0 == 0x80 && (path[i]&0xfe == 0xc0 || path[i] == 0xe0 && next < 0xa0 || path[i] == 0xf0 && next < 0x90) {
			return true
		}
	}
	return false
}

// ambiguous reports whether some servers read a character as another one, or end the path there.
func ambiguous(c rune) bool { return c == '\\' || unicode.IsControl(c) }

var (
	hiddenSlash = regexp.MustCompile(`(?i)%2f`)
	dotSegment  = regexp.MustCompile(`(^|/)\.\.?(/|$)`)
)

// canonicalHost returns a host name in lower case, without port and final dot.
func canonicalHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

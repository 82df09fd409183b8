package admit

import (
	"strings"
	"testing"
)

// TestCanonicalPath: all spellings of a path are one route.
func TestCanonicalPath(t *testing.T) {
	for uri, want := range map[string]string{
		"/v1/orders": "/v1/orders", "/v1/orders/": "/v1/orders", "//v1///orders": "/v1/orders", "/v1/./orders": "/v1/orders", "/v1/%6frders": "/v1/orders",
		"/%76%31/%6F%72ders": "/v1/orders", "/v1/x/../orders": "/v1/orders", "/v1/x/%2e%2E/orders": "/v1/orders", "/v1/%2e/orders": "/v1/orders",
		"/../../v1/orders": "/v1/orders", "/v1%2Forders": "/v1/orders", "/v1/orders?/x": "/v1/orders", "/v1/orders%3fx": "/v1/orders?x",
		"/v1/orders#x": "/v1/orders", "/v1/orders#/../../free": "/v1/orders", "/v1/orders%23x": "/v1/orders#x", "/": "/", "": "/", "/..": "/", "?x": "/",
		"/v1/%256frders":        "/v1/%6frders", // decoded once, as by every server
		"/v1/orders%20":         "/v1/orders ",  // spaces count
		"/v1/%255c%2500":        "/v1/%5c%00",
		"/v1/schu%CC%88ssel":    "/v1/schu\u0308ssel",
		"/V1/Orders":            "/V1/Orders",
		"/v1/orders;x":          "/v1/orders;x",
		"http://shop/v1/orders": "/v1/orders", "https://shop": "/", "http://shop?x": "/", "/x?http://y/z": "/x", "/http://y/z": "/http:/y/z",
	} {
		if got, err := canonicalPath(uri); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", uri, got, err, want)
		}
	}
	for _, uri := range []string{
		"v1/orders", "*", "/v1/%", "/v1/%zz", "/v1/orders%2f..", "/public/..%2Fv1/orders", "/s/shoe%2F..%2F..", "/a/%2e%2E%2fb", "ftp://shop/x", "..", "shop:443",
		`/v1\orders`, "/v1%5corders", "/x/..%5C..", "/v1/orders%00", "/v1/orders\x00", "/v1/orders%0a", "/v1/orders%0D%0A", "/v1/orders%7f", "/v1/orders\t", "/v1/orders%C2%85",
	} {
		if got, err := canonicalPath(uri); err == nil {
			t.Errorf("%s: %q", uri, got)
		}
	}
}

func FuzzCanonicalPath(f *testing.F) {
	f.Add("/v1/%2e%2e//./orders?x")
	f.Add("http://x/%2F..")
	f.Fuzz(func(t *testing.T, uri string) {
		got, err := canonicalPath(uri)
		if err != nil {
			return
		}
		if !strings.HasPrefix(got, "/") || strings.Contains(got, "//") || strings.Contains(got+"/", "/../") || strings.Contains(got+"/", "/./") || strings.ContainsAny(got, "\\\x00\n") {
			t.Fatalf("%q became %q", uri, got)
		}
		if again, err := canonicalPath("/." + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(got)); err != nil || again != got {
			t.Fatalf("%q became %q, and then %q: %v", uri, got, again, err)
		}
	})
}

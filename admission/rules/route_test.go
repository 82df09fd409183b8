package rules

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/v1/sales/*/orders", "/v1/sales/spring/orders", true},
		{"/v1/sales/*/orders", "/v1/sales/spring/orders/", true},
		{"/v1/sales/*/orders", "//v1/sales//spring/orders", true},
		{"/v1/sales/*/orders", "/v1/sales/orders", false},
		{"/v1/sales/*/orders", "/v1/sales/a/b/orders", false},
		{"/v1/sales/*/orders", "/v1/sales/a/orders/b", false},
		{"/v1/**", "/v1", true},
		{"/v1/**", "/v1/a/b/c", true},
		{"/v1/**", "/v2/v1/a", false},
		{"/**/orders", "/orders", true},
		{"/**/orders", "/a/orders/b/orders", true},
		{"/a/**/b/**/c", "/a/b/b/x/c/c", true},
		{"/a/**/b/**/c", "/a/c/c", false},
		{"/", "", true},
		{"/", "/a", false},
		{"/**", "", true},
		{"/a.c", "/abc", false},
	} {
		r, err := parseRoute(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.matches(appendSegments(nil, c.path)); got != c.want {
			t.Errorf("%s matches %s: %v, want %v", c.pattern, c.path, got, c.want)
		}
	}
	for _, bad := range []string{"", "v1", "/v1*", "/a/b**", "/***"} {
		if _, err := parseRoute(bad); err == nil {
			t.Errorf("route %q was taken", bad)
		}
	}
}

// Two patterns overlap if one of all short paths matches both.
func TestRoutesOverlap(t *testing.T) {
	paths := [][]string{nil}
	for at := 0; len(paths[at]) < 6; at++ {
		for _, s := range []string{"a", "b", "c"} {
			paths = append(paths, append(slices.Clone(paths[at]), s))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "**"}), 0, 3)
		r, o := route(pattern.Draw(t, "one")), route(pattern.Draw(t, "other"))
		want := slices.ContainsFunc(paths, func(path []string) bool { return r.matches(path) && o.matches(path) })
		if got := r.overlaps(o); got != want {
			t.Fatalf("%v overlaps %v: %v, want %v", r, o, got, want)
		}
	})
}

// A route is a regular expression in few words.
func TestRoutesAgreeWithRegularExpressions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "**"}), 0, 6).Draw(t, "pattern")
		path := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 8).Draw(t, "path")
		expression := "^"
		for _, s := range segments {
			expression += map[string]string{"*": "/[^/]+", "**": "(/[^/]+)*"}[s]
			if s[0] != '*' {
				expression += "/" + s
			}
		}
		text := ""
		for _, s := range path {
			text += "/" + s
		}
		want := regexp.MustCompile(expression + "$").MatchString(text)
		r, err := parseRoute("/" + strings.Join(segments, "/"))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.matches(path); got != want {
			t.Fatalf("%v matches %v: %v, want %v", segments, path, got, want)
		}
	})
}

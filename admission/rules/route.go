package rules

import (
	"errors"
	"strings"
)

// A route is a path pattern in segments: `*` matches one segment, `**` any number including none.
type route []string

func parseRoute(pattern string) (route, error) {
	if !strings.HasPrefix(pattern, "/") {
		return nil, errors.New(`a route begins with "/", such as "/v1/**"`)
	}
	segments := appendSegments(nil, pattern)
	for _, s := range segments {
		if strings.Contains(s, "*") && s != "*" && s != "**" {
			return nil, errors.New("`*` and `**` stand for whole segments, such as \"/v1/*/orders\"")
		}
	}
	return segments, nil
}

// appendSegments appends the segments of path. Empty ones are dropped, so that extra slashes do not evade a rule.
func appendSegments(segments []string, path string) []string {
	for segment := range strings.SplitSeq(path, "/") {
		if segment != "" {
			segments = append(segments, segment)
		}
	}
	return segments
}

// overlaps reports whether some path matches both patterns.
func (r route) overlaps(o route) bool {
	later := make([]bool, len(o)+1) // whether r from segment i+1 and o from segment j overlap, for each j
	for i := len(r); i >= 0; i-- {
		now := make([]bool, len(o)+1)
		for j := len(o); j >= 0; j-- {
			switch {
			case i < len(r) && r[i] == "**":
				now[j] = later[j] || j < len(o) && now[j+1]
			case j < len(o) && o[j] == "**":
				now[j] = now[j+1] || i < len(r) && later[j]
			case i == len(r) || j == len(o):
				now[j] = i == len(r) && j == len(o)
			default:
				now[j] = later[j+1] && (r[i] == o[j] || r[i] == "*" || o[j] == "*")
			}
		}
		later = now
	}
	return later[0]
}

// matches reports whether path, in segments, matches the pattern. On a mismatch only the last `**` takes one more segment: backtracking
// to an earlier one could not gain anything. So the work is at most len(path) * len(r).
func (r route) matches(path []string) bool {
	at, from := 0, 0      // next segment of r and of path
	star, resume := -1, 0 // index of the last `**`, and where in path to resume after it takes one more segment
	for from < len(path) {
		switch {
		case at < len(r) && r[at] == "**":
			star, resume = at, from
			at++
		case at < len(r) && (r[at] == "*" || r[at] == path[from]):
			at++
			from++
		case star >= 0:
			resume++
			at, from = star+1, resume
		default:
			return false
		}
	}
	for at < len(r) && r[at] == "**" {
		at++
	}
	return at == len(r)
}

package semregistry_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/semregistry"
)

// The semaphores of a file are available to its caller.
func TestDeclarationsOfAFile(t *testing.T) {
	const file = "rules: [{name: r, subject: user, limit: 1, window: 1s}]\n"
	size := func(limit int, lease time.Duration) semregistry.Size {
		return semregistry.Size{Limit: limit, Lease: lease}
	}
	for text, want := range map[string][]semregistry.Declaration{
		"":                                 nil,
		"semaphores: {}":                   nil,
		"semaphores: {report: {limit: 2}}": {{"report", size(2, 15*time.Second)}},
		"semaphores:\n  shop:report: {limit: 0, lease: 1s}\n  \"4\": {limit: 1000000, lease: 1h}\n  all: {lease: 1m, limit: 7}\n": {
			{"shop:report", size(0, time.Second)}, {"4", size(1_000_000, time.Hour)}, {"all", size(7, time.Minute)},
		},
	} {
		set, err := rules.Parse("test.yaml", []byte("version: 1\n"+file+text), semregistry.Section)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := semregistry.Declarations(set)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	if diff := cmp.Diff([]semregistry.Declaration{{"report", size(2, 15*time.Second)}}, semregistry.BuiltIn()); diff != "" {
		t.Error(diff)
	}
}

// Each error has its position and says what would be right.
func TestWrongSemaphores(t *testing.T) {
	const rule = "version: 1\nrules:\n  - name: a\n    subject: user\n    limit: 1\n    window: 1s\n"
	for _, c := range []struct{ src, want string }{
		{rule + "semaphores: {Report: {limit: 2}}", `test.yaml:7:14: "Report" is no name of a semaphore of its own, it should be 1 to 64 of a-z 0-9 -, or a hash tag of the same before a colon and a name`},
		{rule + "semaphores: {report: {limit: 2}, report: {limit: 3}}", `test.yaml:7:34: "report" is no name of a semaphore of its own, it should be 1 to 64 of a-z 0-9 -, or a hash tag of the same before a colon and a name`},
		{rule + "semaphores: {report: {lease: 15s}}", `test.yaml:7:22: semaphore "report" has no limit, it should be such as {limit: 2, lease: 15s}`},
		{rule + "semaphores: {report: {limit: 2, lease: 2h}}", `test.yaml:7:40: lease should be from 1s to 1h, here is 2h0m0s`},
	} {
		_, err := rules.Parse("test.yaml", []byte(c.src), semregistry.Section)
		var place *rules.Error
		if !errors.As(err, &place) || place.Error() != c.want {
			t.Errorf("%.200q:\n got %v\nwant %s", c.src, err, c.want)
		}
	}
}

package rules_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/admission/rules"
)

// parse parses the rules of a test, which leaves out what all files begin with.
func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	r, err := rules.Parse("test.yaml", []byte("version: 1\nrules:\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

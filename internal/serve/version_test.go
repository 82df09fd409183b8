package serve

import (
	"runtime/debug"
	"testing"
)

func TestBuild(t *testing.T) {
	const hash, at = "01349d6a01349d6a01349d6a01349d6a01349d6a", "2026-11-23T00:36:12Z"
	info := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision, time := debug.BuildSetting{Key: "vcs.revision", Value: hash}, debug.BuildSetting{Key: "vcs.time", Value: at}
	for name, test := range map[string]struct {
		linked build
		info   *debug.BuildInfo
		want   string
	}{
		"release":                    {build{"v1.2.3", hash, at}, info("(devel)"), "v1.2.3 (commit " + hash + ", " + at + ")"},
		"release in another tree":    {build{"v1.2.3", "abc", at}, info("v9.9.9", revision), "v1.2.3 (commit abc, " + at + ")"},
		"image with a version only":  {build{version: "v1.2.3"}, info("(devel)"), "v1.2.3"},
		"go install of a tag":        {build{}, info("v1.2.3"), "v1.2.3"},
		"go install of a commit":     {build{}, info("v0.0.0-20261123003612-01349d6a0134"), "v0.0.0-20261123003612-01349d6a0134"},
		"go build in the repository": {build{}, info("v1.2.4-0.20261123003612-01349d6a0134+dirty", revision, time), "v1.2.4-0.20261123003612-01349d6a0134+dirty (commit " + hash + ", " + at + ")"},
		"without a module version":   {build{}, info("(devel)", revision), "01349d6a0134 (commit " + hash + ")"},
		"go run":                     {build{}, info("(devel)"), "devel"},
		"no information":             {build{}, nil, "devel"},
	} {
		if got := buildOf(test.linked, test.info).String(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

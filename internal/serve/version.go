package serve

import (
	"cmp"
	"fmt"
	"io"
	"runtime/debug"
)

// The linker sets these: -X github.com/tidegate/tidegate/internal/serve.released=v1.2.3, and likewise commit and date, which is the
// commit's. They are needed for builds without the repository.
var released, commit, date string

// devel is the version of a build that records none, such as by go run.
const devel = "devel"

// build identifies the source of a program. commit and date are empty if unknown.
type build struct{ version, commit, date string }

// Version returns the version of the release, of the module, or the commit of the build.
func Version() string { return thisBuild().version }

// Build returns the version with its commit and the commit's date: "v1.2.3 (commit 01349d6a…, 2026-11-23T00:36:12Z)".
func Build() string { return thisBuild().String() }

// PrintVersion writes a program's answer to --version.
func PrintVersion(w io.Writer, program string) error {
	_, err := fmt.Fprintf(w, "%s version %s\n", program, Build())
	return err
}

func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(build{released, commit, date}, info)
}

// buildOf completes what the linker set with what the go command recorded: go install of a version records the version only, which contains
// commit and date if it has no tag; go build in the repository records all.
func buildOf(linked build, info *debug.BuildInfo) build {
	b := linked
	if info != nil {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.commit = cmp.Or(b.commit, s.Value)
			case "vcs.time":
				b.date = cmp.Or(b.date, s.Value)
			}
		}
		if v := info.Main.Version; v != "(devel)" {
			b.version = cmp.Or(b.version, v)
		}
	}
	b.version = cmp.Or(b.version, fmt.Sprintf("%.12s", b.commit), devel)
	return b
}

func (b build) String() string {
	switch {
	case b.commit == "":
		return b.version
	case b.date == "":
		return fmt.Sprintf("%s (commit %s)", b.version, b.commit)
	}
	return fmt.Sprintf("%s (commit %s, %s)", b.version, b.commit, b.date)
}

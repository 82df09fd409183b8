package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/simulation"
)

// build builds the program, without the race detector: under it, compiling the guest takes minutes.
func build(t *testing.T) (simulate func(args ...string) (report, string, error)) {
	t.Helper()
	folder := t.TempDir()
	program := filepath.Join(folder, "simulate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return func(args ...string) (r report, out string, err error) {
		file := filepath.Join(folder, "report.json")
		text, err := exec.CommandContext(t.Context(), program, append(args, "-json", file)...).CombinedOutput()
		written, failed := os.ReadFile(file)
		if failed == nil {
			failed = json.Unmarshal(written, &r)
		}
		if failed != nil {
			t.Fatalf("%v: %s", failed, text)
		}
		return r, string(text), err
	}
}

func TestWorlds(t *testing.T) {
	simulate := build(t)
	r, out, err := simulate("-seeds", "91-102")
	if err != nil || r.Worlds != 12 || r.Repeated != 1 || r.Promised < 12 || r.Simulated < 12*3*time.Second {
		t.Errorf("%v: %s", err, out)
	}
	if r, out, err = simulate("-seeds", "1-2000", "-size", "16"); err != nil || r.Worlds < 80 {
		t.Errorf("%d small worlds: %v: %s", r.Worlds, err, out)
	}
	// Without a worker nothing is committed.
	r, out, err = simulate("-seeds", "1", "-all", "-trace", "-shape", `{"APIs":1,"Masters":1,"Buyers":3,"Items":1,"Stock":2,"Quota":1,"Sells":1000000000}`)
	if err == nil || len(r.Broken) != 1 || !regexp.MustCompile(`BREACH (open|whole) `).MatchString(out) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestShrink(t *testing.T) {
	var s simulation.Shape
	for number := uint64(1); len(s.Faults) < 5; number++ {
		s = simulation.Draw(number)
	}
	kind := s.Faults[3].Kind
	small := shrink(s, func(s simulation.Shape) bool {
		return s.Buyers >= 2 && slices.ContainsFunc(s.Faults, func(f simulation.Fault) bool { return f.Kind == kind })
	})
	if len(small.Faults) != 1 || small.Faults[0].Kind != kind || small.Buyers > 3 || small.APIs != 1 || small.CutIn != 0 {
		t.Errorf("%+v became %+v", s, small)
	}
}

func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"-seeds=":             "should be a number",
		"-seeds=x":            "should be a number",
		"-seeds=2-1":          "should be a number",
		"-seeds=1-":           "should be a number",
		"-seeds=-1":           "should be a number",
		"-shape={":            "-shape: ",
		"-shape={\"APIs\":0}": "-shape: ",
	} {
		if err := start(t.Context(), []string{args}, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
	if first, last, err := parseSeeds("4711"); first != 4711 || last != 4711 || err != nil {
		t.Error(first, last, err)
	}
}

// The patches themselves are run by make defects.
func TestDefectsApply(t *testing.T) {
	files, err := filepath.Glob("../defects/*.patch")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		d := defect{file: file}
		if _, err := d.apply(t.Context(), t.TempDir()); err != nil || !strings.HasSuffix(d.about, ".") {
			t.Errorf("%s: %q %v", file, d.about, err)
		}
	}
	folder := t.TempDir()
	patch := "Nothing.\n\ndiff --git a/go.mod b/go.mod\n--- a/go.mod\n+++ b/go.mod\n@@ -1 +1 @@\n-no module\n+a module\n"
	if err := os.WriteFile(filepath.Join(folder, "stale.patch"), []byte(patch), 0o644); err != nil {
		t.Fatal(err)
	}
	err = start(t.Context(), []string{"-defects", folder}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "defect stale: it does not apply") {
		t.Error(err)
	}
	err = start(t.Context(), []string{"-defects", folder, "-only", "other"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "there is no defect other") {
		t.Error(err)
	}
}

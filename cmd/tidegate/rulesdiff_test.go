package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
)

const rulesBefore = `version: 1
lists: {office: {values: [ann]}}
rules:
  - {name: api, match: {route: /v1/x, user: {not: {list: office}}}, subject: user, limit: 100, window: 1m}
  - {name: old, subject: user, limit: 1, window: 1s}
  - {name: b, subject: user, limit: 1, window: 1s}
  - {name: c, subject: user, limit: 1, window: 1s}
`

// serverOf is a server with these rules in force.
func serverOf(t *testing.T, source string) (env func(string) string, version string) {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := json.Marshal(map[string]any{"version": set.Version(), "source": source})
	if err != nil {
		t.Fatal(err)
	}
	env, _ = internalFake(t, map[string]string{"GET /v1/rules": string(answer)})
	return env, set.Version()
}

func written(t *testing.T, source string) (file, version string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, set.Version()
}

func TestRulesDiff(t *testing.T) {
	env, before := serverOf(t, rulesBefore)
	file, after := written(t, `version: 1
answer: first
lists: {office: {values: [ann, bob]}}
rules:
  - {name: c, window: 1s, limit: 1, subject: user} # as it was
  - {name: api, match: {route: /v1/x, user: {not: {list: office}}}, subject: user, limit: 200, window: 1m}
  - {name: b, subject: user, limit: 1, window: 1s}
  - {name: new, subject: user, limit: 1, window: 1s}
`)
	out, err := call(t, env, "rules", "diff", file)
	want := "--- in force, version " + before + "\n+++ " + file + ", version " + after + `
@@ rule api, changed @@
-limit: 100
+limit: 200
 match:
   route: /v1/x
   user:
     not:
       list: office
 name: api
 subject: user
 window: 1m
@@ rule old, removed @@
-limit: 1
-name: old
-subject: user
-window: 1s
@@ lists, changed @@
 office:
   values:
   - ann
+  - bob
@@ rule new, added @@
+limit: 1
+name: new
+subject: user
+window: 1s
@@ answer, added @@
+first
@@ order of rules, changed @@
+rule c
 rule api
 rule b
-rule c
`
	if !errors.Is(err, errDifferent) || out != want {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = call(t, env, "rules", "diff", file, "--json")
	var d rulesDiff
	if wrong := json.Unmarshal([]byte(out), &d); wrong != nil || !errors.Is(err, errDifferent) || d.From != before || d.To != after || len(d.Changes) != 6 ||
		d.Changes[1].Part != "rule old" || d.Changes[1].Change != "removed" {
		t.Errorf("%v %v %+v", wrong, err, d)
	}
}

func TestRulesDiffOfTheSame(t *testing.T) {
	env, version := serverOf(t, rulesBefore)
	file, _ := written(t, rulesBefore)
	if out, err := call(t, env, "rules", "diff", file); err != nil || out != file+" equals the rules in force, version "+version+"\n" {
		t.Errorf("%v %s", err, out)
	}
	if out, err := call(t, env, "rules", "diff", file, "--json"); err != nil || out != `{"from":"`+version+`","to":"`+version+`","changes":[]}`+"\n" {
		t.Errorf("%v %s", err, out)
	}
	file, other := written(t, rulesBefore+"# more words\n")
	out, err := call(t, env, "rules", "diff", file)
	if want := "--- in force, version " + version + "\n+++ " + file + ", version " + other + "\nonly comments, formatting or list files differ\n"; !errors.Is(err, errDifferent) || out != want {
		t.Errorf("%v %s", err, out)
	}
}

// As with diff: 0 no difference, 1 different, 2 error.
func TestRulesDiffStatus(t *testing.T) {
	env, _ := serverOf(t, rulesBefore)
	file, _ := written(t, "version: 1\nrules: [{name: r, subject: user, limit: 1, window: 1s}]\n")
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("version: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		env  func(string) string
		args []string
		want int
	}{
		{env, []string{file}, 1},
		{env, []string{wrong}, 2},
		{env, []string{file + "x"}, 2},
		{env, nil, 2},
		{env, []string{file, "--nope"}, 2},
		{at("http://127.0.0.1:1"), []string{file}, 2},
		{answering(t, 200, `{"version":"x","source":"a: {b: [}"}`), []string{file}, 2},
	} {
		_, err := call(t, tt.env, append([]string{"rules", "diff"}, tt.args...)...)
		if status := statusOf(err); status != tt.want {
			t.Errorf("%q: status %d, want %d: %v", tt.args, status, tt.want, err)
		}
	}
}

func TestRulesCheckAsJSON(t *testing.T) {
	file, version := written(t, "version: 1\nrules: [{name: r, subject: ip, limit: 1, window: 1s}]\n")
	out, err := call(t, nothing, "rules", "check", file, "--json", "--strict", "--trusted-proxies", "")
	var got struct {
		File, Version string
		Warnings      []ruleWarning
	}
	if wrong := json.Unmarshal([]byte(out), &got); wrong != nil || err == nil || got.File != file || got.Version != version ||
		len(got.Warnings) != 2 || got.Warnings[0].Rule != "r" || got.Warnings[0].Line != 2 || got.Warnings[0].Text == "" || !got.Warnings[1].Note {
		t.Errorf("%v %v %s", wrong, err, out)
	}
}

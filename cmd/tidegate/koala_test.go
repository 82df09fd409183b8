package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const koalaRules = `# of the shop
[dicts]
# whom we trust
friends : friends.dat
# and no one else
[rules]
# first the friends
rule : [direct] [uid @ friends] [] [result=1; return=1]
   # then the others
rule : [count] [act=ask,answer{~}; uid=+] [time=86400; count=5] [result=3; return=2]
# no more rules
[result]
# what they hear
1 : {"Ret_type":1}
3 : {"Ret_type":3,"Need_vcode":1}
# the end
`

func TestRulesFromKoala(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"koala.conf":  "listen = :9981\nrule_file = rules.conf\n",
		"rules.conf":  koalaRules,
		"friends.dat": "7\n# an old friend\n8\n",
		"wrong.conf":  strings.Replace(koalaRules, "result=3", "result=4", 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr output
	if err := run(t.Context(), []string{"rules", "from-koala", filepath.Join(dir, "koala.conf")}, nothing, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	const want = `# Made of rules.conf. Files of lists are looked for beside this file.
version: 1
answer: first
# of the shop
lists:
  # whom we trust
  friends: {file: friends.dat}
  # and no one else
rules:
  # first the friends
  # rule : [direct] [uid @ friends] [] [result=1; return=1]
  - name: return-1
    match: {uid: {list: friends}}
    algorithm: direct
    action: allow
  # then the others
  # rule : [count] [act=ask,answer{~}; uid=+] [time=86400; count=5] [result=3; return=2]
  - name: return-2
    match: {act: [ask, answer], uid: {present: true}}
    subject: [act, uid]
    joint: [act]
    algorithm: fixed_window
    limit: 5
    window: day
    zone: Asia/Shanghai
    on_exceed: challenge
    on_store_error: local
  # no more rules
# [result]
# what they hear
# 1 : {"Ret_type":1}
# 3 : {"Ret_type":3,"Need_vcode":1}
# the end
`
	if got := strings.TrimRight(stdout.String(), "\n") + "\n"; got != want {
		t.Errorf("it prints\n%s\nand should print\n%s", got, want)
	}
	warnings := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if len(warnings) != 2 || !strings.Contains(warnings[0], "koala.conf:1: listen does nothing here") || !strings.Contains(warnings[1], "friends.dat:2: # begins a comment here") {
		t.Errorf("on standard error:\n%s", &stderr)
	}

	converted := filepath.Join(dir, "converted.yaml")
	if err := os.WriteFile(converted, []byte(stdout.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := call(t, nothing, "rules", "check", converted); err != nil || !strings.Contains(out, converted+": valid, version ") {
		t.Errorf("rules check: %v\n%s", err, out)
	}

	for _, test := range []struct {
		args []string
		zone string
		want string
	}{
		{[]string{"--zone", "Europe/Berlin"}, "", "    zone: Europe/Berlin\n"},
		{nil, "America/New_York", "    zone: America/New_York\n"},
		{[]string{"--zone", "UTC"}, "America/New_York", "    zone: UTC\n"},
	} {
		getenv := func(name string) string { return map[string]string{"KOALA_ZONE": test.zone}[name] }
		out, err := call(t, getenv, append([]string{"rules", "from-koala", filepath.Join(dir, "rules.conf")}, test.args...)...)
		if err != nil || !strings.Contains(out, test.want) {
			t.Errorf("%v, KOALA_ZONE=%s: %v\n%s", test.args, test.zone, err, out)
		}
	}
	for want, args := range map[string][]string{
		"wrong.conf:10:66: result=4 must be one of those under [result]; the line is \"rule : [count] ": {filepath.Join(dir, "wrong.conf")},
		"no such file": {filepath.Join(dir, "none.conf")},
		`--zone must be a time zone such as Asia/Shanghai, Europe/Berlin or UTC, got "Mars/Base"`: {filepath.Join(dir, "rules.conf"), "--zone", "Mars/Base"},
	} {
		if out, err := call(t, nothing, append([]string{"rules", "from-koala"}, args...)...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%v: %v, want %q\n%s", args, err, want, out)
		}
	}
}

// TestRulesFromKoalaSample: the sample file of package koala passes the check.
func TestRulesFromKoalaSample(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../internal/dialects/koala/testdata")); err != nil {
		t.Fatal(err)
	}
	out, err := call(t, nothing, "rules", "from-koala", filepath.Join(dir, "grammar.conf"))
	if err != nil {
		t.Fatal(err)
	}
	converted := filepath.Join(dir, "converted.yaml")
	if err := os.WriteFile(converted, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = call(t, nothing, "rules", "check", converted)
	if err != nil || !strings.Contains(out, converted+": valid, version ") {
		t.Errorf("rules check: %v\n%s", err, out)
	}
}

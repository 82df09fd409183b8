package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRulesCheckWarns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	for name, content := range map[string]string{
		"rules.yaml": "version: 1\n# lists are at the end\nrules:\n  - name: addresses\n    match: {user: {not: {list: office}}}\n    subject: ip\n    limit: 1\n    window: 1m\nlists: {office: {file: office.txt}, rest: {values: [x]}}\n",
		"office.txt": "ann\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const proxy = "rule addresses: it looks at addresses: behind a proxy that TRUSTED_PROXIES does not name"
	trusted := func(name string) string { return map[string]string{"TRUSTED_PROXIES": "10.0.0.1"}[name] }
	out, err := call(t, nothing, "rules", "check", path)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 4 || !strings.HasPrefix(lines[0], path+":4: note: "+proxy) || !strings.HasPrefix(lines[1], path+":9: warning: list rest is used by nothing") ||
		!strings.HasPrefix(lines[2], path+":1: note: the file does not declare the semaphore report") || !strings.HasPrefix(lines[3], path+": valid, version ") {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, err := call(t, trusted, "rules", "check", path); err != nil || strings.Contains(out, proxy) {
		t.Errorf("with TRUSTED_PROXIES: %v:\n%s", err, out)
	}
	if out, err := call(t, nothing, "rules", "check", path, "--strict", "--trusted-proxies", ""); err == nil || !strings.Contains(err.Error(), path+": warnings: 2") ||
		!strings.Contains(out, ":4: warning: "+proxy) {
		t.Errorf("servers without trusted proxies: %v:\n%s", err, out)
	}
	out, err = call(t, nothing, "rules", "check", path, "--strict", "--trusted-proxies", "10.0.0.1")
	if err == nil || !strings.Contains(err.Error(), path+": warnings: 1") || !strings.Contains(out, ":9: warning: ") || strings.Contains(out, proxy) {
		t.Errorf("--strict: %v:\n%s", err, out)
	}
	if err := os.WriteFile(path, []byte("version: 1\nrules: [{name: r, match: {user: {present: true}}, subject: user, limit: 1, window: 1s, shadow: true}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := call(t, nothing, "rules", "check", path, "--strict"); err != nil || strings.Contains(out, "warning") || !strings.Contains(out, ":2: note: rule r: it is in shadow") {
		t.Errorf("nothing to warn of: %v:\n%s", err, out)
	}
	if out, err := call(t, nothing, "rules", "check", path, "--json"); err != nil || !strings.Contains(out, `"note":true`) {
		t.Errorf("--json: %v:\n%s", err, out)
	}
	if err := os.WriteFile(path, []byte("version: 1\nlists: {office: {file: none.txt}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, nothing, "rules", "check", path); err == nil || !strings.Contains(err.Error(), path+":2:24: list \"office\" cannot be read") {
		t.Errorf("a missing list: %v", err)
	}
}

// What can never match is reported at its file and line: as an error if it is invalid, else as a warning.
func TestRulesCheckNamesWhatNeverMatches(t *testing.T) {
	dir := t.TempDir()
	path, list := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "blocked.txt")
	const deny = "version: 1\nlists: {blocked: {file: blocked.txt}}\nrules:\n- {name: r, match: {ip: {list: blocked}}, algorithm: direct, action: deny}\n"
	for _, c := range []struct{ rules, list, want string }{
		{deny, "10.0.0.0/33\n", list + `:1:1: "10.0.0.0/33" is no network, it should be such as 10.0.0.0/8 or fd00::/8`},
		{deny, "# ours\n10.0.0.0/8\n10.0.0.256\n", path + `:2: warning: list blocked is used for ip only, and 1 of its values never match, because they are no addresses, first "10.0.0.256" (` + list + `:3)`},
		{deny, "10.0.0.1\n10.0.0.\xff\n", list + `:2:1: "10.0.0.\xff" is no value, it should be at most 255 bytes of UTF-8`},
		{deny + "- {name: s, match: {ip: 10.0.0.0/33}, algorithm: direct, action: deny}", "::1", path + `:5:25: ip should be an address such as 192.0.2.1 or 2001:db8::1, here is "10.0.0.0/33"; networks stand in {cidr: […]}`},
		{deny + "- {name: s, match: {from: 10.0.0.0/33}, algorithm: direct, action: deny}", "::1", path + ":5: warning: `from: 10.0.0.0/33` compares with this very text"},
		{deny + "- {name: s, match: {user: j\xfcrgen}, algorithm: direct, action: deny}", "::1", path + ":5:27: \"j\ufffdrgen\" is not UTF-8"},
		{deny + "- {name: s, match: {country: no}, algorithm: direct, action: deny}", "::1", path + `:5: warning: no is the text "no" here, and true or false for other readers of YAML. Put it in quotes: "no"`},
		{deny + "- {name: s, subject: ip, limit: 010, window: 1m}", "::1", path + `:5:33: limit should be a whole number from 0 (denies all) to 1000000000, or unlimited, here is "010", which some readers of YAML take for octal: write 10`},
	} {
		for name, content := range map[string]string{path: c.rules, list: c.list} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := call(t, nothing, "rules", "check", "--strict", path)
		if err == nil || !strings.Contains(out+err.Error(), c.want) {
			t.Errorf("%q:\n%s%v\nwant %s", c.rules, out, err, c.want)
		}
	}
}

// rules check --strict passes on the rules files of the documents and of the repository, without a flag.
func TestOurOwnRulesPassTheStrictCheck(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lists"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lists", "office.txt"), []byte("10.0.0.0/8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []string{"../../admission/rules/default.yaml", "../../deploy/kubernetes/rules.yaml", "../../examples/heavyjob/rules.yaml"}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```yaml\n")[1:] {
			block, _, _ := strings.Cut(block, "```")
			if !strings.HasPrefix(block, "version: 1\n") {
				continue
			}
			file := filepath.Join(dir, fmt.Sprintf("%s-%d.yaml", filepath.Base(page), i+1))
			if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
	}
	for _, file := range files {
		if out, err := call(t, nothing, "rules", "check", "--strict", file); err != nil || !strings.Contains(out, file+": valid") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if len(files) < 12 {
		t.Errorf("%d files", len(files))
	}
}

package httpapi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

func TestReload(t *testing.T) {
	b := setup(t)
	w := call(b.Internal(), "POST", "/v1/rules/reload", "")
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"version":"`+b.gate.rules.Version()+`","reload_failed":false,"rules":[{`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	one := &rules.Error{File: "rules.yaml", Line: 6, Column: 13, Problem: "window should be a duration"}
	two := &rules.Error{File: "lists/office.txt", Line: 2, Column: 1, Problem: "should be an address"}
	for _, err := range []error{fmt.Errorf("admission: reload: %w", errors.Join(one, two)), errors.Join(fmt.Errorf("reload: %w", one), two)} {
		b.gate.err = err
		p := problemIn(t, call(b.Internal(), "POST", "/v1/rules/reload", ""))
		want := "[{rules window should be a duration rules.yaml 6 13} {rules should be an address lists/office.txt 2 1}]"
		if p.Status != 422 || p.Reason != "invalid" || fmt.Sprint(p.Errors) != want || !strings.Contains(p.Detail, b.gate.rules.Version()) {
			t.Errorf("%+v", p)
		}
	}
	b.gate.err = errors.New("open rules.yaml: no such file or directory")
	if p := problemIn(t, call(b.Internal(), "POST", "/v1/rules/reload", "")); p.Status != 422 || !strings.Contains(p.Errors[0].Message, "no such file") {
		t.Errorf("%+v", p)
	}
	b.gate.stats.RulesFailed = true
	if w := call(b.Internal(), "GET", "/v1/rules", ""); !strings.Contains(w.Body.String(), `"reload_failed":true`) {
		t.Errorf("%s", w.Body)
	}
}

// TestReloadFiles uses real files: a change is in force when the call returns, and an invalid one never is.
func TestReloadFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(set string) {
		if err := os.WriteFile(file, []byte("version: 1\nrules:\n"+set), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(twoAMinute)
	set, err := rules.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), set, admission.Options{Secret: []byte("sixteen bytes or more"), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, func(c *Config) { c.Gate = gate })
	const ask = `{"subject":{"user":"ann"},"attributes":{"route":"/v1/x"},"mode":"check"}`
	left := func(want int) {
		t.Helper()
		if d := admitted(t, b, ask); *d.Remaining != want {
			t.Errorf("%d are left, want %d", *d.Remaining, want)
		}
	}
	left(2)
	write(strings.Replace(twoAMinute, "limit: 2", "limit: 5", 1))
	if w := call(b.Internal(), "POST", "/v1/rules/reload", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"limit":5`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	left(5)
	write(strings.Replace(twoAMinute, "limit: 2", "limit: -2", 1))
	p := problemIn(t, call(b.Internal(), "POST", "/v1/rules/reload", ""))
	if p.Status != 422 || len(p.Errors) != 1 || p.Errors[0].File != file || p.Errors[0].Line != 3 || p.Errors[0].Column == 0 || p.Errors[0].Message == "" {
		t.Errorf("%+v", p)
	}
	left(5)
	if w := call(b.Internal(), "GET", "/v1/rules", ""); !strings.Contains(w.Body.String(), `"reload_failed":true`) || !strings.Contains(w.Body.String(), `"limit":5`) {
		t.Errorf("%s", w.Body)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if p := problemIn(t, call(b.Internal(), "POST", "/v1/rules/reload", "")); p.Status != 422 || len(p.Errors) != 1 {
		t.Errorf("%+v", p)
	}
	left(5)
}

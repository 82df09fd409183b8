package koala_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/dialects/koala"
)

// converted is what becomes of a rule file.
func converted(t *testing.T, text string) (string, error) {
	t.Helper()
	path := writeFiles(t, map[string]string{"koala.conf": text, "blocked.dat": "666\n10.1.0.0/16\n"})
	yaml, warnings, err := koala.Convert(path, zone(t, koala.DefaultZone))
	if len(warnings) > 0 {
		t.Errorf("warnings %q", warnings)
	}
	return string(yaml), err
}

// rows are the lines of a table in a section of docs/koala.md, by cells, without its head.
func rows(t *testing.T, section string) (found [][]string) {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/koala.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(doc), "\n"+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	const escaped = "\x00"
	for line := range strings.Lines(strings.ReplaceAll(text, `\|`, escaped)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], escaped, "|"))
		}
		found = append(found, cells)
	}
	return found
}

var inTicks = regexp.MustCompile("`([^`]+)`")

// The rule file of docs/koala.md becomes the rules that stand there.
func TestRuleFileOfTheDocs(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/koala.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		_, text, _ := strings.Cut(string(doc), "\n```"+language+"\n")
		text, _, ok := strings.Cut(text, "```\n")
		if !ok {
			t.Fatalf("docs/koala.md has no block of %s", language)
		}
		return text
	}
	yaml, err := converted(t, block("koala"))
	if err != nil {
		t.Fatal(err)
	}
	if want := block("yaml"); !strings.Contains(yaml, want) {
		t.Errorf("it becomes\n%s\nwithout\n%s", yaml, want)
	}
}

// Every condition that docs/koala.md names is one.
func TestConditionsOfTheDocs(t *testing.T) {
	conditions := 0
	for _, cells := range rows(t, "## The rule file") {
		for _, found := range inTicks.FindAllStringSubmatch(cells[0], -1) {
			if !strings.ContainsAny(found[1], "=@<>") {
				continue // a method
			}
			conditions++
			if _, err := converted(t, fmt.Sprintf("[dicts]\nblocked : blocked.dat\n[rules]\nrule : [count] [%s] [time=1; count=1] [result=2; return=1]\n[result]\n2 : {\"Ret_type\":2}\n", found[1])); err != nil {
				t.Error(err)
			}
		}
	}
	if conditions < 15 {
		t.Errorf("%d conditions", conditions)
	}
}

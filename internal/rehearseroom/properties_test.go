package rehearseroom_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page of properties has a row for each of them, and names only tests that exist.
func TestPropertiesNameTests(t *testing.T) {
	const root = "../../"
	var rows []string
	for line := range strings.Lines(read(t, root+"docs/waiting-room/properties.md")) {
		if regexp.MustCompile(`^\| [WP]\d`).MatchString(line) {
			rows = append(rows, line)
		}
	}
	var want []string
	for n := range 34 {
		want = append(want, fmt.Sprintf("W%d", n+1))
	}
	for n := range 28 {
		want = append(want, fmt.Sprintf("P%d", n+1))
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	sources := make(map[string]string) // by folder
	for i, row := range rows {
		cells := strings.Split(row, "|")
		if len(cells) != 5 || strings.TrimSpace(cells[1]) != want[i] {
			t.Fatalf("row %d is %s, want %s and two cells", i, row, want[i])
		}
		named := regexp.MustCompile("`([a-z/]+)/(Test\\w+)`").FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 && !strings.Contains(cells[3], "rehearsed") && !strings.Contains(cells[3], "none") {
			t.Errorf("%s names no test, and no reason", want[i])
		}
		for _, test := range named {
			folder, name := test[1], test[2]
			if sources[folder] == "" {
				files, err := filepath.Glob(root + folder + "/*_test.go")
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					sources[folder] += read(t, file)
				}
			}
			if !strings.Contains(sources[folder], "\nfunc "+name+"(t *testing.T) {") {
				t.Errorf("%s: there is no %s in %s", want[i], name, folder)
			}
		}
	}
	// What is said to be rehearsed is judged.
	judge := read(t, "judge.go")
	for i, row := range rows {
		if strings.Contains(row, "rehearsed") && !strings.Contains(judge, `"`+want[i]+`"`) {
			t.Errorf("%s is not judged by rehearse --room", want[i])
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// A spreadsheet must not take a text for a formula, also where it splits lines at another character than the comma.
func TestTextsAreNoFormulas(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "ann": "ann", "a=b": "a=b", "=1+1": "'=1+1", "+49 30": "'+49 30", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t'=1", "\r=1": "'\r'=1",
		"＝1+1": "'＝1+1", "＋1": "'＋1", "－1": "'－1", "＠SUM(A1)": "'＠SUM(A1)", "１": "１", "\xff=1": "\xff=1", "\n": "'\n",
		"ann;=1+1": "ann;'=1+1", "ann\t+1": "ann\t'+1", "ann|@x": "ann|'@x", "ann,-1": "ann,'-1", "ann\n=1": "ann\n'=1", "a;＝1": "a;'＝1",
		"=1;=2;=3": "'=1;'=2;'=3", `a;"=1"`: `a;"'=1"`, "\xff;=1": "\xff;'=1", "a;b|c": "a;b|c", ";": ";", "a; =1": "a; =1",
	} {
		if got := Harmless(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// FuzzHarmless: however a line is split, no cell begins with a sign. NDJSON has the text itself.
func FuzzHarmless(f *testing.F) {
	for _, text := range []string{"=1", "a;=1", "a|+1\t-1", "a\"b;@x", "\n＝1", "a,b;=c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		one := func(f Format) string {
			out.Reset()
			page := func(after *string) ([]string, error) { return []string{text}, nil }
			if err := Write(t.Context(), &out, f, []string{"user"}, page, func(text *string) []any { return []any{*text} }); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		lines := one(CSV)
		for _, cell := range strings.FieldsFunc(lines, func(r rune) bool { return strings.ContainsRune(",;|\t\r\n", r) }) {
			if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(cell, `"`)); strings.ContainsRune("=+-@＝＋－＠", first) {
				t.Errorf("%q has the cell %q", text, cell)
			}
		}
		if _, err := csv.NewReader(strings.NewReader(lines)).ReadAll(); err != nil {
			t.Errorf("%q: %v", lines, err)
		}
		var object struct{ User *string }
		if err := json.Unmarshal([]byte(one(NDJSON)), &object); err != nil || (object.User == nil) != (text == "") || text != "" && utf8.ValidString(text) && *object.User != text {
			t.Errorf("%q became %v, %v", text, object.User, err)
		}
	})
}

// Programs get every text as it is, and null for what is unknown.
func TestExactTexts(t *testing.T) {
	var out bytes.Buffer
	at := time.Date(2030, 1, 1, 12, 0, 0, 5e6, time.FixedZone("", 3600))
	err := Write(t.Context(), &out, NDJSON, []string{"user", "n", "units", "at", "never", "none", "empty"}, func(*string) ([]string, error) { return []string{"+4915112345678", "=1;<a>\"\n"}, nil },
		func(user *string) []any { return []any{*user, 7, []int{1, 2}, at, time.Time{}, nil, ""} })
	const rest = `,"n":7,"units":[1,2],"at":"2030-01-01T11:00:00.005Z","never":null,"none":null,"empty":null}` + "\n"
	if want := `{"user":"+4915112345678"` + rest + `{"user":"=1;\u003ca\u003e\"\n"` + rest; err != nil || out.String() != want {
		t.Errorf("%v\n%swant\n%s", err, &out, want)
	}
}

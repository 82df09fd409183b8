package koala

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/internal/names"
)

// A file is a parsed rule file.
type file struct {
	path    string
	lines   []*line
	dicts   []dict
	rules   []*rule
	results map[int]Result

	// The meaning of each line; a line in none of them is a comment or empty.
	sectionAt map[*line]string
	dictAt    map[*line]dict
	ruleAt    map[*line]*rule
	resultAt  map[*line]int
}

// A dict is a list of values in a file, one per line.
type dict struct {
	name string
	path string // of the file
}

// A Result is the answer to a caller.
type Result struct {
	RetType   int    `json:"Ret_type"`
	RetCode   int    `json:"Ret_code"` // of the rule that decided
	ErrNo     int    `json:"Err_no"`
	ErrMsg    string `json:"Err_msg"`
	StrReason string `json:"Str_reason"`
	NeedVcode int    `json:"Need_vcode"`
	VcodeLen  int    `json:"Vcode_len"`
	VcodeType int    `json:"Vcode_type"`
	Other     string `json:"Other"`
	Version   int    `json:"Version"`
}

// The results for requests that no rule matches, and for requests that all rules admit.
const (
	unmatched = 0
	within    = 1
)

// admits reports whether r admits the caller, by the types of the rule file shipped with Koala.
func (r Result) admits() bool { return r.RetType == unmatched || r.RetType == within }

// sections in their required order.
var sections = []string{"[dicts]", "[rules]", "[result]"}

// parseFile parses a rule file. Every error is an *rules.Error.
func parseFile(path string, src []byte) (*file, error) {
	f := &file{
		path:      path,
		results:   map[int]Result{unmatched: {StrReason: "Allow"}, within: {RetType: within, StrReason: "Allow"}},
		sectionAt: map[*line]string{}, dictAt: map[*line]dict{}, ruleAt: map[*line]*rule{}, resultAt: map[*line]int{},
	}
	var err error
	if f.lines, err = linesOf(path, src, false); err != nil {
		return nil, err
	}
	read := []func(part) error{f.readDict, f.readRule, f.readResult}
	at := -1
	for _, l := range f.lines {
		if l.empty() {
			continue
		}
		p := l.whole()
		signs := p
		if at == 0 {
			signs, _, _ = p.cut(":") // the rest is a file name, which may contain any character
		}
		if err := signs.plain(); err != nil {
			return nil, err
		}
		switch {
		case at+1 < len(sections) && strings.EqualFold(p.text, sections[at+1]):
			at++
			f.sectionAt[l] = sections[at]
		case strings.HasPrefix(p.text, "["):
			return nil, p.wrong("the sections must be [dicts], [rules] and [result], each once and in this order")
		case at < 0:
			return nil, p.wrong("a rule file must begin with the section [dicts]")
		default:
			if err := read[at](p); err != nil {
				return nil, err
			}
		}
	}
	if at < len(sections)-1 {
		last := f.lines[len(f.lines)-1].whole()
		return nil, last.wrong("section %s is missing; [dicts] and [result] may be empty", sections[at+1])
	}
	return f, f.check()
}

// readDict parses a line such as name : path.
func (f *file) readDict(p part) error {
	name, path, ok := p.cut(":")
	switch {
	case !ok || name.text == "" || path.text == "":
		return p.wrong("a dict must be like blacklist : blacklist.dat")
	case !names.Mixed(name.text, "_.-", names.Longest):
		return name.wrong("the name of a dict must be " + names.Length + " of A-Z a-z 0-9 _ . -")
	}
	for _, d := range f.dicts {
		if d.name == name.text {
			return name.wrong("dict %q is declared twice", name.text)
		}
	}
	found, err := find(f.path, path.text)
	if err != nil {
		return path.wrong("the file of dict %s cannot be read: %v", name.text, path.named(err))
	}
	d := dict{name: name.text, path: found}
	f.dicts = append(f.dicts, d)
	f.dictAt[p.line] = d
	return nil
}

// dictWarnings returns a warning about the first entry of each kind that dicts may mean differently. Such entries are not rejected,
// because dicts have no quotes to express what is meant.
func (f *file) dictWarnings() (texts []string) {
	for _, d := range f.dicts {
		src, err := os.ReadFile(d.path)
		if err != nil {
			continue // it was readable a moment ago
		}
		at, warned := 0, map[string]bool{}
		warn := func(format string, args ...any) {
			if !warned[format] {
				warned[format] = true
				texts = append(texts, fmt.Sprintf("%s:%d: ", d.path, at)+fmt.Sprintf(format, args...))
			}
		}
		for text := range strings.Lines(strings.TrimPrefix(string(src), "\ufeff")) {
			at++
			text, _, comment := strings.Cut(" "+text, " #")
			value := part{line: &line{}, text: strings.TrimSpace(text)}
			if comment {
				warn("# begins a comment here; Koala reads it as part of the value")
			}
			if s, _ := value.span(); strings.Contains(value.text, "*") && s.network != "" || s.addresses != nil {
				warn("%q is a word in a dict, as in Koala; a network is written like 10.0.24.0/24", value.text)
			}
			if i := strings.IndexFunc(value.text, func(r rune) bool { return instead(r) != "" }); i >= 0 {
				sign := value.from(i).sign()
				warn("%q has %#U, and fits only what has it too; else it should be %s", value.text, sign, instead(sign))
			}
		}
	}
	return texts
}

// readResult parses a line such as 2 : {"Ret_type":2, …}.
func (f *file) readResult(p part) error {
	number, body, ok := p.cut(":")
	n, err := strconv.Atoi(number.text)
	if !ok || err != nil || n < 0 {
		return p.wrong(`a result should be a number and its fields, such as 2 : {"Ret_type":2, "Err_no":10, "Str_reason":"Deny"}`)
	}
	for l, other := range f.resultAt {
		if other == n {
			return number.wrong("result %d is defined twice, first in line %d", n, l.number)
		}
	}
	if err := body.complete(); err != nil {
		return err
	}
	var r Result
	decoder := json.NewDecoder(strings.NewReader(body.text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return body.wrong("the fields of a result must be JSON with Ret_type, Ret_code, Err_no, Err_msg, Str_reason, Need_vcode, Vcode_len, "+
			"Vcode_type, Other and Version: %v",
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if rest := strings.Trim(body.text[decoder.InputOffset():], blanks); rest != "" {
		return body.wrong("nothing may follow the fields of the result, got %q", rest)
	}
	f.results[n] = r
	f.resultAt[p.line] = n
	return nil
}

// complete reports errors that encoding/json ignores: fields without a value, duplicate fields, and a missing type, which would make a
// result admit.
func (p part) complete() error {
	decoder := json.NewDecoder(strings.NewReader(p.text))
	if t, err := decoder.Token(); err != nil || t != json.Delim('{') {
		return p.wrong(`the fields of a result should be JSON, such as {"Ret_type":2, "Err_no":10, "Str_reason":"Deny"}`)
	}
	var names []string
	for decoder.More() {
		name, err := decoder.Token()
		field, ok := name.(string)
		var value any
		if err == nil && ok {
			err = decoder.Decode(&value)
		}
		switch field = strings.ToLower(field); {
		case err != nil:
			return nil // the parsing of the values reports it
		case value == nil:
			return p.wrong("%s must have a value, got null", name)
		case slices.Contains(names, field):
			return p.wrong("%s is given twice", name)
		}
		names = append(names, field)
	}
	if !slices.Contains(names, "ret_type") {
		return p.wrong("Ret_type is required: 0 and 1 admit, higher ones deny")
	}
	return nil
}

// check verifies that rules and results are consistent.
func (f *file) check() error {
	for l, number := range f.resultAt {
		if fallback := number == unmatched || number == within; fallback && !f.results[number].admits() {
			return l.whole().wrong("result %d is for requests that no rule stops; its Ret_type must be 0 or 1", number)
		}
	}
	for _, r := range f.rules {
		result, ok := f.results[r.result]
		switch {
		case !ok:
			return r.answer.wrong("result=%d must be one of those under [result]", r.result)
		case r.method != "direct" && result.admits():
			return r.answer.wrong("result=%d admits requests above the limit and skips the rules below; only a direct rule may do that, a %s "+
				"rule needs a result with a Ret_type above 1",
				r.result, r.method)
		}
	}
	if len(f.rules) == 0 {
		return f.lines[len(f.lines)-1].whole().wrong("[rules] must have at least one rule")
	}
	return nil
}

// find returns the path of a file that another file names: in that file's directory, or in its parent directory. Koala was started in the
// latter.
func find(from, name string) (string, error) {
	if filepath.IsAbs(name) {
		_, err := os.Stat(name)
		return name, err
	}
	folder := filepath.Dir(from)
	beside, above := filepath.Join(folder, name), filepath.Join(folder, "..", name)
	_, err := os.Stat(beside)
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return beside, err
	}
	if _, err := os.Stat(above); err != nil {
		return "", fmt.Errorf("there is neither %s nor %s", beside, above)
	}
	return above, nil
}

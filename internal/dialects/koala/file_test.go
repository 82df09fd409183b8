package koala_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/dialects/koala"
)

var fileSecret = []byte("a secret of the tests, 32 bytes.")

// shippedResults are those of the file that comes with Koala.
const shippedResults = `
[result]
0 : {"Ret_type":0, "Ret_code":0, "Err_no":0, "Err_msg":"", "Str_reason":"Allow", "Need_vcode":0, "Vcode_len":0, "Vcode_type":0, "Other":"", "Version":0}
1 : {"Ret_type":1, "Ret_code":0, "Err_no":0, "Err_msg":"", "Str_reason":"Allow", "Need_vcode":0, "Vcode_len":0, "Vcode_type":0, "Other":"", "Version":0}
2 : {"Ret_type":2, "Ret_code":0, "Err_no":10, "Err_msg":"", "Str_reason":"Deny", "Need_vcode":0, "Vcode_len":0, "Vcode_type":0, "Other":"", "Version":0}
3 : {"Ret_type":3, "Ret_code":0, "Err_no":20, "Err_msg":"", "Str_reason":"Vcode", "Need_vcode":1, "Vcode_len":4, "Vcode_type":0, "Other":"", "Version":0}
4 : {"Ret_type":4, "Ret_code":0, "Err_no":21, "Err_msg":"", "Str_reason":"Vcode", "Need_vcode":1, "Vcode_len":6, "Vcode_type":0, "Other":"", "Version":0}
`

// writeFiles writes files by their names, and returns the path of the one called koala.conf.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "koala.conf")
}

// A journal is what a service logs.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer  // guarded by mu
	line chan struct{} // gets one when something was written
}

func newJournal() *journal { return &journal{line: make(chan struct{}, 1)} }

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case j.line <- struct{}{}:
	default:
	}
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// openFile returns the service of a file, over a memory store of its own if it is given no other, and what it logs.
func openFile(path string, stores ...store.Store) (*koala.Service, *journal, error) {
	log := newJournal()
	if len(stores) == 0 {
		stores = []store.Store{inMemory()}
	}
	s, err := koala.New(stores[0], koala.Options{
		Path: path, Secret: fileSecret, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	return s, log, err
}

// serveRules returns the service of these rules and dicts, which stand in files of their own.
func serveRules(t testing.TB, rules string, dicts map[string]string) *koala.Service {
	t.Helper()
	files := map[string]string{}
	var head strings.Builder
	head.WriteString("[dicts]\n")
	for name, content := range dicts {
		files[name+".dat"] = content
		head.WriteString(name + " : " + name + ".dat\n")
	}
	files["koala.conf"] = head.String() + "[rules]\n" + rules + shippedResults
	s, _, err := openFile(writeFiles(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// browse returns the return number of the rule that answers, or minus the type of the result if none does: 0 or -1.
func browse(t testing.TB, s *koala.Service, params koala.Params, write bool) int {
	t.Helper()
	r, err := s.Browse(context.Background(), params, write)
	if err != nil {
		t.Fatalf("Browse(%v): %v", params, err)
	}
	if r.RetCode == 0 {
		return -r.RetType
	}
	return r.RetCode
}

func TestDictFilesAreBesideTheRuleFileOrInTheFolderAbove(t *testing.T) {
	const rules = "[dicts]\nbad : conf/bad.dat\n[rules]\nrule : [direct] [uid @ bad] [] [result=2; return=7]\n" + shippedResults
	for name, files := range map[string]map[string]string{
		"beside":         {"koala.conf": rules, "conf/bad.dat": "666\n", "../conf/bad.dat": "1\n"},
		"above":          {"koala.conf": "rule_file = conf/rules.conf\n", "conf/rules.conf": rules, "conf/bad.dat": "666\n"},
		"beside first":   {"koala.conf": "rule_file = conf/rules.conf\n", "conf/rules.conf": rules, "conf/conf/bad.dat": "666\n", "conf/bad.dat": "1\n"},
		"CRLF and a BOM": {"koala.conf": "\ufeff" + strings.ReplaceAll(rules, "\n", "\r\n"), "conf/bad.dat": "\ufeff666\r\n"},
		"no last line":   {"koala.conf": strings.TrimRight(rules, "\n"), "conf/bad.dat": "666"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := openFile(writeFiles(t, files))
			if err != nil {
				t.Fatal(err)
			}
			if got := browse(t, s, koala.Params{"uid": "666"}, false); got != 7 {
				t.Errorf("uid 666: %d", got)
			}
			if got := browse(t, s, koala.Params{"uid": "1"}, false); got != 0 {
				t.Errorf("uid 1: %d", got)
			}
		})
	}
	path := writeFiles(t, map[string]string{"koala.conf": rules, "away/bad.dat": "666\n"})
	moved := strings.ReplaceAll(rules, "conf/bad.dat", filepath.Join(filepath.Dir(path), "away", "bad.dat"))
	if err := os.WriteFile(path, []byte(moved), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, _, err := openFile(path); err != nil || browse(t, s, koala.Params{"uid": "666"}, false) != 7 {
		t.Errorf("a path from the root: %v", err)
	}
}

func TestDictIsEmpty(t *testing.T) {
	s := serveRules(t, "rule : [direct] [uid @ none] [] [result=2; return=1]\nrule : [direct] [uid !@ none] [] [result=2; return=2]\n", map[string]string{"none": ""})
	if got := browse(t, s, koala.Params{"uid": "7"}, false); got != 2 {
		t.Errorf("uid 7: %d", got)
	}
	if got := browse(t, s, koala.Params{"uid": ""}, false); got != 0 {
		t.Errorf("no uid: %d", got)
	}
}

// TestDictWithComments: what Koala takes for values are comments here, which is said; so is a network that is none. Once of each kind.
func TestDictWithComments(t *testing.T) {
	s, log, err := openFile(writeFiles(t, map[string]string{
		"koala.conf": "[dicts]\nbad : bad.dat\n[rules]\nrule : [direct] [uid @ bad] [] [result=2; return=1]\n" + shippedResults,
		"bad.dat":    "666\n# who sold accounts\n#7\nc#\n10.0.24.*\n10.0.25.* # one more\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[string]int{"666": 1, "c#": 1, "#7": 0, "# who sold accounts": 0} {
		if got := browse(t, s, koala.Params{"uid": uid}, false); got != want {
			t.Errorf("uid %s: %d, want %d", uid, got, want)
		}
	}
	text := log.String()
	for _, want := range []string{"bad.dat:2: # begins a comment here", `bad.dat:5: \"10.0.24.*\" is a word in a dict`} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%s is not there:\n%s", want, text)
		}
	}
	if strings.Count(text, "level=WARN") != 2 {
		t.Errorf("not one warning of each kind:\n%s", text)
	}
}

func TestResultsHaveDefaults(t *testing.T) {
	s, _, err := openFile(writeFiles(t, map[string]string{
		"koala.conf": "[dicts]\n[rules]\nrule : [count] [act=ask] [time=60; count=1] [result=7; return=1]\n[result]\n7 : {\"Ret_type\":7,\"Str_reason\":\"a \\\"word\\\"\"}\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []koala.Result{
		{RetType: 1, StrReason: "Allow"}, {RetType: 7, RetCode: 1, StrReason: `a "word"`}, {RetType: 7, RetCode: 1, StrReason: `a "word"`},
	} {
		if got, err := s.Browse(t.Context(), koala.Params{"act": "ask"}, true); err != nil || got != want {
			t.Errorf("request %d: %+v, %v", i, got, err)
		}
	}
	if got, err := s.Browse(t.Context(), koala.Params{"act": "answer"}, true); err != nil || got != (koala.Result{StrReason: "Allow"}) {
		t.Errorf("nothing matches: %+v, %v", got, err)
	}
}

func TestHugeDict(t *testing.T) {
	values := strings.Repeat("x\n", 1000) + strings.Repeat("y", 255) + "\n"
	s := serveRules(t, "rule : [direct] [uid @ many] [] [result=2; return=1]", map[string]string{"many": values})
	if got := browse(t, s, koala.Params{"uid": strings.Repeat("y", 255)}, false); got != 1 {
		t.Errorf("a value of 255 bytes: %d", got)
	}
}

package koala_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/testenv"
)

// replace writes a file as editors do: its new content comes at once.
func replace(t testing.TB, dir, name, content string) {
	t.Helper()
	temp := filepath.Join(dir, name+".new")
	if err := os.WriteFile(temp, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// follow runs the service until the test ends.
func follow(t *testing.T, s *koala.Service) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// until waits for a line of the log that has all words, counted from the line at.
func (j *journal) until(t *testing.T, at int, words ...string) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		for _, line := range strings.Split(j.String(), "\n")[at:] {
			all := true
			for _, word := range words {
				all = all && strings.Contains(line, word)
			}
			if all {
				return
			}
		}
		select {
		case <-j.line:
		case <-late:
			t.Fatalf("no line of the log has %q:\n%s", words, j)
		}
	}
}

func (j *journal) lines() int { return strings.Count(j.String(), "\n") }

// TestFollowsFiles: a change of each file is in force without a restart; a wrong one is not, and is named.
func TestFollowsFiles(t *testing.T) {
	const (
		rules = "[dicts]\nbad : bad.dat\n[rules]\nrule : [direct] [uid @ bad] [] [result=2; return=%d]\n" + shippedResults
		good  = "admission: rules loaded"
		wrong = "admission: rules not loaded, the last good ones stay in force"
	)
	path := writeFiles(t, map[string]string{
		"koala.conf": "include sub/more.conf\n", "sub/more.conf": "rule_file = ../rules.conf\n",
		"rules.conf": fmt.Sprintf(rules, 1), "other.conf": fmt.Sprintf(rules, 5), "bad.dat": "666\n",
	})
	dir := filepath.Dir(path)
	s, log, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	follow(t, s)
	at := 0
	for _, step := range []struct {
		name, file, content string
		says                []string
		uid                 string
		want                int
	}{
		{"a rule", "rules.conf", fmt.Sprintf(rules, 2), []string{good}, "666", 2},
		{"a dict", "bad.dat", "777\n", []string{good}, "666", 0},
		{"the dict's other value", "bad.dat", "666\n777\n", []string{good}, "777", 2},
		{"a remark in a dict", "bad.dat", "777 # sold accounts\n", []string{"level=WARN", "bad.dat:1: # begins a comment here"}, "777", 2},
		{"a wrong rule", "rules.conf", "[dicts]\n[rules]\nrule : [count]\n[result]\n", []string{wrong, "rules.conf:3:15: a group in brackets is required", `the line is \"rule : [count]\"`}, "777", 2},
		{"it is mended", "rules.conf", fmt.Sprintf(rules, 3), []string{good}, "777", 3},
		{"a wrong dict", "bad.dat", "10.0.0.0/33\n", []string{wrong, "bad.dat:1:1"}, "777", 3},
		{"the dict is mended", "bad.dat", "777\n", []string{}, "777", 3},
		{"a result", "rules.conf", strings.Replace(fmt.Sprintf(rules, 3), `"Ret_type":2,`, `"Ret_type":7,`, 1), []string{good}, "777", 3},
		{"an included file", "sub/more.conf", "rule_file = ../other.conf\nlisten = 1\n", []string{good}, "777", 5},
		{"a wrong included file", "sub/more.conf", "rule_file\n", []string{wrong, "sub/more.conf:1:1: a line must be like"}, "777", 5},
		{"the first file again", "koala.conf", "rule_file = rules.conf\n", []string{good}, "777", 3},
		{"no more the included file, but the rules", "rules.conf", fmt.Sprintf(rules, 4), []string{good}, "777", 4},
	} {
		replace(t, dir, step.file, step.content)
		log.until(t, at, step.says...)
		at = log.lines()
		if err := s.Reload(); err != nil && !strings.Contains(strings.Join(step.says, ""), wrong) { // what is not said may be under way
			t.Errorf("%s: %v", step.name, err)
		}
		if got := browse(t, s, koala.Params{"uid": step.uid}, false); got != step.want {
			t.Fatalf("%s: uid %s is answered by %d, want %d\n%s", step.name, step.uid, got, step.want, log)
		}
	}
}

// TestFollowsTheFilesThatAreNamedNow: a koala.conf that names other files with the same rules is followed from then on by those.
func TestFollowsTheFilesThatAreNamedNow(t *testing.T) {
	path := writeFiles(t, map[string]string{"koala.conf": "include a.conf\n", "a.conf": "rule_file = rules.conf\n", "b.conf": "rule_file = rules.conf\n", "rules.conf": ruleFile})
	s, log, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Dir(path), "koala.conf", "include b.conf\n")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	follow(t, s)
	replace(t, filepath.Dir(path), "other.conf", strings.Replace(ruleFile, "return=1", "return=2", 1))
	replace(t, filepath.Dir(path), "b.conf", "rule_file = other.conf\n")
	log.until(t, 0, "admission: rules loaded")
	if got := browse(t, s, koala.Params{"act": "ask"}, false); got != 2 {
		t.Errorf("rule %d answers", got)
	}
}

// TestOneRequestOnePolicy: while files change all the time, each request is answered by the rules and the results of one version.
func TestOneRequestOnePolicy(t *testing.T) {
	version := func(n int) string {
		// All numbers of a version are n, and the dict has it in both.
		return fmt.Sprintf("[dicts]\nall : all.dat\n[rules]\nrule : [direct] [uid @ all; n=%d] [] [result=2; return=%[1]d]\nrule : [count] [uid=+] [time=60; count=1000000] [result=2; return=%d]\nrule : [direct] [uid=+] [] [result=3; return=%d]\n"+
			"[result]\n2 : {\"Ret_type\":2,\"Err_no\":%[1]d}\n3 : {\"Ret_type\":3,\"Err_no\":%[3]d}\n", n, n+1000, n+2000)
	}
	path := writeFiles(t, map[string]string{"koala.conf": version(1), "all.dat": "7\n"})
	s, _, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reloads := testenv.Size(100, 300)
	stop := make(chan struct{})
	var g sync.WaitGroup
	for worker := range 4 {
		g.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				params := koala.Params{"uid": "7", "n": fmt.Sprint(1 + i%(reloads+1))}
				r, err := s.Browse(context.Background(), params, worker%2 == 0)
				if err != nil {
					t.Errorf("Browse: %v", err)
					return
				}
				if r.RetCode != r.ErrNo || r.RetCode < 1 || r.RetCode < 1000 && fmt.Sprint(r.RetCode) != params["n"] {
					t.Errorf("n=%s: rule %d answers with the result of %d", params["n"], r.RetCode, r.ErrNo)
					return
				}
				all, err := s.BrowseComplete(context.Background(), params, false)
				if err != nil || len(all) == 0 || all[0].RetCode != all[0].ErrNo {
					t.Errorf("BrowseComplete: %+v, %v", all, err)
					return
				}
			}
		})
	}
	for n := range reloads {
		replace(t, filepath.Dir(path), "koala.conf", version(n+2))
		if err := s.Reload(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	g.Wait()
	if got := browse(t, s, koala.Params{"uid": "7", "n": fmt.Sprint(reloads + 1)}, false); got != reloads+1 {
		t.Errorf("at last rule %d answers", got)
	}
}

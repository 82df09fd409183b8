package koala_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/dialects/koala"
)

const ruleFile = "[dicts]\n[rules]\nrule : [direct] [act=ask] [] [result=2; return=1]\n" + shippedResults

// warningsOf are those of converting, which are those that a service logs.
func warningsOf(t *testing.T, path string) []string {
	t.Helper()
	_, warnings, err := koala.Convert(path, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for i := range warnings {
		warnings[i] = strings.TrimPrefix(warnings[i], filepath.Dir(path)+"/")
	}
	return warnings
}

// TestConfKeys: every key of Koala's but rule_file is named, with what there is instead.
func TestConfKeys(t *testing.T) {
	keys := map[string]string{ // a word of the warning
		"listen": "INTERNAL_LISTEN", "pid_file": "SIGTERM", "policy_loader_frequency": "at once",
		"externalConnTimeout": "fixed limits", "externalReadTimeout": "fixed limits", "externalWriteTimeout": "fixed limits",
		"redis_server": "REDIS_URL", "redis_auth": "REDIS_URL", "redis_pool_maxIdle": "pool", "redis_pool_idleTimeout": "pool",
		"log_notice_file_path": "standard error", "log_debug_file_path": "standard error", "log_trace_file_path": "standard error",
		"log_fatal_file_path": "standard error", "log_warning_file_path": "standard error",
		"log_cron_time": "rotate the log", "log_file_life_time": "delete old logs", "log_channel_buff_size": "not buffered", "log_flush_timer": "not buffered",
		"log_debug_open": "LOG_LEVEL=debug", "log_level": "LOG_LEVEL",
		"rule_fiel": "Koala has no such key", "REDIS_SERVER": "Koala has no such key",
	}
	var conf strings.Builder
	conf.WriteString("# a remark\n\n rule_file\t=  rules.conf \n")
	for key := range keys {
		fmt.Fprintf(&conf, "%s = x = y\n", key)
	}
	files := map[string]string{"koala.conf": conf.String(), "rules.conf": ruleFile}
	warnings := warningsOf(t, writeFiles(t, files))
	if len(warnings) != len(keys) {
		t.Errorf("%d warnings for %d keys", len(warnings), len(keys))
	}
	for key, word := range keys {
		line := strings.Count(strings.Split(conf.String(), "\n"+key+" = ")[0], "\n") + 2
		want := fmt.Sprintf("koala.conf:%d: %s does nothing here: ", line, key)
		found := false
		for _, text := range warnings {
			found = found || strings.HasPrefix(text, want) && strings.Contains(text, word)
		}
		if !found {
			t.Errorf("no warning begins with %q and has %q:\n%s", want, word, strings.Join(warnings, "\n"))
		}
	}
	s, log, err := openFile(writeFiles(t, files))
	if err != nil || browse(t, s, koala.Params{"act": "ask"}, false) != 1 {
		t.Errorf("the service: %v", err)
	}
	if got := strings.Count(log.String(), "level=WARN"); got != len(keys) {
		t.Errorf("%d of %d warnings were logged:\n%s", got, len(keys), log)
	}
}

// TestConfIncludes: files are included from the folder of the file that names them, and what stands later counts.
func TestConfIncludes(t *testing.T) {
	const other = "[dicts]\n[rules]\nrule : [direct] [act=ask] [] [result=2; return=2]\n" + shippedResults
	for name, test := range map[string]struct {
		files map[string]string
		want  int
	}{
		"relative to itself":      {map[string]string{"koala.conf": "include conf/a.conf\n", "conf/a.conf": "include b/b.conf\n", "conf/b/b.conf": "rule_file = r.conf\n", "conf/b/r.conf": ruleFile}, 1},
		"rule file a folder up":   {map[string]string{"koala.conf": "include conf/a.conf\n", "conf/a.conf": "rule_file = conf/r.conf\n", "conf/r.conf": ruleFile}, 1},
		"the later one, before":   {map[string]string{"koala.conf": "rule_file = r.conf\nrule_file = q.conf\n", "r.conf": ruleFile, "q.conf": other}, 2},
		"the later one, included": {map[string]string{"koala.conf": "rule_file = r.conf\nINCLUDE\ta.conf\n", "a.conf": "rule_file = q.conf\n", "r.conf": ruleFile, "q.conf": other}, 2},
		"the later one, behind":   {map[string]string{"koala.conf": "include a.conf\nrule_file = r.conf\n", "a.conf": "rule_file = q.conf\n", "r.conf": ruleFile, "q.conf": other}, 1},
		"one twice":               {map[string]string{"koala.conf": "include a.conf\ninclude a.conf\n", "a.conf": "rule_file = r.conf\n", "r.conf": ruleFile}, 1},
		"a name with a #":         {map[string]string{"koala.conf": "rule_file = rules #1.conf\n", "rules #1.conf": ruleFile}, 1},
		"a name with blanks":      {map[string]string{"koala.conf": "include  a b.conf \r\n", "a b.conf": "rule_file = the rules.conf\r\n", "the rules.conf": ruleFile}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := openFile(writeFiles(t, test.files))
			if err != nil {
				t.Fatal(err)
			}
			if got := browse(t, s, koala.Params{"act": "ask"}, false); got != test.want {
				t.Errorf("rule %d answers, want %d", got, test.want)
			}
		})
	}
}

func TestWrongConfs(t *testing.T) {
	deep := map[string]string{"koala.conf": "include 0.conf\n"}
	for i := range 20 {
		deep[fmt.Sprintf("%d.conf", i)] = fmt.Sprintf("include %d.conf\n", i+1)
	}
	wide := map[string]string{"koala.conf": strings.Repeat("include a.conf\n", 101), "a.conf": "listen = 1\n"}
	for name, test := range map[string]struct {
		files    map[string]string
		problems []string // places are those of each file on the way
	}{
		"itself":                {map[string]string{"koala.conf": "\ninclude koala.conf\n"}, []string{`koala.conf:2:9: koala.conf cannot be included: it includes itself through `}},
		"in a circle":           {map[string]string{"koala.conf": "include a.conf\n", "a.conf": "# a\n include ./koala.conf"}, []string{`koala.conf:1:9: a.conf cannot be included: `, `a.conf:2:10: ./koala.conf cannot be included: it includes itself`}},
		"too deep":              {deep, []string{"includes must be nested at most 16 deep"}},
		"too many":              {wide, []string{"koala.conf:100:9: a.conf cannot be included: at most 100 files may be included"}},
		"missing":               {map[string]string{"koala.conf": "include none.conf\n"}, []string{`koala.conf:1:9: none.conf cannot be included: `, "no such file"}},
		"a folder":              {map[string]string{"koala.conf": "include .\n"}, []string{"koala.conf:1:9: . cannot be included: ", "is no file"}},
		"a password":            {map[string]string{"koala.conf": "redis_auth: hunter2\n"}, []string{`koala.conf:1:1: a line must be like key = value, or include FILE`}},
		"no name":               {map[string]string{"koala.conf": "include\n"}, []string{`koala.conf:1:1: a line must be like key = value, or include FILE`}},
		"no key":                {map[string]string{"koala.conf": "= value\n"}, []string{"koala.conf:1:1: a line must be like key = value"}},
		"no line of a conf":     {map[string]string{"koala.conf": "listen : 9981\n"}, []string{`koala.conf:1:1: a line must be like key = value, or include FILE`}},
		"no rule file":          {map[string]string{"koala.conf": "listen = :9981\n"}, []string{"koala.conf has neither a section [rules] nor a line such as rule_file = conf/koala_rule.conf"}},
		"an empty rule file":    {map[string]string{"koala.conf": "rule_file =\n"}, []string{"koala.conf has neither a section"}},
		"the rule file is away": {map[string]string{"koala.conf": "rule_file = conf/r.conf\n"}, []string{`koala.conf:1:13: the rule file cannot be read: there is neither `}},
		"a folder for a file":   {map[string]string{"koala.conf": "rule_file = .\n"}, []string{`koala.conf:1:13: the rule file cannot be read: `, "is no file"}},
		"a conf for a file":     {map[string]string{"koala.conf": "rule_file = r.conf\n", "r.conf": "listen = 1\n"}, []string{`r.conf:1:1: a rule file must begin with the section [dicts]; the line is "listen = 1"`}},
		"GBK":                   {map[string]string{"koala.conf": "# \xb9\xe6\nrule_file = r.conf\n", "r.conf": ruleFile}, []string{"koala.conf:1:1: the line must be UTF-8"}},
		"a remark behind":       {map[string]string{"koala.conf": "rule_file = r.conf # x\n", "r.conf": ruleFile}, []string{`koala.conf:1:13: the rule file cannot be read: there is neither `, "; a comment needs a line of its own: what follows this # is part of the name"}},
		"and one included":      {map[string]string{"koala.conf": "include a.conf # x\n", "a.conf": "rule_file = r.conf\n", "r.conf": ruleFile}, []string{"koala.conf:1:9: a.conf # x cannot be included: ", "; a comment needs a line of its own"}},
		"a wrong rule":          {map[string]string{"koala.conf": "rule_file = r.conf\n", "r.conf": "[dicts]\n[rules]\nrule : x\n[result]\n"}, []string{`r.conf:3:8: a group in brackets is required`}},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFiles(t, test.files)
			_, _, err := openFile(path)
			if err == nil || !strings.HasPrefix(err.Error(), "koala: "+filepath.Dir(path)) || strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("the error is %v", err)
			}
			for _, problem := range test.problems {
				if !strings.Contains(err.Error(), problem) {
					t.Errorf("%q is not in\n%v", problem, err)
				}
			}
		})
	}
}

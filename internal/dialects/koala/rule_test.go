package koala_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
)

// wrongRules are rules that are refused: the column of the error, and how it begins. Each stands in line 4 of its file.
var wrongRules = []struct {
	name, rule string
	column     int
	problem    string
}{
	// What Koala checks.
	{"three sections", "rule : [count] [act=ask] [result=2; return=1]", 46, "a group in brackets is required, as in rule : [count] [act=ask; uid=+] [time=60; count=5] [result=2; return=201]"},
	{"a result among thresholds", "rule : [count] [act=ask] [time=1; result=2] [count=1; return=1]", 35, `must be one of base, count, erase1, erase2, time, each with a number, got "result=2"`},
	{"no section of a result", "rule : [count] [act=ask] [time=1; count=1]", 43, "a group in brackets is required, as in rule : [count] [act=ask; uid=+] [time=60; count=5] [result=2; return=201]"},
	{"five sections", "rule : [count] [act=ask] [time=1; count=1] [result=2; return=1] [x]", 65, "a rule must end after four groups in brackets"},
	{"unknown method", "rule : [bucket] [act=ask] [time=1; count=1] [result=2; return=1]", 9, `the method must be direct, count, base or leak, got "bucket"`},
	{"threshold is no integer", "rule : [count] [act=ask] [time=1.5; count=1] [result=2; return=1]", 32, `time must be a whole number of at most 2147483647, got "1.5"`},
	{"threshold is a word", "rule : [count] [act=ask] [time=1m; count=1] [result=2; return=1]", 32, `time must be a whole number of at most 2147483647, got "1m"`},
	{"threshold has 33 bits", "rule : [count] [act=ask] [time=1; count=4294967297] [result=2; return=1]", 41, `count must be a whole number of at most 2147483647, got "4294967297"`},
	{"unknown threshold", "rule : [count] [act=ask] [time=1; limit=1] [result=2; return=1]", 35, `must be one of base, count, erase1, erase2, time, each with a number, got "limit=1"`},
	{"unknown result key", "rule : [count] [act=ask] [time=1; count=1] [result=2; code=1]", 55, `must be one of result, return, each with a number, got "code=1"`},
	{"count is 0", "rule : [count] [act=ask] [time=1; count=0] [result=2; return=1]", 27, "a count rule must have a count of 1 or more; leave the rule out if there is no limit"},
	{"time is 0", "rule : [count] [act=ask] [time=0; count=1] [result=2; return=1]", 27, "a count rule must have a time of 1 or more; leave the rule out if there is no limit"},
	{"count is missing", "rule : [count] [act=ask] [time=1] [result=2; return=1]", 27, "a count rule must have a count of 1 or more; leave the rule out if there is no limit"},
	{"time is negative", "rule : [count] [act=ask] [time=-1; count=1] [result=2; return=1]", 32, `time must be a whole number of at most 2147483647, got "-1"`},
	{"base is 0", "rule : [base] [act=ask] [base=0; time=1; count=1] [result=2; return=1]", 26, "a base rule must have a base of 1 or more; leave the rule out if there is no limit"},
	{"base is missing", "rule : [base] [act=ask] [time=1; count=1] [result=2; return=1]", 26, "a base rule must have a base of 1 or more; leave the rule out if there is no limit"},
	{"base without a count", "rule : [base] [act=ask] [base=1; time=1] [result=2; return=1]", 26, "a base rule must have a count of 1 or more; leave the rule out if there is no limit"},
	{"base without a time", "rule : [base] [act=ask] [base=1; count=1] [result=2; return=1]", 26, "a base rule must have a time of 1 or more; leave the rule out if there is no limit"},
	{"result is 0", "rule : [count] [act=ask] [time=1; count=1] [result=0; return=1]", 45, "a rule must have a result of 1 or more, as in [result=2; return=201]"},
	{"return is 0", "rule : [count] [act=ask] [time=1; count=1] [result=2; return=0]", 45, "a rule must have a return of 1 or more, as in [result=2; return=201]"},
	{"return is missing", "rule : [count] [act=ask] [time=1; count=1] [result=2]", 45, "a rule must have a return of 1 or more, as in [result=2; return=201]"},
	{"no such result", "rule : [count] [act=ask] [time=1; count=1] [result=9; return=1]", 45, "result=9 must be one of those under [result]"},
	{"return is taken", "rule : [count] [act=ask] [time=1; count=1] [result=2; return=77]", 45, "return=77 is used by the rule in line 3; return numbers must be unique"},
	{"no such dict", "rule : [direct] [uid @ nobody] [] [result=2; return=1]", 24, `dict "nobody" must be declared under [dicts], such as nobody : nobody.dat`},

	// What it lets pass, or breaks on without a word.
	{"no rule", "rules : [count] [act=ask] [time=1; count=1] [result=2; return=1]", 1, "a rule must begin with rule :"},
	{"no colon", "rule [count] [act=ask] [time=1; count=1] [result=2; return=1]", 1, "a rule must begin with rule :"},
	{"method in capitals", "rule : [Count] [act=ask] [time=1; count=1] [result=2; return=1]", 9, `the method must be direct, count, base or leak, got "Count"`},
	{"a bracket is not closed", "rule : [count] [act=ask [time=1; count=1] [result=2; return=1]", 63, "a group in brackets is required, as in rule : [count] [act=ask; uid=+] [time=60; count=5] [result=2; return=201]"},
	{"the last bracket is not closed", "rule : [count] [act=ask] [time=1; count=1] [result=2; return=1", 45, "the closing bracket is missing"},
	{"a remark behind", "rule : [count] [act=ask] [time=1; count=1] [result=2; return=1] # once", 65, "a comment needs a line of its own; quote a word with a # after a space"},
	{"a remark behind, with signs", "rule : [count] [act=ask] [time=1; count=1] [result=2; return=1]\t#一次，\"", 65, "a comment needs a line of its own; quote a word with a # after a space"},
	{"a remark behind a group", "rule : [count] [act=ask] # [time=1; count=1] [result=2; return=1]", 26, "a comment needs a line of its own; quote a word with a # after a space"},
	{"no remark", `rule : [count] [act=a #b,"] #"] [time=1; count=1] [result=2; return=1]`, 0, ""},
	{"a threshold of another method", "rule : [count] [act=ask] [base=5; time=1; count=1] [result=2; return=1]", 27, "a count rule has no base"},
	{"erase without a log", "rule : [count] [act=ask] [time=1; count=1; erase1=1] [result=2; return=1]", 27, "a count rule has no erase1"},
	{"leak without a time", "rule : [leak] [act=ask] [count=1] [result=2; return=1]", 26, "a leak rule must have a time of 1 or more; leave the rule out if there is no limit"},
	{"leak of 0", "rule : [leak] [act=ask] [time=1; count=0] [result=2; return=1]", 26, "a leak rule must have a count of 1 or more; leave the rule out if there is no limit"},
	{"a threshold twice", "rule : [count] [act=ask] [time=1; count=1; time=2] [result=2; return=1]", 44, "time is given twice"},
	{"a threshold without a value", "rule : [count] [act=ask] [time; count=1] [result=2; return=1]", 27, `must be one of base, count, erase1, erase2, time, each with a number, got "time"`},
	{"an empty threshold", "rule : [count] [act=ask] [time=; count=1] [result=2; return=1]", 32, `time must be a whole number of at most 2147483647, got ""`},
	{"nothing between semicolons", "rule : [count] [act=ask] [time=1;; count=1] [result=2; return=1]", 34, `must be one of base, count, erase1, erase2, time, each with a number, got ""`},
	{"more than a year", "rule : [count] [act=ask] [time=31622401; count=1] [result=2; return=1]", 27, "time must be at most 31622400, the seconds of 366 days, got 31622401"},
	{"return has 33 bits", "rule : [count] [act=ask] [time=1; count=1] [result=2; return=4294967297]", 62, `return must be a whole number of at most 2147483647, got "4294967297"`},
	{"a result that lets in", "rule : [count] [act=ask] [time=1; count=1] [result=1; return=1]", 45, "result=1 admits requests above the limit and skips the rules below; only a direct rule may do that, a count rule needs a result with a Ret_type above 1"},
	{"a leak too long", "rule : [leak] [act=ask] [time=60; count=1000000] [result=2; return=1]", 26, "count of a leak rule must be at most 100000, got 1000000"},
	{"a leak as long as can be", "rule : [leak] [act=ask] [time=60; count=100000] [result=2; return=1]", 0, ""},
	{"a base too long", "rule : [base] [act=ask] [base=1; time=60; count=1000000] [result=2; return=1]", 26, "count of a base rule must be at most 100000, got 1000000"},
	{"a base too high", "rule : [base] [act=ask] [base=2000000000; time=60; count=1] [result=2; return=1]", 26, "base of a base rule must be at most 1000000000, got 2000000000"},
	{"a count too high", "rule : [count] [act=ask] [time=60; count=2147483647] [result=2; return=1]", 27, "count of a count rule must be at most 1000000000, got 2147483647"},
	{"nine parameters", "rule : [count] [a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1] [time=1; count=1] [result=2; return=1]", 17, "a rule must count by at most 8 parameters, got 9"},
	{"nine parameters of a list", "rule : [direct] [a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1] [] [result=2; return=1]", 0, ""}, // fine: nothing is counted

	// Conditions.
	{"no condition", "rule : [count] [] [time=1; count=1] [result=2; return=1]", 17, "a condition is required, such as act=ask or uid=+"},
	{"an empty condition", "rule : [count] [act=ask;;uid=+] [time=1; count=1] [result=2; return=1]", 25, "a condition is required, such as act=ask or uid=+"},
	{"no operator", "rule : [count] [act] [time=1; count=1] [result=2; return=1]", 20, "act needs a comparison, such as act=5, act!=5, act=+, act>5, act<5, act @ dict or act !@ dict"},
	{"an operator alone", "rule : [count] [act!ask] [time=1; count=1] [result=2; return=1]", 20, "act needs a comparison, such as act=5"},
	{"no value", "rule : [count] [act=] [time=1; count=1] [result=2; return=1]", 20, "act needs a value to compare with"},
	{"a value is required: an empty parameter never matches", "rule : [count] [act=a,,b] [time=1; count=1] [result=2; return=1]", 23, "a value is required: an empty parameter never matches"},
	{"the last value is missing", "rule : [count] [act=a,] [time=1; count=1] [result=2; return=1]", 23, "a value is required: an empty parameter never matches"},
	{"nothing is joint", "rule : [count] [act={~}] [time=1; count=1] [result=2; return=1]", 21, "a value is required: an empty parameter never matches"},
	{"empty quotes", `rule : [count] [act=""] [time=1; count=1] [result=2; return=1]`, 21, "a value is required: an empty parameter never matches"},
	{"quotes are not closed", `rule : [count] [act="ask; uid=+] [time=1; count=1] [result=2; return=1]`, 21, "the closing quote is missing"},
	{"quotes within a word", `rule : [count] [act=5"] [time=1; count=1] [result=2; return=1]`, 22, "the closing quote is missing"},
	{"something behind quotes", `rule : [count] [act="a"b] [time=1; count=1] [result=2; return=1]`, 21, `a value in quotes must be like "a;b" or "say \"hi\""`},
	{"no such escape", `rule : [count] [act="\q"] [time=1; count=1] [result=2; return=1]`, 21, "a value in quotes must be like"},
	{"half a character", `rule : [count] [act="a","\ud800"] [time=1; count=1] [result=2; return=1]`, 25, `the value has half a character, such as "\ud800"`},
	{"the other half", `rule : [count] [act="\uDC00x"] [time=1; count=1] [result=2; return=1]`, 21, "the value has half a character"},
	{"both halves", `rule : [count] [act="\ud83d\udc28"] [time=1; count=1] [result=2; return=1]`, 0, ""},
	{"a character that was lost", `rule : [count] [act="\uFFFD"] [time=1; count=1] [result=2; return=1]`, 21, "or the sign for one that was lost"},
	{"blanks within quotes", `rule : [count] [act=" a"] [time=1; count=1] [result=2; return=1]`, 21, `" a" can never match: spaces around the value of a parameter are ignored`},
	{"no name", "rule : [count] [=ask] [time=1; count=1] [result=2; return=1]", 17, "the name of a parameter must consist of A-Z a-z 0-9 _ . - and must not begin with a digit"},
	{"a name with a digit first", "rule : [count] [2nd=ask] [time=1; count=1] [result=2; return=1]", 17, "the name of a parameter must consist of"},
	{"a name of other letters", "rule : [count] [动作=ask] [time=1; count=1] [result=2; return=1]", 17, "the name of a parameter must consist of"},
	{"a name of the service", "rule : [count] [act=ask; _writeThrough=yes] [time=1; count=1] [result=2; return=1]", 26, "_writeThrough can never match: parameters that begin with _ are reserved for the service"},
	{"a name too long", "rule : [count] [" + strings.Repeat("a", 51) + "=ask] [time=1; count=1] [result=2; return=1]", 17, "the name of a parameter must have at most 50 characters"},
	{"two equals signs", "rule : [count] [act==ask] [time=1; count=1] [result=2; return=1]", 21, `"=ask" begins with a second comparison sign; quote the word if the sign is part of it`},
	{"more than or equal", "rule : [count] [qid>=5] [time=1; count=1] [result=2; return=1]", 21, `> needs a whole number, got "=5"`},
	{"compared with a word", "rule : [count] [qid<many] [time=1; count=1] [result=2; return=1]", 21, `< needs a whole number, got "many"`},
	{"compared with 65 bits", "rule : [count] [qid<9223372036854775808] [time=1; count=1] [result=2; return=1]", 21, `< needs a whole number, got "9223372036854775808"`},
	{"not any value", "rule : [count] [qid!=+] [time=1; count=1] [result=2; return=1]", 22, "qid!=+ can never match: a missing parameter matches nothing"},
	{"any value and another", "rule : [count] [qid=+,5] [time=1; count=1] [result=2; return=1]", 21, `"+" means any value and stands alone`},
	{"a range the wrong way", "rule : [count] [qid=9-1] [time=1; count=1] [result=2; return=1]", 21, "a range must go from the lower whole number to the higher one; quote it if it is a word"},
	{"a range of 65 bits", "rule : [count] [qid=1-9999999999999999999] [time=1; count=1] [result=2; return=1]", 21, "a range must go from the lower whole number to the higher one; quote it if it is a word"},
	{"a range without an end", "rule : [count] [qid=5-] [time=1; count=1] [result=2; return=1]", 21, `"5-" must be a range or a network; quote it if it is a word`},
	{"a range of three", "rule : [count] [qid=1-5-9] [time=1; count=1] [result=2; return=1]", 21, `"1-5-9" must be a range or a network; quote it if it is a word`},
	{"a range of fractions", "rule : [count] [qid=1.5-2.5] [time=1; count=1] [result=2; return=1]", 21, `"1.5-2.5" must be a range or a network; quote it if it is a word`},
	{"a range of addresses the wrong way", "rule : [count] [uip=10.0.0.9-10.0.0.1] [time=1; count=1] [result=2; return=1]", 21, "a range must go from a lower address to a higher one of the same family; quote it if it is a word"},
	{"a range of two families", "rule : [count] [uip=10.0.0.9-::1] [time=1; count=1] [result=2; return=1]", 21, "a range must go from a lower address to a higher one of the same family; quote it if it is a word"},
	{"a range to a last number", "rule : [count] [uip=10.0.0.1-255] [time=1; count=1] [result=2; return=1]", 21, "a range must go from a lower address to a higher one of the same family; quote it if it is a word"},
	{"a wildcard within", "rule : [count] [uip=10.*.0.1] [time=1; count=1] [result=2; return=1]", 21, `"10.*.0.1" must be an address such as 10.0.24.7, or one with wildcards at its end, such as 10.0.24.* or 10.0.*.*`},
	{"a wildcard too short", "rule : [count] [uip=10.0.*] [time=1; count=1] [result=2; return=1]", 21, `"10.0.*" must be a range or a network; quote it if it is a word`},
	{"a wildcard alone", "rule : [count] [uip=*] [time=1; count=1] [result=2; return=1]", 21, `"*" must be a range or a network; quote it if it is a word`},
	{"a range of wildcards", "rule : [count] [uip=10.0.0.*-10.0.9.*] [time=1; count=1] [result=2; return=1]", 21, `"10.0.0.*-10.0.9.*" must be a range or a network; quote it if it is a word`},
	{"a number above 255", "rule : [count] [uip=10.0.0.256] [time=1; count=1] [result=2; return=1]", 21, `"10.0.0.256" must be an address such as 10.0.24.7, or one with wildcards at its end, such as 10.0.24.* or 10.0.*.*`},
	{"a network too long", "rule : [count] [uip=10.0.0.0/33] [time=1; count=1] [result=2; return=1]", 21, `"10.0.0.0/33" must be a network, such as 10.0.0.0/8 or fd00::/8`},
	{"a network too short", "rule : [count] [uip=10.0/8] [time=1; count=1] [result=2; return=1]", 21, `"10.0/8" must be a range or a network; quote it if it is a word`},
	{"a network of IPv6", "rule : [count] [uip=fd00::/129] [time=1; count=1] [result=2; return=1]", 21, `"fd00::/129" must be a network, such as 10.0.0.0/8 or fd00::/8`},
	{"no address of IPv6", "rule : [count] [uip=fd00:::1/8] [time=1; count=1] [result=2; return=1]", 21, `"fd00:::1/8" must be a range or a network; quote it if it is a word`},
	{"an ip that is a word", "rule : [count] [ip=office] [time=1; count=1] [result=2; return=1]", 20, `ip must be compared with an address, got "office"`},
	{"an ip in quotes", "rule : [count] [ip=\"10\"] [time=1; count=1] [result=2; return=1]", 20, `ip must be compared with an address, got the quoted word "10"`},
	{"a missing semicolon", "rule : [count] [act=ask uid=+] [time=1; count=1] [result=2; return=1]", 21, `"ask uid=+" looks like two conditions without a ; between them; quote it if it is one word`},
	{"joint in the midst", "rule : [count] [act=a{~},b; uid=+] [time=1; count=1] [result=2; return=1]", 21, "{~} must follow the last value"},
	{"joint by a star", "rule : [count] [act=a,b{*}; uid=+] [time=1; count=1] [result=2; return=1]", 23, "{~} must follow the last value"},
	{"at least, the other way round", "rule : [count] [uid=>5] [time=1; count=1] [result=2; return=1]", 21, `">5" begins with a second comparison sign; quote the word if the sign is part of it`},
	{"not, behind the sign", "rule : [count] [uid= !5] [time=1; count=1] [result=2; return=1]", 22, `"!5" begins with a second comparison sign; quote the word if the sign is part of it`},
	{"an ip that is a number", "rule : [count] [ip=1-5] [time=1; count=1] [result=2; return=1]", 1, "ip should be"},
	{"a user that is an address", "rule : [count] [user=10.0.0.*] [time=1; count=1] [result=2; return=1]", 22, `user is compared with text, not with addresses; quote "10.0.0.*" if it is a word`},
	{"a device that is a range of addresses", "rule : [count] [device=10.0.0.1-10.0.0.2] [time=1; count=1] [result=2; return=1]", 24, `device is compared with text, not with addresses; quote "10.0.0.1-10.0.0.2" if it is a word`},
	{"a value too long", "rule : [count] [act=" + strings.Repeat("a", 256) + "] [time=1; count=1] [result=2; return=1]", 1, "act is too long, a value has at most 255 bytes"},
	{"a carriage return within", "rule : [count] [act=ask]\r[time=1; count=1] [result=2; return=1]", 25, "the line has an invisible character that some programs read as its end; lines must end with a line feed"},
	{"NUL", "rule : [count] [act=\x00] [time=1; count=1] [result=2; return=1]", 1, "the line must be UTF-8"},
	{"GBK", "# \xb9\xe6\xd4\xf2", 1, "the line must be UTF-8"},
	{"a line for YAML", "# x\u2028version: 2", 4, "the line has an invisible character that some programs read as its end; lines must end with a line feed"},
	{"another line for YAML", "# x\u0085version: 2", 4, "the line has an invisible character that some programs read as its end; lines must end with a line feed"},
	{"a colour", "# \x1b[31mred", 3, "the line has an invisible character that some programs read as its end; lines must end with a line feed"},
}

// TestWrongRuleLines: each is refused with its place, what is wrong, and the line's text.
func TestWrongRuleLines(t *testing.T) {
	for _, test := range wrongRules {
		t.Run(test.name, func(t *testing.T) {
			path := writeFiles(t, map[string]string{
				"koala.conf": "[dicts]\n[rules]\nrule : [direct] [act=first] [] [result=2; return=77]\n" + test.rule + "\n" + shippedResults,
			})
			_, _, err := openFile(path)
			if test.column == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantWrong(t, err, path, 4, test.column, test.problem, strings.Trim(test.rule, " \t"))
		})
	}
}

// wantWrong checks the whole form of an error: koala: file:line:column: problem; the line is "text".
func wantWrong(t *testing.T, err error, path string, line, column int, problem, text string) {
	t.Helper()
	var e *rules.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v", err)
	}
	if r := []rune(text); len(text) > 200 {
		text = string(r[:200]) + "…"
	}
	head, tail := fmt.Sprintf("koala: %s:%d:%d: ", path, line, column), fmt.Sprintf("; the line is %q", text)
	if got := err.Error(); !strings.HasPrefix(got, head) || !strings.Contains(got, problem) || !strings.HasSuffix(got, tail) {
		t.Errorf("the error is\n%s\nand should be\n%s%s …%s", got, head, problem, tail)
	}
	if e.File != path || e.Line != line || e.Column != column {
		t.Errorf("its fields say %s:%d:%d", e.File, e.Line, e.Column)
	}
}

const oneRule = "rule : [direct] [act=ask] [] [result=2; return=1]\n"

// TestWrongFiles: what is wrong with more than one rule, each with its place and the line's text.
func TestWrongFiles(t *testing.T) {
	for name, test := range map[string]struct {
		file         string
		line, column int
		problem      string
	}{
		"no section [dicts]":      {"[rules]\n" + oneRule + shippedResults, 1, 1, "the sections must be [dicts], [rules] and [result], each once and in this order"},
		"no section [result]":     {"[dicts]\n[rules]\n" + oneRule, 4, 1, "section [result] is missing; [dicts] and [result] may be empty"},
		"no section [rules]":      {"[dicts]\n[result]\n", 2, 1, "the sections must be [dicts], [rules] and [result], each once and in this order"},
		"sections in disorder":    {"[rules]\n[dicts]\n[result]\n", 1, 1, "the sections must be [dicts], [rules] and [result], each once and in this order"},
		"a section twice":         {"[dicts]\n[rules]\n" + oneRule + "[rules]\n" + oneRule + shippedResults, 4, 1, "the sections must be [dicts], [rules] and [result], each once and in this order"},
		"a section again":         {"[dicts]\n[rules]\n" + oneRule + shippedResults + "[dicts]\n", 11, 1, "the sections must be [dicts], [rules] and [result], each once and in this order"},
		"a section of its own":    {"[dicts]\n[rules]\n" + oneRule + "[more]\n" + shippedResults, 4, 1, "the sections must be [dicts], [rules] and [result], each once and in this order"},
		"lines before sections":   {"rule_file = x\n[dicts]\n[rules]\n" + oneRule + shippedResults, 1, 1, "a rule file must begin with the section [dicts]"},
		"no rules":                {"[dicts]\n[rules]\n# none\n[result]", 4, 1, "[rules] must have at least one rule"},
		"a rule among dicts":      {"[dicts]\n" + oneRule + "[rules]\n" + shippedResults, 2, 8, "the file of dict rule cannot be read: there is neither "},
		"a dict among rules":      {"[dicts]\n[rules]\nbad : bad.dat\n" + shippedResults, 3, 1, "a rule must begin with rule :"},
		"a rule among results":    {"[dicts]\n[rules]\n" + oneRule + "[result]\n" + oneRule, 5, 1, "a result should be a number and its fields, such as 2 : {"},
		"a dict without a file":   {"[dicts]\nbad :\n[rules]\n" + oneRule + shippedResults, 2, 1, "a dict must be like blacklist : blacklist.dat"},
		"a dict without a name":   {"[dicts]\n: bad.dat\n[rules]\n" + oneRule + shippedResults, 2, 1, "a dict must be like blacklist : blacklist.dat"},
		"a dict is missing":       {"[dicts]\n bad : none.dat\n[rules]\n" + oneRule + shippedResults, 2, 8, "the file of dict bad cannot be read: there is neither "},
		"a dict is a folder":      {"[dicts]\nbad : .\n[rules]\n" + oneRule + shippedResults, 2, 1, "list \"bad\" cannot be read: "},
		"a dict twice":            {"[dicts]\nbad : koala.conf\nbad : koala.conf\n[rules]\n" + oneRule + shippedResults, 3, 1, `dict "bad" is declared twice`},
		"a dict's name":           {"[dicts]\nbad one : koala.conf\n[rules]\n" + oneRule + shippedResults, 2, 1, "the name of a dict must be 1 to 64 of A-Z a-z 0-9 _ . -"},
		"a result twice":          {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : {\"Ret_type\":2}\n02 : {\"Ret_type\":1}\n", 6, 1, "result 2 is defined twice, first in line 5"},
		"a result without a one":  {"[dicts]\n[rules]\n" + oneRule + "[result]\n{\"Ret_type\":2}\n", 5, 1, "a result should be a number and its fields"},
		"a negative result":       {"[dicts]\n[rules]\n" + oneRule + "[result]\n-2 : {\"Ret_type\":2}\n", 5, 1, "a result should be a number and its fields"},
		"no JSON":                 {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : {\"Ret_type\":2,}\n", 5, 5, "the fields of a result must be JSON with Ret_type, "},
		"JSON of a list":          {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : [2]\n", 5, 5, "the fields of a result should be JSON, such as {"},
		"JSON null":               {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : null\n", 5, 5, "the fields of a result should be JSON, such as {"},
		"JSON of nothing":         {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 :\n", 5, 4, "the fields of a result should be JSON, such as {"},
		"a field is null":         {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : {\"Ret_type\":2,\"Other\":null}\n", 5, 5, "Other must have a value, got null"},
		"a field twice":           {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : {\"Ret_type\":2,\"ret_type\":1}\n", 5, 5, "ret_type is given twice"},
		"no type":                 {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : {\"Err_no\":10}\n", 5, 5, "Ret_type is required: 0 and 1 admit, higher ones deny"},
		"an unknown field":        {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : {\"Ret_type\":2,\"Reason\":\"\"}\n", 5, 5, `: unknown field "Reason"`},
		"a field of a text":       {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : {\"Ret_type\":\"2\"}\n", 5, 5, "cannot unmarshal string"},
		"something behind JSON":   {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : {\"Ret_type\":2} no\n", 5, 5, `nothing may follow the fields of the result, got "no"`},
		"a remark behind JSON":    {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : {\"Ret_type\":2} # no\n", 5, 20, "a comment needs a line of its own; quote a word with a # after a space"},
		"a remark behind [dicts]": {"[dicts] # x\n[rules] # y\n" + oneRule + "[result] # z\n", 1, 9, "a comment needs a line of its own; quote a word with a # after a space"},
		"a remark behind [rules]": {"[dicts]\n[rules] # see: x\n" + oneRule + shippedResults, 2, 9, "a comment needs a line of its own; quote a word with a # after a space"},
		"a remark behind a dict":  {"[dicts]\nbad : koala.conf # x\n[rules]\n" + oneRule + shippedResults, 2, 7, "a comment needs a line of its own: what follows this # is part of the name"},
		"JSON is not closed":      {"[dicts]\n[rules]\n" + oneRule + "[result]\n2 : {\"Ret_type\":2\n", 5, 5, "the fields of a result must be JSON with"},
		"an old end of lines":     {"[dicts]\r[rules]\r" + strings.TrimRight(oneRule, "\n") + "\r[result]\n[rules]\n", 1, 8, "the line has an invisible character that some programs read as its end; lines must end with a line feed"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFiles(t, map[string]string{"koala.conf": test.file})
			_, _, err := openFile(path)
			wantWrong(t, err, path, test.line, test.column, test.problem, strings.TrimSpace(append(strings.Split(test.file, "\n"), "")[test.line-1]))
		})
	}
}

// TestWrongBytes: files of which no line can be shown.
func TestWrongBytes(t *testing.T) {
	for name, test := range map[string]struct{ file, dict, problem string }{
		"empty":              {"", "", "has neither a section [rules] nor a line such as rule_file = conf/koala_rule.conf"},
		"other words":        {"hello\n", "", ":1:1: a line must be like key = value, or include FILE"},
		"UTF-16":             {"\xff\xfe[\x00d\x00", "", ":1:1: the line must be UTF-8"},
		"too long":           {"[dicts]\n[rules]\n" + strings.Repeat("#", 1<<20) + "\n" + oneRule + shippedResults, "", "has more than 1048576 bytes"},
		"too long for rules": {"[dicts]\n[rules]\n" + manyRules(9000) + shippedResults, "", "koala.conf: of the rules file that is made of it: the file has "},
		"too many rules":     {"[dicts]\n[rules]\n" + manyRules(1001) + shippedResults, "", "koala.conf:1003:1: there are more than 1000 rules"},
		"a value too long":   {"[dicts]\nbad : bad.dat\n[rules]\n" + oneRule + shippedResults, "7\n" + strings.Repeat("x", 256) + "\n", "bad.dat:2:1: \"xxx"},
		"a dict in GBK":      {"[dicts]\nbad : bad.dat\n[rules]\n" + oneRule + shippedResults, "7\n\xb9\xe6\xd4\xf2\n", "bad.dat:2:1: "},
		"no network":         {"[dicts]\nbad : bad.dat\n[rules]\n" + oneRule + shippedResults, "10.0.0.0/33\n", `bad.dat:1:1: "10.0.0.0/33" is no network`},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFiles(t, map[string]string{"koala.conf": test.file, "bad.dat": test.dict})
			if _, _, err := openFile(path); err == nil || !strings.Contains(err.Error(), filepath.Dir(path)) || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none.conf"), dir} {
		if _, _, err := openFile(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// manyRules are so many rules in the shapes of the sample file.
func manyRules(n int) string {
	var b strings.Builder
	for i := range n {
		switch code := i + 1; i % 5 {
		case 0:
			fmt.Fprintf(&b, "rule : [count] [act=act%d; uid=+] [time=86400; count=5] [result=2; return=%d]\n", i, code)
		case 1:
			fmt.Fprintf(&b, "rule : [count] [act=act%d; uip=10.0.24.*,192.168.0.1-192.168.0.9; qid=1-5,9-12] [time=90; count=4] [result=3; return=%d]\n", i, code)
		case 2:
			fmt.Fprintf(&b, "rule : [base] [act=act%d,other%d{~}; uid=+] [base=30; time=2; count=1] [result=2; return=%d]\n", i, i, code)
		case 3:
			fmt.Fprintf(&b, "rule : [leak] [act=act%d; uid>1000] [time=5; count=3] [result=2; return=%d]\n", i, code)
		case 4:
			fmt.Fprintf(&b, "rule : [direct] [act=act%d; uip=192.168.0.0/16] [] [result=2; return=%d]\n", i, code)
		}
	}
	return b.String()
}

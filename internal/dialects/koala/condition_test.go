package koala_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/internal/dialects/koala"
)

// grammar has a row for each form that a condition can have: texts of parameters that it fits, and of such that it does not. All of them are
// in testdata/grammar.conf too.
var grammar = []struct {
	condition string
	fits, not []string
	elsewhere bool // not in testdata/grammar.conf
}{
	{condition: "act=ask", fits: []string{"ask", " ask\t"}, not: []string{"ASK", "asks", "as k", "ask,"}},
	{condition: "act!=ask", fits: []string{"answer", "Ask", "0"}, not: []string{"ask", " ask "}},
	{condition: "act=a,b", fits: []string{"a", "b"}, not: []string{"a,b", "c", "ab", ","}},
	{condition: "act=a,b{~}", fits: []string{"a", "b"}, not: []string{"b{~}", "a,b", "~"}},
	{condition: "act=add-review", fits: []string{"add-review"}, not: []string{"add", "review", "add-", "add_review"}},
	{condition: "act=ann@example.com,c++,a*b,a<b>c", fits: []string{"ann@example.com", "c++", "a*b", "a<b>c"}, not: []string{"ann", "c", "c+", "ab", "axb", "a"}},
	{condition: `act="a;b","x,y","] [","{~}","+","20-01"`, fits: []string{"a;b", "x,y", "] [", "{~}", "+", "20-01"}, not: []string{"a", "b", "x", "]", `"a;b"`, "anything", "20"}},
	{condition: "qid=10,23,45", fits: []string{"10", "23", "45"}, not: []string{"1", "11", "010", "10,23"}},
	{condition: "qid=+", fits: []string{"0", "+", "some thing", "é", "|"}, elsewhere: true},
	{condition: "qid=+{~}", fits: []string{"0", "{~}"}, elsewhere: true},
	{condition: "qid=1-2147483647", fits: []string{"1", "2147483647", "77"}, not: []string{"0", "-1", "2147483648", "x", "1-2147483647"}},
	{condition: "qid=1-5,9-12", fits: []string{"1", "5", "9", "12"}, not: []string{"0", "6", "8", "13", "-5", "5x"}},
	{condition: "qid= 1 - 5 , 9-12 ,77", fits: []string{"1", "5", "9", "77"}, not: []string{"6", "76"}, elsewhere: true},
	{condition: "qid=-5--1", fits: []string{"-5", "-1"}, not: []string{"-6", "0", "5"}, elsewhere: true},
	{condition: "qid=-5", fits: []string{"-5"}, not: []string{"5", "--5"}, elsewhere: true},
	{condition: "qid>1000", fits: []string{"1001", "999999999999999999"}, not: []string{"1000", "0", "-1001", "x", "1001x"}},
	{condition: "qid<1000", fits: []string{"999", "0", "-5"}, not: []string{"1000", "x"}},
	{condition: "qid > +007", fits: []string{"8"}, not: []string{"7", "6"}, elsewhere: true},
	{condition: "qid!>1000", fits: []string{"1000", "007"}, not: []string{"1001", "x", "1.5"}, elsewhere: true},
	{condition: "qid!<1000", fits: []string{"1000"}, not: []string{"999", "x", "1000.5"}, elsewhere: true},
	{condition: "qid!=1-5", fits: []string{"0", "6"}, not: []string{"1", "5", "x", "5.5"}},
	{condition: "qid!=1,2", fits: []string{"3", "x", "1,2"}, not: []string{"1", "2"}, elsewhere: true},
	{condition: "qid>10; qid<20; qid!=15", fits: []string{"11", "14", "19"}, not: []string{"10", "20", "15", "x"}},
	{condition: "uip=192.168.0.1-192.168.0.255", fits: []string{"192.168.0.1", "192.168.0.255", "::ffff:192.168.0.7"}, not: []string{"192.168.0.0", "192.168.1.0", "::1", "x"}},
	{condition: "uip=10.0.24.*", fits: []string{"10.0.24.0", "10.0.24.255"}, not: []string{"10.0.25.0", "10.0.23.255", "10.0.24.*", "10.0.24"}},
	{condition: "uip=192.168.*.*", fits: []string{"192.168.0.0", "192.168.255.255"}, not: []string{"192.169.0.0", "192.168.*.*"}},
	{condition: "uip=*.*.*.*", fits: []string{"0.0.0.0", "255.255.255.255"}, not: []string{"::1", "x"}, elsewhere: true},
	{condition: "uip=10.0.24.*,192.168.*.*", fits: []string{"10.0.24.7", "192.168.7.7"}, not: []string{"10.0.25.7", "11.0.24.7"}},
	{condition: "uip!=10.0.24.*", fits: []string{"10.0.25.7", "x", "::1"}, not: []string{"10.0.24.7"}, elsewhere: true},
	{condition: "uip=192.168.0.1/24", fits: []string{"192.168.0.0", "192.168.0.255"}, not: []string{"192.168.1.0", "192.168.0.1/24"}},
	{condition: "uip=2001:db8::/32", fits: []string{"2001:db8::", "2001:DB8:ffff::1"}, not: []string{"2001:db9::", "10.0.0.1"}},
	{condition: "uip=2001:db8::1", fits: []string{"2001:db8::1", "2001:db8:0:0::1"}, not: []string{"2001:db8::2"}},
	{condition: "uip=2001:db8::1-2001:db8::ff", fits: []string{"2001:db8::1", "2001:db8::ff", "2001:db8::80"}, not: []string{"2001:db8::", "2001:db8::100", "10.0.0.1"}},
	{condition: "uip=10.0.24.*,172.16.0.1-172.16.0.9,fd00::/8,office", fits: []string{"10.0.24.7", "172.16.0.9", "fd12::1", "office"}, not: []string{"172.16.0.10", "fc00::1", "Office"}},
	{condition: "ip=+", fits: []string{"192.0.2.1", "2001:db8::1"}},
	{condition: "ip=192.168.0.1/24,2001:db8::/32", fits: []string{"192.168.0.7", "2001:db8::7"}, not: []string{"192.168.1.7", "2001:db9::"}, elsewhere: true},
	{condition: "ip=10.0.0.1-10.0.0.9", fits: []string{"10.0.0.9"}, not: []string{"10.0.0.10", "::1"}, elsewhere: true},
	{condition: "uid @ trusted_uid", fits: []string{"7", "8", " 7"}, not: []string{"77", "x"}},
	{condition: "uid!@trusted_uid", fits: []string{"77", "x"}, not: []string{"7", "8"}, elsewhere: true},
	{condition: "uid !@ trusted_uid", fits: []string{"77"}, not: []string{"7"}},
	{condition: "uip @ trusted_uip", fits: []string{"203.0.113.7", "2001:db8:7::9", "2001:db8:7:ffff::"}, not: []string{"203.0.113.8", "2001:db8:8::"}},
	// Names that requests have for something else, and names that differ only in the case of their letters, are names as others.
	{condition: "route=/a-b", fits: []string{"/a-b"}, not: []string{"/a"}, elsewhere: true},
	{condition: "method=get", fits: []string{"get"}, not: []string{"GET"}, elsewhere: true},
	{condition: "tier=10-20", fits: []string{"10"}, not: []string{"21"}, elsewhere: true},
	{condition: "network=10.0.0.0/8", fits: []string{"10.1.2.3"}, not: []string{"11.1.2.3"}, elsewhere: true},
	{condition: "caller=+", fits: []string{"x"}, elsewhere: true},
	{condition: "user=7,8", fits: []string{"7"}, not: []string{"9"}, elsewhere: true},
	{condition: "user>7", fits: []string{"8"}, not: []string{"7"}, elsewhere: true},
	{condition: "device=a-b", fits: []string{"a-b"}, not: []string{"a"}, elsewhere: true},
	{condition: `device="10.0.0.1"`, fits: []string{"10.0.0.1"}, not: []string{"10.0.0.2"}, elsewhere: true},
	{condition: "session @ trusted_uid", fits: []string{"7"}, not: []string{"9"}, elsewhere: true},
	{condition: "koala_ip=10.0.0.*", fits: []string{"10.0.0.7"}, not: []string{"10.0.1.7"}, elsewhere: true},
	{condition: "IP=10.0.0.*", fits: []string{"10.0.0.7"}, not: []string{"no address"}, elsewhere: true},
	{condition: "User=7", fits: []string{"7"}, not: []string{"8"}, elsewhere: true},
	{condition: "ACT=ask", fits: []string{"ask"}, not: []string{"ASK"}, elsewhere: true},
	{condition: "true=no,null,1e5,0x1f,~,.5,0o7,on", fits: []string{"no", "null", "1e5", "0x1f", "~", ".5", "0o7", "on"}, not: []string{"false", "No", "100000", "31", "0.5", "7"}, elsewhere: true},
	{condition: "y=unlimited,007,1.50", fits: []string{"unlimited", "007", "1.50"}, not: []string{"7", "1.5"}, elsewhere: true},
	{condition: "x=a: b,- c,{d,[e,&f,%g,'h", fits: []string{"a: b", "- c", "{d", "[e", "&f", "%g", "'h"}, not: []string{"a", "c"}, elsewhere: true},
}

// TestGrammar has a subtest for each form of a condition, such as TestGrammar/act=ask. That the condition is not asked of parameters with
// other names, and holds for no parameter that is empty or absent, belongs to each.
func TestGrammar(t *testing.T) {
	dicts := map[string]string{"trusted_uid": "7\n8\n", "trusted_uip": "203.0.113.7\n2001:db8:7::/48\n"}
	sample, err := os.ReadFile("testdata/grammar.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range grammar {
		t.Run(strings.ReplaceAll(row.condition, "/", "∕"), func(t *testing.T) {
			if !row.elsewhere && !strings.Contains(string(sample), row.condition) {
				t.Errorf("it is not in the sample file")
			}
			s := serveRules(t, "rule : [direct] ["+row.condition+"] [] [result=2; return=9]", dicts)
			name := row.condition[:strings.IndexAny(row.condition, "=!<>@ ")]
			for _, text := range row.fits {
				if got := browse(t, s, koala.Params{name: text, "other": "1"}, false); got != 9 {
					t.Errorf("%s is %q: does not fit", name, text)
				}
			}
			for _, text := range append(row.not, "", " \t ") {
				if name == "ip" && text == "x" {
					continue
				}
				if got := browse(t, s, koala.Params{name: text}, false); got != 0 {
					t.Errorf("%s is %q: fits", name, text)
				}
			}
			absent := koala.Params{name + "x": row.fits[0], strings.ToUpper(name) + "_": row.fits[0], "koala_" + name: row.fits[0], "_" + name: row.fits[0]}
			if got := browse(t, s, absent, false); got != 0 {
				t.Errorf("parameters of other names: fits")
			}
		})
	}
}

// TestTwoConditionsOfOneParameter: both have to hold, where Koala keeps the last.
func TestTwoConditionsOfOneParameter(t *testing.T) {
	s := serveRules(t, "rule : [direct] [uid=1-100; uid !@ friends; uid!=50] [] [result=2; return=9]", map[string]string{"friends": "7\n"})
	for uid, want := range map[string]int{"1": 9, "100": 9, "7": 0, "50": 0, "101": 0} {
		if got := browse(t, s, koala.Params{"uid": uid}, false); got != want {
			t.Errorf("uid %s: %d, want %d", uid, got, want)
		}
	}
}

// TestCounters: values of one condition are counted one by one, unless {~} joins them; those of all parameters make the counter, whatever
// order they stand in and whatever is in them.
func TestCounters(t *testing.T) {
	type step struct {
		params koala.Params
		want   int
		at     time.Duration // since the first one
	}
	ann, bob := koala.Params{"uid": "1"}, koala.Params{"uid": "2"}
	for name, test := range map[string]struct {
		rule  string
		steps []step
	}{
		"act=a,b": {"rule : [count] [act=a,b; uid=+] [time=60; count=1] [result=2; return=9]", []step{
			{koala.Params{"act": "a", "uid": "1"}, -1, 0}, {koala.Params{"act": "b", "uid": "1"}, -1, 0}, {koala.Params{"act": "a", "uid": "1"}, 9, 0}, {koala.Params{"act": "b", "uid": "2"}, -1, 0},
		}},
		"act=a,b{~}": {"rule : [count] [act=a,b{~}; uid=+] [time=60; count=1] [result=2; return=9]", []step{
			{koala.Params{"act": "a", "uid": "1"}, -1, 0}, {koala.Params{"act": "b", "uid": "1"}, 9, 0}, {koala.Params{"act": "b", "uid": "2"}, -1, 0}, {koala.Params{"act": "a", "uid": "2"}, 9, 0},
		}},
		"act!=a{~}": {"rule : [count] [act!=a{~}; uid=+] [time=60; count=1] [result=2; return=9]", []step{
			{koala.Params{"act": "x", "uid": "1"}, -1, 0}, {koala.Params{"act": "y", "uid": "1"}, 9, 0}, {koala.Params{"act": "a", "uid": "1"}, 0, 0},
		}},
		"all joint": {"rule : [count] [act=+{~}] [time=60; count=1] [result=2; return=9]", []step{
			{koala.Params{"act": "x"}, -1, 0}, {koala.Params{"act": "y"}, 9, 0},
		}},
		"order of names": {"rule : [count] [b=+; a=+] [time=60; count=1] [result=2; return=9]", []step{
			{koala.Params{"a": "x|y", "b": "z"}, -1, 0}, {koala.Params{"a": "x", "b": "y|z"}, -1, 0}, {koala.Params{"b": "z", "a": " x|y "}, 9, 0},
		}},
		"a range": {"rule : [count] [qid=1-9] [time=60; count=1] [result=2; return=9]", []step{
			{koala.Params{"qid": "1"}, -1, 0}, {koala.Params{"qid": "2"}, -1, 0}, {koala.Params{"qid": "1"}, 9, 0},
		}},
		"names in other letters": {"rule : [count] [Act=+; act=+] [time=60; count=1] [result=2; return=9]", []step{
			{koala.Params{"Act": "x", "act": "y"}, -1, 0}, {koala.Params{"Act": "y", "act": "x"}, -1, 0}, {koala.Params{"act": "y"}, 0, 0}, {koala.Params{"act": "y", "Act": "x"}, 9, 0},
		}},
		"names of others": {"rule : [count] [ip=+; IP=+; koala_IP=+] [time=60; count=1] [result=2; return=9]", []step{
			{koala.Params{"ip": "192.0.2.1", "IP": "a", "koala_IP": "b"}, -1, 0},
			{koala.Params{"ip": "192.0.2.1", "IP": "b", "koala_IP": "a"}, -1, 0},
			{koala.Params{"ip": "192.0.2.2", "IP": "a", "koala_IP": "b"}, -1, 0},
			{koala.Params{"ip": "192.0.2.1", "IP": "a", "koala_IP": "b"}, 9, 0},
		}},
		"method base": {"rule : [base] [uid=+] [base=2; time=60; count=2] [result=2; return=9]", []step{
			{ann, -1, 0}, {ann, -1, 0}, {ann, -1, 0}, {ann, -1, 50 * time.Second}, {ann, 9, 59 * time.Second}, {ann, -1, time.Minute}, {ann, 9, time.Minute}, {bob, -1, time.Minute},
		}},
		"method leak": {"rule : [leak] [uid=+] [time=60; count=2] [result=2; return=9]", []step{
			{ann, -1, 0}, {ann, -1, 50 * time.Second}, {ann, 9, 59 * time.Second}, {ann, -1, time.Minute}, {ann, 9, time.Minute}, {bob, -1, time.Minute},
		}},
		"method count": {"rule : [count] [uid=+] [time=60; count=2] [result=2; return=9]", []step{
			{ann, -1, 0}, {ann, -1, 50 * time.Second}, {ann, 9, 59 * time.Second}, {ann, -1, time.Minute}, {ann, -1, time.Minute}, {ann, 9, time.Minute}, {bob, -1, time.Minute},
		}},
		"method direct": {"rule : [direct] [uid=1] [time=1; count=0] [result=2; return=9]", []step{
			{ann, 9, 0}, {ann, 9, 0}, {bob, 0, 0},
		}},
		"the first exceeded rule": {"rule : [count] [uid=+] [time=60; count=2] [result=2; return=8]\nrule : [count] [uid=+] [time=60; count=1] [result=2; return=9]", []step{
			{koala.Params{"uid": "1"}, -1, 0}, {koala.Params{"uid": "1"}, 9, 0}, {koala.Params{"uid": "1"}, 9, 0},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serveRules(t, test.rule, nil)
				time.Sleep(37 * time.Second) // windows begin with the first one, not with the minute
				first := time.Now()
				for i, step := range test.steps {
					time.Sleep(step.at - time.Since(first))
					if got := browse(t, s, step.params, true); got != step.want {
						t.Fatalf("request %d, %v, at %v: %d, want %d", i, step.params, step.at, got, step.want)
					}
				}
			})
		})
	}
}

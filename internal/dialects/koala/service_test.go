package koala_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/dialects/koala"
)

// complete is the return numbers of browse_complete; of the one result that stands for none, the type with a minus.
func (s ours) complete(params koala.Params, write bool) (codes []int) {
	s.t.Helper()
	all, err := s.BrowseComplete(s.t.Context(), params, write)
	if err != nil {
		s.t.Errorf("BrowseComplete(%v): %v", params, err)
	}
	for _, result := range all {
		if result.RetCode == 0 {
			codes = append(codes, -result.RetType)
		} else {
			codes = append(codes, result.RetCode)
		}
	}
	return codes
}

func (s ours) wantComplete(params koala.Params, write bool, want ...int) {
	s.t.Helper()
	if got := s.complete(params, write); !reflect.DeepEqual(got, want) {
		s.t.Errorf("complete %v, write %v: %v, want %v", params, write, got, want)
	}
}

// What browse says first, browse_complete says of all rules, in their order, also of those behind a list; and it counts as browse does.
func TestBrowseComplete(t *testing.T) {
	const rules = `rule : [count] [uid=+] [time=600; count=1] [result=2; return=201]
rule : [direct] [white=+] [time=1; count=0] [result=1; return=101]
rule : [leak] [uid=+] [time=600; count=2] [result=3; return=202]
rule : [direct] [black=+] [time=1; count=0] [result=2; return=102]
rule : [base] [uid=+] [base=2; time=600; count=1] [result=2; return=203]`
	s := newOurs(t, inMemory(), rules)
	white, black, both := koala.Params{"uid": "7", "white": "1"}, koala.Params{"uid": "7", "black": "1"}, koala.Params{"uid": "7", "white": "1", "black": "1"}
	s.wantComplete(koala.Params{"nothing": "1"}, true, 0)
	s.wantComplete(koala.Params{}, true, 0)
	s.wantComplete(uid, false, -1)
	s.wantComplete(white, false, 101)
	s.wantComplete(both, false, 101, 102)
	s.wantComplete(black, true, 102) // refused: it counts nothing
	if n := s.value(uid, 201) + s.value(uid, 202) + s.value(uid, 203); n != 0 {
		t.Errorf("%d are counted of who is refused", n)
	}
	s.wantComplete(uid, true, -1)
	s.wantComplete(uid, true, 201)
	s.wantComplete(white, false, 201, 101)
	if a, b, c := s.value(uid, 201), s.value(uid, 202), s.value(uid, 203); a != 1 || b != 1 || c != 1 {
		t.Errorf("counted %d, %d and %d, want 1 each", a, b, c)
	}
	for range 3 {
		s.update(t.Context(), white) // a list keeps update from nothing
	}
	s.wantComplete(uid, false, 201, 202, 203)
	s.wantComplete(both, true, 201, 101, 202, 102, 203)
	if code := s.browse(t.Context(), both); code != 201 {
		t.Errorf("browse: %d", code)
	}
	// A request admitted by a list is counted by the rules above it, and browse_complete still returns the results of those below.
	other := koala.Params{"uid": "8", "white": "1"}
	s.wantComplete(other, true, 101)
	if a, b := s.value(other, 201), s.value(other, 202); a != 1 || b != 0 {
		t.Errorf("counted %d above the list and %d below, want 1 and 0", a, b)
	}
}

// A feedback takes back the units that each matching leak rule configures, newest first, and nothing of other rules.
func TestFeedback(t *testing.T) {
	const rules = `rule : [leak] [uid=+] [time=600; count=5; erase1=1; erase2=3] [result=2; return=201]
rule : [leak] [uid=+; act=a] [time=600; count=9; erase1=2] [result=2; return=202]
rule : [count] [uid=+] [time=600; count=9] [result=2; return=203]`
	for name, st := range map[string]store.Store{"memory": inMemory(), "redis": sharedStore(t)} {
		t.Run(name, func(t *testing.T) {
			s := newOurs(t, st, rules)
			params := koala.Params{"uid": "7", "act": "a"}
			for range 5 {
				s.update(t.Context(), params)
			}
			want := func(after string, values ...int) {
				t.Helper()
				for i, want := range values {
					if n := s.value(params, 201+i); n != want {
						t.Errorf("after %s: rule %d has %d, want %d", after, 201+i, n, want)
					}
				}
			}
			feedback := func(params koala.Params, erase int) {
				t.Helper()
				if err := s.Feedback(t.Context(), params, erase); err != nil {
					t.Error(err)
				}
			}
			want("five updates", 5, 5, 5)
			if s.browse(t.Context(), params) != 201 {
				t.Error("the bucket is not full")
			}
			feedback(params, 1)
			want("erase1", 4, 3, 5)
			if code := s.browse(t.Context(), params); code != 0 {
				t.Errorf("what was given back has no room: %d", code)
			}
			feedback(koala.Params{"uid": "7"}, 1) // which the second does not match
			want("erase1 of other parameters", 3, 3, 5)
			feedback(params, 2)
			want("erase2", 0, 3, 5)
			feedback(params, 2)
			feedback(koala.Params{"uid": "8"}, 2)
			feedback(koala.Params{}, 2)
			want("erase2 of nothing", 0, 3, 5)
		})
	}
}

// value returns the count of the request's subject, whether the rule matches or not, and at most the limit.
func TestValue(t *testing.T) {
	s := newOurs(t, inMemory(), eachMethod+"\nrule : [direct] [uid=9] [time=1; count=0] [result=2; return=101]")
	params := koala.Params{"uid": "7", "act": "a"}
	for i, want := range [][]int{{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {2, 3, 3, 3}, {2, 4, 3, 3}, {2, 4, 3, 3}} {
		for j, n := range want {
			if got := s.value(params, 201+j); got != n {
				t.Errorf("after %d: rule %d has %d, want %d", i, 201+j, got, n)
			}
		}
		s.update(t.Context(), params)
	}
	if n := s.value(params, 101); n != 0 {
		t.Errorf("a list has counted %d", n)
	}
	// b is counted together with a, and c, which does not match, has that counter too.
	for _, act := range []string{"b", "c"} {
		if n := s.value(koala.Params{"uid": "7", "act": act}, 202); n != 4 {
			t.Errorf("act=%s: %d", act, n)
		}
	}
	if n := s.value(koala.Params{"act": "a"}, 202); n != 0 {
		t.Errorf("of nobody %d", n)
	}
	for _, code := range []int{0, -1, 999} {
		if _, err := s.Value(t.Context(), params, code); !errors.Is(err, koala.ErrUnknownRule) {
			t.Errorf("rule %d: %v", code, err)
		}
	}
}

// Blanks around values do not count, what begins with _ is not for rules, which may not ask for it, and an address is one where a rule asks for it.
func TestParameters(t *testing.T) {
	s := newOurs(t, inMemory(), "rule : [count] [uid=+] [time=600; count=1] [result=2; return=201]")
	if code := s.writeThrough(t.Context(), koala.Params{"uid": " 7\t\r\n", "_x": "1"}); code != 0 {
		t.Fatal(code)
	}
	for _, value := range []string{"7", "7 ", "\v7"} {
		if code := s.browse(t.Context(), koala.Params{"uid": value, "ip": "no address", "_y": "1"}); code != 201 {
			t.Errorf("%q: answered by %d", value, code)
		}
	}
	for _, value := range []string{"", " ", "\t\n"} {
		if result := s.ask(t.Context(), koala.Params{"uid": value}, true); result.RetType != 0 || result.StrReason != "Allow" {
			t.Errorf("%q: %+v", value, result)
		}
	}
	s = newOurs(t, inMemory(), "rule : [count] [ip=+] [time=600; count=1] [result=2; return=201]")
	for _, bad := range []string{"no address", "1.2.3", "1.2.3.4.5", "1.2.3.256", "fd00::zz", strings.Repeat("1", 10_000)} {
		for _, err := range []error{
			s.Update(t.Context(), koala.Params{"ip": bad}),
			s.Feedback(t.Context(), koala.Params{"ip": bad}, 1),
			func() error { _, err := s.Browse(t.Context(), koala.Params{"ip": bad}, true); return err }(),
			func() error { _, err := s.BrowseComplete(t.Context(), koala.Params{"ip": bad}, true); return err }(),
			func() error { _, err := s.Value(t.Context(), koala.Params{"ip": bad}, 201); return err }(),
			func() error {
				answers, err := s.BrowseAll(t.Context(), []koala.Params{{"ip": bad}, {}})
				return errors.Join(err, answers[0].Err, answers[1].Err)
			}(),
		} {
			if !errors.Is(err, koala.ErrInvalid) || len(err.Error()) > 200 {
				t.Errorf("%.20s: %v", bad, err)
			}
		}
	}
}

// K14: addresses of IPv6 are matched as they are, and counted by network; one in the form of the other is the other.
func TestK14AddressesOfIPv6(t *testing.T) {
	const rules = `rule : [direct] [ip=2001:db8:bad::/48,10.9.0.0/16] [time=1; count=0] [result=2; return=101]
rule : [count] [ip=+] [time=600; count=1] [result=2; return=201]`
	s := newOurs(t, inMemory(), rules)
	for _, step := range []struct {
		ip   string
		code int
	}{
		{"2001:db8:bad::1", 101},
		{"2001:db8:bad:ffff::", 101},
		{"10.9.1.2", 101},
		{"::ffff:10.9.1.2", 101},
		{"2001:db8::1", 0},
		{"2001:0db8:0::2", 201},
		{"2001:db8:0:1::2", 0},
		{"fe80::1%eth0", 0},
		{"fe80::2%eth1", 201},
		{"192.0.2.1", 0},
		{"::ffff:192.0.2.1", 201},
		{"192.0.2.2", 0},
	} {
		if code := s.writeThrough(t.Context(), koala.Params{"ip": step.ip}); code != step.code {
			t.Errorf("%s: answered by %d, want %d", step.ip, code, step.code)
		}
	}
}

// What each rule let in and refused today is known, direct rules as their results say, and logged when the day of the zone ends.
func TestToday(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := newJournal()
		s := newOurs(t, inMemory(), `rule : [direct] [white=+] [] [result=1; return=101]
rule : [direct] [black=+] [] [result=2; return=102]
rule : [direct] [black=+; white=+] [] [result=1; return=103]
`+eachMethod, func(o *koala.Options) { o.Logger = slog.New(slog.NewTextHandler(logged, nil)) })
		time.Sleep(15*time.Hour + 59*time.Minute) // to 23:59 in Shanghai
		params := koala.Params{"uid": "7", "act": "a"}
		for range 4 {
			s.writeThrough(t.Context(), params)
		}
		s.complete(params, false)
		white, black := koala.Params{"white": "1"}, koala.Params{"black": "1"}
		for range 5 {
			s.browse(t.Context(), white)
		}
		s.writeThrough(t.Context(), black)
		s.complete(white, true)
		s.complete(koala.Params{"white": "1", "black": "1"}, false)
		date, tallies := s.Today()
		if got := fmt.Sprint(date, tallies); got != "2000-01-01[{101 7 0} {102 0 2} {103 1 0} {201 2 3} {202 3 0} {203 3 0} {204 3 0}]" {
			t.Errorf("%s", got)
		}
		if logged.String() != "" {
			t.Errorf("logged %s", logged)
		}
		time.Sleep(time.Minute)
		date, tallies = s.Today()
		if got := fmt.Sprint(date, tallies); got != "2000-01-02[]" {
			t.Errorf("%s", got)
		}
		if got := logged.String(); strings.Count(got, "a rule's day") != 7 || !strings.Contains(got, "date=2000-01-01 rule_no=201 allow=2 deny=3") {
			t.Errorf("logged %s", got)
		}
	})
}

// Metrics get every decision that charged, or tried to.
func TestDecided(t *testing.T) {
	var told []string
	s := newOurs(t, inMemory(), "rule : [count] [uid=+] [time=600; count=1] [result=3; return=201]", func(o *koala.Options) {
		o.Decided = func(_ *admission.Request, d *admission.Decision, _ time.Duration) {
			told = append(told, d.Rule+" "+string(d.Action))
		}
	})
	for range 2 {
		s.browse(t.Context(), uid)
		s.writeThrough(t.Context(), uid)
	}
	s.complete(uid, true)
	s.update(t.Context(), uid)
	if want := []string{"return-201 allow", "return-201 challenge", "return-201 challenge"}; !reflect.DeepEqual(told, want) {
		t.Errorf("%q", told)
	}
}

// What is in force can be seen, but of files the names only.
func TestPolicy(t *testing.T) {
	s := newOurs(t, inMemory(), "rule : [direct] [uid @ bad; act!=x] [time=1; count=0] [result=2; return=101]\n"+eachMethod, func(o *koala.Options) {
		writePolicy(t, filepath.Join(filepath.Dir(o.Path), "bad.dat"), "", "") // any file is a dict
		writePolicy(t, o.Path, "bad : bad.dat", "rule : [direct] [uid @ bad; act!=x] [time=1; count=0] [result=2; return=101]\n"+eachMethod)
	})
	d := s.Policy()
	if d.File != "rules.conf" || fmt.Sprint(d.Dicts) != "[{bad bad.dat}]" || len(d.Rules) != 5 || len(d.Version) != 12 || len(d.Results) != 4 {
		t.Errorf("%+v", d)
	}
	want := []string{"{101 direct [uid @ bad act!=x] 0 1 0 0 0 2 4}", "{203 base [uid=+] 2 7 1 0 0 2 7}", "{204 leak [uid=+] 0 9 3 1 2 2 8}"}
	if got := []string{fmt.Sprint(d.Rules[0]), fmt.Sprint(d.Rules[3]), fmt.Sprint(d.Rules[4])}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	if r := d.Results[3]; r.NeedVcode != 1 || r.ErrNo != 20 {
		t.Errorf("%+v", r)
	}
}

func TestNewNeeds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.conf")
	writePolicy(t, path, "", threeADay)
	for name, o := range map[string]koala.Options{
		"a file": {Secret: fileSecret}, "one that is there": {Path: path + "x", Secret: fileSecret}, "a secret": {Path: path},
	} {
		if _, err := koala.New(inMemory(), o); err == nil {
			t.Errorf("nobody misses %s", name)
		}
	}
	s, err := koala.New(inMemory(), koala.Options{Path: path, Secret: fileSecret, Alive: func(context.Context) error { return errors.New("gone") }})
	if err != nil || s.Alive(t.Context()) == nil {
		t.Errorf("%v", err)
	}
}

package koala_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/dialects/koala"
)

// originalConditions reads conditions as Koala does. A parameter has the last of its conditions.
func originalConditions(text string) (map[string]func(string) bool, error) {
	conditions := map[string]func(string) bool{}
	for _, one := range strings.Split(strings.Trim(text, " ;"), ";") {
		if _, dict, ok := strings.Cut(one, "@"); ok {
			return nil, errors.New("no dict " + dict)
		}
		for _, sign := range []string{"<", ">"} {
			if name, value, ok := strings.Cut(one, sign); ok {
				limit, err := strconv.Atoi(value)
				if err != nil {
					return nil, err
				}
				conditions[strings.Trim(name, " !")] = func(v string) bool {
					n, err := strconv.Atoi(v)
					return err == nil && (sign == "<" && n < limit || sign == ">" && n > limit)
				}
			}
		}
		name, value, ok := strings.Cut(one, "=")
		if !ok || strings.ContainsAny(one, "<>") {
			continue
		}
		not := strings.HasSuffix(name, "!")
		name = strings.Trim(name, " !")
		switch {
		case value == "+":
			conditions[name] = func(v string) bool { return v != "" } // whatever stands before =
		case strings.ContainsAny(value, "+-*"):
			from, to, ok := strings.Cut(value, "-")
			a, err1 := strconv.Atoi(from)
			b, err2 := strconv.Atoi(to)
			if !ok || err1 != nil || err2 != nil {
				return nil, errors.New("scope error")
			}
			conditions[name] = func(v string) bool {
				n, err := strconv.Atoi(v)
				return err == nil && (a <= n && n <= b) != not
			}
		default:
			words := map[string]bool{}
			for _, word := range strings.Split(value, ",") {
				words[word] = true
			}
			conditions[name] = func(v string) bool { return v != "" && words[v] != not }
		}
	}
	return conditions, nil
}

// K10: a value is what it says, whatever signs it has, and conditions on one parameter add up.
func TestK10ValuesAreWhatTheySay(t *testing.T) {
	for _, tt := range []struct{ conditions, fits, fitsNot string }{
		{"v=add-review", "add-review", "add"},
		{"v=a+b", "a+b", "a"},
		{"v=c*", "c*", "cc"},
		{"v=ann@example.com", "ann@example.com", "ann"},
		{"v=a<b", "a<b", "a"},
		{`v="1-5"`, "1-5", "3"},
		{`v="] ["`, "] [", "]"},
		{`v="a;b"`, "a;b", "a"},
		{"v>100; v!=666", "667", "99"},
		{"v!=666; v>100", "667", "666"},
		{"v=192.0.2.0/24", "192.0.2.77", "192.0.3.1"},
		{"v=2001:db8::/32", "2001:db8::7", "2001:db9::7"},
	} {
		read := tt.conditions
		if strings.Contains(read, "] [") {
			read = strings.Split(read, "] [")[0] // the groups of a rule are split there, within quotes as well
		}
		original, err := originalConditions(read)
		if err == nil && original["v"] != nil && original["v"](tt.fits) && !original["v"](tt.fitsNot) {
			t.Errorf("the original reads %s, is known not to", tt.conditions)
		}
		s := newOurs(t, inMemory(), "rule : [direct] ["+tt.conditions+"] [] [result=2; return=101]")
		if a, b := s.browse(t.Context(), koala.Params{"v": tt.fits}), s.browse(t.Context(), koala.Params{"v": tt.fitsNot}); a != 101 || b != 0 {
			t.Errorf("%s: %q is answered by %d, %q by %d", tt.conditions, tt.fits, a, tt.fitsNot, b)
		}
	}
	// What nothing can fit, or is not what it seems, is said so; the original takes it for something else.
	if original, err := originalConditions("v!=+"); err != nil || !original["v"]("x") {
		t.Error("the original reads !=+, is known to take it for =+")
	}
	path := t.TempDir() + "/rules.conf"
	writePolicy(t, path, "", "rule : [direct] [v!=+] [] [result=2; return=101]")
	var wrong *rules.Error
	if _, err := koala.New(inMemory(), koala.Options{Path: path, Secret: fileSecret}); !errors.As(err, &wrong) || wrong.Line != 4 {
		t.Errorf("!=+: %v", err)
	}
}

// K14: ranges are of addresses of both families, and one of IPv4 in the form of IPv6 is within those of IPv4.
func TestK14RangesOfBothFamilies(t *testing.T) {
	s := newOurs(t, inMemory(), "rule : [direct] [ip=192.0.2.0-192.0.2.9,2001:db8::-2001:db8::9] [] [result=2; return=101]")
	for address, want := range map[string]int{
		"192.0.2.1": 101, "::ffff:192.0.2.1": 101, "2001:db8::1": 101,
		"192.0.2.10": 0, "::ffff:192.0.2.10": 0, "2001:db8::a": 0, "::192.0.2.1": 0,
	} {
		if code := s.browse(t.Context(), koala.Params{"ip": address}); code != want {
			t.Errorf("%s: answered by %d, want %d", address, code, want)
		}
	}
}

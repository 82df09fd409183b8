package koala

import (
	"context"
	"errors"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

const (
	fuzzDict    = "7\nword\n10.0.0.0/8\nfd00::/8\n"
	fuzzResults = "\n[result]\n2 : {\"Ret_type\":2}\n3 : {\"Ret_type\":3,\"Need_vcode\":1}\n"
)

// fuzzFolder has a dict, and is the folder of files that are not written.
func fuzzFolder(f *testing.F) string {
	f.Helper()
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "d.dat"), []byte(fuzzDict), 0o600); err != nil {
		f.Fatal(err)
	}
	return filepath.Join(dir, "rules.conf")
}

// FuzzParse: whatever is read, there is no panic; an error has a place; and what loads has every rule line, in its order, in a rules file
// that says the same when it is read again.
func FuzzParse(f *testing.F) {
	path := fuzzFolder(f)
	sample, err := os.ReadFile("testdata/grammar.conf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(regexp.MustCompile(`grammar/\w+\.dat`).ReplaceAllString(string(sample), "d.dat"))
	for _, rule := range []string{
		"rule : [direct] [uid @ d] [] [result=2; return=1]", "# x\nrule:[leak][a=1,2{~}][time=5;count=3;erase1=2][result=3;return=2]",
		"rule : [base] [a!=\"b;c\"; b>5] [base=3; time=86400; count=1;] [result=2; return=3;]\r\n\t# - x: y", "rule : [count] [true=no; y=~,0x1] [time=86400; count=1] [result=2; return=4]",
	} {
		f.Add("[dicts]\nd : d.dat\n[rules]\n" + rule + fuzzResults)
	}
	f.Fuzz(func(t *testing.T, src string) {
		p, set, err := parse(path, []byte(src), time.UTC)
		if err != nil {
			var e *rules.Error
			if errors.As(err, &e) && e.File == path && (e.Line < 1 || e.Line > 1+strings.Count(src, "\n") || e.Column < 1 || !strings.Contains(e.Problem, "; the line is ")) {
				t.Fatalf("the error has no place: %v", err)
			}
			if !strings.Contains(err.Error(), filepath.Dir(path)) {
				t.Fatalf("the error names no file: %v", err)
			}
			return
		}
		codes := ruleLines(src)
		var read []int
		for _, r := range p.file.rules {
			read = append(read, r.code)
		}
		if !slices.Equal(codes, read) {
			t.Fatalf("the return numbers of the file are %v, and those that were read %v", codes, read)
		}
		again, err := rules.Parse(path, set.Source())
		if err != nil || again.Version() != set.Version() || p.version != set.Version() {
			t.Fatalf("what it is made into is not what it decides by: %v", err)
		}
		var named []int
		for _, m := range regexp.MustCompile(`(?m)^  - name: return-(\d+)$`).FindAllStringSubmatch(string(set.Source()), -1) {
			n, _ := strconv.Atoi(m[1])
			named = append(named, n)
		}
		if !slices.Equal(codes, named) {
			t.Fatalf("the return numbers of the file are %v, and those of the rules file %v", codes, named)
		}
		gate, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), set, admission.Options{Secret: make([]byte, 32)})
		if err != nil {
			t.Fatal(err)
		}
		e, err := gate.Explain(context.Background(), admission.Request{})
		if err != nil || len(e.Rules) != len(codes) {
			t.Fatalf("%d rules decide, of %d: %v", len(e.Rules), len(codes), err)
		}
	})
}

// ruleLines reads the return numbers of all lines of the section [rules] that are no comment.
func ruleLines(src string) (codes []int) {
	within := false
	for text := range strings.SplitSeq(strings.TrimPrefix(src, "\ufeff"), "\n") {
		switch text = strings.Trim(text, " \t\v\r"); {
		case strings.EqualFold(text, "[rules]"):
			within = true
		case strings.EqualFold(text, "[result]"):
			return codes
		case within && text != "" && text[0] != '#':
			answer := text[strings.LastIndexByte(text, '['):]
			m := regexp.MustCompile(`return[ \t\v]*=[ \t\v]*\+?0*([0-9]+)`).FindStringSubmatch(answer)
			n, _ := strconv.Atoi(m[1])
			codes = append(codes, n)
		}
	}
	return codes
}

// FuzzCondition: a condition that loads fits exactly the values that a plain reading of the grammar says.
func FuzzCondition(f *testing.F) {
	path := fuzzFolder(f)
	for _, seed := range [][2]string{
		{"act=ask", "ask"},
		{"act!=a,b{~}", "c"},
		{"qid=1-5,9-12", "10"},
		{"qid=-5--1", "-3"},
		{"qid>1000", "1001"},
		{"qid!<007", "8"},
		{"uip=10.0.24.*", "10.0.24.7"},
		{"uip=10.0.0.1-10.0.0.9,fd00::/8,x", "fd00::1"},
		{"u @ d", "10.1.1.1"},
		{"u!@d", "word"},
		{"ip=1.2.3.4/8", "1.9.9.9"},
		{"user=a-b", "a-b"},
		{"y=on,0x1,~,null", "on"},
		{"a=+", "|"},
		{"a=1.50", "1.5"},
		{"a=::ffff:1.2.3.4", "1.2.3.4"},
		{"a=::ffff:1.2.3.0/120", "1.2.3.4"},
		{"a=::1-::f", "::a"},
		{"Route=x: y", "x: y"},
		{"a=#b", "#b"},
		{"a=::ffff:1.2.3.4-::ffff:1.2.3.9", "1.2.3.5"},
		{"a=fe80::1%eth0", "fe80::1"},
		{"a=00-9", "007"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, condition, value string) { checkCondition(t, path, condition, value) })
}

// TestConditionsAtRandom puts conditions together of what may stand in one, which a fuzzer finds late.
func TestConditionsAtRandom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.conf")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "d.dat"), []byte(fuzzDict), 0o600); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	item := func() string {
		return pick("ask", "a-b", "1-5", "-5--1", "9 - 12", "7", "-7", "007", "1.5", "1e3", "0x10", "no", "~", "null", "a b", "a: b", "- a", "*a", "&a", "{a", "'a", "%a", "@d", "c++", "<5", "é",
			"10.0.0.1", "10.0.0.*", "10.*.*.*", "10.0.0.0/8", "10.0.0.1-10.0.0.9", "::1", "fd00::/8", "::1-::f", "::ffff:10.0.0.1", "::ffff:10.0.0.0/104", "1-", "*", "10.*", "5-1", "", "+")
	}
	loaded, fit := 0, 0
	for range 4000 {
		condition := pick("act", "act", "act", "ip", "user", "IP", "koala_x", "true") + pick("", " ")
		switch op := pick("=", "=", "=", "!=", ">", "<", "!>", "!<", "@", "!@"); op {
		case "=", "!=":
			condition += op + item()
			for r.IntN(2) == 0 {
				condition += "," + item()
			}
			condition += pick("", "", "{~}")
		case "@", "!@":
			condition += op + " d"
		default:
			condition += op + pick("5", "-5", "007", "1000", "+3")
		}
		value := pick(item(), strconv.Itoa(r.IntN(20)-7), "10.0.0.7", "10.1.2.3", "::7", "fd12::1", "word", "5.5")
		if checkCondition(t, path, condition, value) {
			loaded++
			if _, fits, _ := plainReading(condition, value); fits {
				fit++
			}
		}
	}
	if t.Logf("%d conditions were compared, %d fitted", loaded, fit); loaded < 2000 || fit < 500 {
		t.Errorf("too few")
	}
}

// checkCondition tells whether the condition loads; if it does, what it says has to be what a plain reading says.
func checkCondition(t *testing.T, path, condition, value string) bool {
	t.Helper()
	if strings.ContainsAny(condition, "\"[];\n\r#") && condition != "a=#b" {
		return false // they have a meaning around conditions
	}
	_, rules, err := parse(path, []byte("[dicts]\nd : d.dat\n[rules]\nrule : [direct] ["+condition+"] [] [result=2; return=1]"+fuzzResults), time.UTC)
	if err != nil {
		return false
	}
	name, want, known := plainReading(condition, value)
	if !known {
		return false
	}
	p := &policy{}
	req, err := p.request(Params{name: value})
	if err != nil {
		t.Fatal(err)
	}
	gate, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), rules, admission.Options{Secret: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := gate.Check(context.Background(), req)
	if errors.Is(err, admission.ErrInvalidRequest) {
		return false
	}
	if got := len(d.Rules) == 1 && !d.Admitted; err != nil || got != want {
		t.Fatalf("%s of %q: %v, %v, and by a plain reading %v\n%s", condition, value, got, err, want, rules.Source())
	}
	return true
}

// plainReading reads a condition without quotes as docs/koala.md says it, and tells whether it fits the value. It does not know what it takes
// more than a few lines to know: numbers of 19 digits and more.
func plainReading(condition, value string) (name string, fits, known bool) {
	const blank = " \t\v\r"
	name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*`).FindString(strings.Trim(condition, blank))
	rest := strings.Trim(strings.Trim(condition, blank)[len(name):], blank)
	rest, not := strings.CutPrefix(rest, "!")
	op, rest := rest[0], strings.Trim(rest[1:], blank)
	value = strings.Trim(value, blank+"\n")
	if value == "" {
		return name, false, true
	}
	if regexp.MustCompile(`[0-9]{19}`).MatchString(condition + " " + value) {
		return name, false, false
	}
	ip, err := netip.ParseAddr(value)
	if ip = ip.Unmap().WithZone(""); name == "ip" && err != nil {
		return name, false, true // it is as if it were not there
	}
	text := slices.Contains([]string{"user", "device", "session"}, name)
	if text || err == nil && len(value) > 45 {
		ip = netip.Addr{}
	}
	number, isNumber := new(big.Rat), regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`).MatchString(value) && len(value) <= 64
	if isNumber {
		number.SetString(value)
	}
	isNumber = isNumber && name != "ip"
	isWhole := isNumber && !strings.Contains(value, ".")
	ofNumbers := true // all that it is compared with are numbers
	whole := func(text string) *big.Rat {
		n, _ := strconv.ParseInt(text, 10, 64)
		return new(big.Rat).SetInt64(n)
	}
	switch op {
	case '@':
		ofNumbers = false
		in := func(network string) bool { return netip.MustParsePrefix(network).Contains(ip) }
		fits = (value == "7" || value == "word" || value == "10.0.0.0/8" || value == "fd00::/8") && name != "ip" || in("10.0.0.0/8") || in("fd00::/8")
	case '>':
		fits = isWhole && number.Cmp(whole(rest)) > 0
	case '<':
		fits = isWhole && number.Cmp(whole(rest)) < 0
	default:
		rest = strings.Trim(strings.TrimSuffix(rest, "{~}"), blank)
		for item := range strings.SplitSeq(rest, ",") {
			item = strings.Trim(item, blank)
			from, to, dash := strings.Cut(item, "-")
			low, errLow := netip.ParseAddr(strings.Trim(from, blank))
			high, errHigh := netip.ParseAddr(strings.Trim(to, blank))
			network, errNetwork := netip.ParsePrefix(strings.ReplaceAll(item, "*", "0"))
			if open := strings.Count(item, "*"); open > 0 && regexp.MustCompile(`^[0-9.*]+$`).MatchString(item) {
				network, errNetwork = netip.ParsePrefix(strings.ReplaceAll(item, "*", "0") + "/" + strconv.Itoa(32-8*open))
			}
			single, errSingle := netip.ParseAddr(item)
			m := regexp.MustCompile(`^(-?[0-9]+)[ \t]*-[ \t]*(-?[0-9]+)$`).FindStringSubmatch(item)
			ofNumbers = ofNumbers && m != nil
			switch {
			case rest == "+":
				fits = true
			case m != nil:
				fits = fits || isWhole && number.Cmp(whole(m[1])) >= 0 && number.Cmp(whole(m[2])) <= 0
			case dash && errLow == nil && errHigh == nil:
				low, high = low.Unmap().WithZone(""), high.Unmap().WithZone("")
				fits = fits || ip.IsValid() && low.BitLen() == ip.BitLen() && low.Compare(ip) <= 0 && ip.Compare(high) <= 0
			case errNetwork == nil:
				if a := network.Addr(); a.Is4In6() && network.Bits() >= 96 {
					network = netip.PrefixFrom(a.Unmap(), network.Bits()-96)
				}
				fits = fits || network.Contains(ip)
			case errSingle == nil:
				fits = fits || ip == single.Unmap().WithZone("")
			default:
				fits = fits || value == item
			}
		}
	}
	if not && ofNumbers {
		return name, isWhole && !fits, true
	}
	return name, fits != not, true
}

// FuzzConf: there is no panic and no end of including; what is read is what a plain reading finds, and each key is taken or named.
func FuzzConf(f *testing.F) {
	f.Add("rule_file = r.conf\ninclude other.conf\n", "listen = :9981\n# x\n")
	f.Add("include other.conf", "include main.conf\n")
	f.Add("a=b=c\r\n = \n", "")
	f.Add("INCLUDE\tother.conf\ninclude other.conf\nlog_level=7", "log_level = 3\n\ufeff")
	f.Fuzz(func(t *testing.T, main, other string) {
		if includes := regexp.MustCompile(`(?i)include\s+[^\n]*/`); includes.MatchString(main) || includes.MatchString(other) {
			return // other folders are not the test's
		}
		dir := t.TempDir()
		for name, content := range map[string]string{"main.conf": main, "other.conf": other} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, "main.conf")
		c := &conf{values: map[string]part{}}
		if err := c.read(path, nil); err != nil {
			if !strings.Contains(err.Error(), dir) {
				t.Fatalf("the error names no file: %v", err)
			}
			return
		}
		want := map[string]string{}
		var read func(content string, depth int)
		read = func(content string, depth int) {
			for line := range strings.SplitSeq(strings.TrimPrefix(content, "\ufeff"), "\n") {
				line = strings.Trim(line, " \t\v\r")
				if line == "" || line[0] == '#' {
					continue
				}
				if key, value, ok := strings.Cut(line, "="); ok {
					want[strings.Trim(key, " \t\v\r")] = strings.Trim(value, " \t\v\r")
				} else if depth < 20 {
					read(map[string]string{"main.conf": main, "other.conf": other}[strings.Fields(line)[1]], depth+1)
				}
			}
		}
		read(main, 0)
		if len(want) != len(c.values) {
			t.Fatalf("%d keys were read, should be %d", len(c.values), len(want))
		}
		taken := 0
		for key, value := range want {
			if got, ok := c.values[key]; !ok || got.text != value {
				t.Fatalf("%q is %q, should be %q", key, got.text, value)
			}
			if key == "rule_file" {
				taken++
			}
		}
		if warnings := c.warnings(); len(warnings)+taken != len(want) {
			t.Fatalf("%d keys, %d warnings:\n%s", len(want), len(warnings), strings.Join(warnings, "\n"))
		}
	})
}

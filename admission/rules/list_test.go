package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// listOf reads a list from a file that holds content.
func listOf(t *testing.T, content string) (*valueList, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := Parse(filepath.Join(filepath.Dir(path), "rules.yaml"), []byte(`version: 1
lists: {l: {file: list.txt}}
rules: [{name: r, match: {user: {list: l}}, algorithm: direct, action: deny}]`))
	if err != nil {
		return nil, err
	}
	return rules.rules[0].match[0].test.(*valueList), nil
}

func TestListFiles(t *testing.T) {
	l, err := listOf(t, "\ufeff# the office\r\nann\r\n  bob  # since May\n\n10.0.0.0/8\n192.0.2.1 # a printer\na#b\n#c\n2001:db8::1/32\n::ffff:198.51.100.7\na/b\nlast")
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]bool{
		"ann": true, "bob": true, "a#b": true, "a/b": true, "last": true, "192.0.2.1": true,
		"": false, "the": false, "#c": false, "c": false, "# the office": false, "\ufeff# the office": false, "ann\r": false, "bob  # since May": false,
	} {
		if got := l.has(word); got != want {
			t.Errorf("has %q: %v, want %v", word, got, want)
		}
	}
	for ip, want := range map[string]bool{
		"10.9.9.9": true, "192.0.2.1": true, "2001:db8:ffff::1": true, "198.51.100.7": true,
		"11.0.0.1": false, "192.0.2.2": false, "2001:db9::1": false, "::": false, "0.0.0.0": false,
	} {
		if got := l.hasIP(netip.MustParseAddr(ip)); got != want {
			t.Errorf("has %s: %v, want %v", ip, got, want)
		}
	}
}

// What is wrong with a list stands at its line in its file.
func TestWrongListFiles(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{"ann\n10.0.0.0/33\n", `list.txt:2:1: "10.0.0.0/33" is no network, it should be such as 10.0.0.0/8 or fd00::/8`},
		{"\n2001:db8::/x", `list.txt:2:1: "2001:db8::/x" is no network, it should be such as 10.0.0.0/8 or fd00::/8`},
		{"ann\n" + strings.Repeat("x", maxValue+1), `list.txt:2:1: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" is no value, it should be at most 255 bytes of UTF-8`},
		{"\xff\n", `list.txt:1:1: "\xff" is no value, it should be at most 255 bytes of UTF-8`},
		{"ann\n" + strings.Repeat("x", 1<<20), `list.txt:2:1: the line is too long, a value should have at most 255 bytes`},
		{"# addresses\n" + strings.Repeat("10.0.0.1\n", maxList+2), `list.txt:1048578:1: list l has 1048578 values, it should have at most 1048576`},
	} {
		_, err := listOf(t, c.content)
		var place *Error
		if !errors.As(err, &place) || !strings.HasSuffix(place.Error(), string(filepath.Separator)+c.want) {
			t.Errorf("%.20q:\n got %v\nwant %s", c.content, err, c.want)
		}
	}
	if l, err := listOf(t, strings.Repeat("x", maxValue)); err != nil || len(l.words) != 1 {
		t.Errorf("a value of %d bytes: %v", maxValue, err)
	}
	if _, err := listOf(t, "# addresses\n"+strings.Repeat("10.0.0.1\n# twice\n", maxList)); err != nil {
		t.Errorf("a list of %d values: %v", maxList, err)
	}
	if l, err := listOf(t, "# nobody yet\n"); err != nil || len(l.words) != 0 {
		t.Errorf("an empty list: %v", err)
	}
}

func TestAListOfManyValues(t *testing.T) {
	var b strings.Builder
	const many = 100_000
	for i := range many {
		switch i % 3 {
		case 0:
			fmt.Fprintf(&b, "user-%d\n", i)
		case 1:
			fmt.Fprintf(&b, "10.%d.%d.%d\n", i>>16, i>>8&255, i&255)
		default:
			fmt.Fprintf(&b, "2001:db8:%x:%x::/64\n", i>>16, i&0xffff)
		}
	}
	l, err := listOf(t, b.String())
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		v4 := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		v6 := netip.MustParsePrefix(fmt.Sprintf("2001:db8:%x:%x::/64", i>>16, i&0xffff)).Addr().Next()
		got := [3]bool{l.has(fmt.Sprintf("user-%d", i)), l.hasIP(v4), l.hasIP(v6)}
		if want := [3]bool{i%3 == 0, i%3 == 1, i%3 == 2}; got != want {
			t.Fatalf("value %d: user, address, network are listed: %v, want %v", i, got, want)
		}
	}
}

// Conditions are asked for every request of a process.
func TestConditionsAllocateNothing(t *testing.T) {
	var words []string
	for i := range 3 * fewValues {
		words = append(words, fmt.Sprint("w", i))
	}
	rules, err := Parse("test.yaml", []byte(`version: 1
lists: {office: {values: [ann, 10.0.0.0/8, "2001:db8::/32"]}}
rules:
  - name: r
    algorithm: direct
    action: deny
    match:
      route: ["/v2/**", "/v1/sales/*/orders"]
      method: [PUT, POST]
      user: {list: office, present: true, not: bob}
      ip: {list: office, not: {cidr: [10.1.0.0/16, "fd00::/8"]}}
      plan: [`+strings.Join(words, ", ")+`]
      size: {range: [1, 10]}`))
	if err != nil {
		t.Fatal(err)
	}
	m := rules.rules[0].match
	for _, ip := range []string{"10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"} {
		req := &Request{
			Route: "/v1/sales/spring/orders", Method: "POST", User: "ann", IP: netip.MustParseAddr(ip),
			Attributes: map[string]string{"plan": "w40", "size": "7"},
		}
		path := appendSegments(nil, req.Route)
		held := true
		if n := testing.AllocsPerRun(100, func() { held = held && m.holds(req, path) }); n != 0 || !held {
			t.Errorf("%s: %v allocations, held: %v", ip, n, held)
		}
		req.Attributes["size"] = "no number at all"
		if n := testing.AllocsPerRun(100, func() { held = m.holds(req, path) }); n != 0 || held {
			t.Errorf("%s, with a wrong number: %v allocations, held: %v", ip, n, held)
		}
	}
}

package rules

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/tidegate/tidegate/internal/rulesfile"
)

// parts are the parts of a request that are not attributes.
var parts = []string{"route", "method", "tier", "user", "ip", "device", "session"}

// plainNumbers matches numbers in canonical form, so that comparing them as text is exact.
var plainNumbers = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// isAttribute reports whether name can be the name of an attribute: in any spelling, the names of other parts of requests and subjects
// are reserved.
func isAttribute(name string) bool {
	small := strings.ToLower(name)
	return attributeName(name) && !slices.Contains(parts, small) && small != "caller" && small != "network"
}

// match parses a mapping from parts of a request to conditions.
func (s *source) match(n ast.Node) (m match, err error) {
	err = s.Pairs(n, "match", func(part string, at, n ast.Node) error {
		if !slices.Contains(parts, part) && !isAttribute(part) {
			return s.Wrong(at, "%q is no part of a request, it should be %s, or the name of an attribute (A-Z a-z 0-9 _ . -)", part, strings.Join(parts, ", "))
		}
		if slices.ContainsFunc(m, func(c condition) bool { return c.part == part }) {
			return s.Wrong(at, "match has %q twice", part)
		}
		t, err := s.condition(part, n)
		m = append(m, condition{part: part, text: part + ": " + brief(n), test: t})
		return err
	})
	if err == nil && len(m) == 0 {
		err = s.Wrong(n, "match is empty, leave it out to match every request")
	}
	return m, err
}

// brief returns n on one line, shortened.
func brief(n ast.Node) string {
	const most = 100
	text := []rune(strings.Join(strings.Fields(n.String()), " "))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// condition parses a value, a list of values, or a mapping such as {not: gold}.
func (s *source) condition(part string, n ast.Node) (test, error) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
	default:
		return s.values(part, n)
	}
	var tests all
	add := func(t test, err error) error {
		tests = append(tests, t)
		return err
	}
	err := s.Mapping(n, "a condition",
		rulesfile.Key("not", func(_, n ast.Node) error {
			t, err := s.condition(part, n)
			return add(not{t}, err)
		}),
		rulesfile.Key("range", func(_, n ast.Node) error { return add(s.between(part, n)) }),
		rulesfile.Key("above", func(key, n ast.Node) error {
			limit, err := s.comparand(part, "above", key, n)
			return add(above(limit), err)
		}),
		rulesfile.Key("below", func(key, n ast.Node) error {
			limit, err := s.comparand(part, "below", key, n)
			return add(below(limit), err)
		}),
		rulesfile.Key("whole", func(key, n ast.Node) error {
			if part != "user" && part != "device" && part != "session" && !isAttribute(part) {
				return s.Wrong(key, "whole is for ids and attributes, not for %s", part)
			}
			is, err := s.Bool(n, "whole")
			return add(whole(is), err)
		}),
		rulesfile.Key("any", func(_, n ast.Node) error {
			tests, err := s.conditions(part, "any", n)
			return add(anyOf(tests), err)
		}),
		rulesfile.Key("all", func(_, n ast.Node) error {
			tests, err := s.conditions(part, "all", n)
			return add(all(tests), err)
		}),
		rulesfile.Key("cidr", func(key, n ast.Node) error { return add(s.cidr(part, key, n)) }),
		rulesfile.Key("list", func(_, n ast.Node) error { return add(s.listed(part, n)) }),
		rulesfile.Key("present", func(_, n ast.Node) error {
			is, err := s.Bool(n, "present")
			return add(present(is), err)
		}),
	)
	switch {
	case err != nil:
		return nil, err
	case len(tests) == 1:
		return tests[0], nil
	case len(tests) == 0:
		return nil, s.Wrong(n, "the condition is empty, it should be such as gold, [gold, silver] or {not: gold}")
	}
	return tests, nil
}

// conditions parses several conditions on one part.
func (s *source) conditions(part, what string, n ast.Node) (tests []test, err error) {
	err = s.List(n, what, func(n ast.Node) error {
		t, err := s.condition(part, n)
		tests = append(tests, t)
		return err
	})
	return tests, err
}

// values parses one or more values of a part.
func (s *source) values(part string, n ast.Node) (test, error) {
	switch part {
	case "route":
		var t routes
		err := s.OneOrMore(n, part, func(n ast.Node) error {
			text, err := s.Text(n, part)
			if err != nil {
				return err
			}
			r, err := parseRoute(text)
			if err != nil {
				return s.Wrong(n, "route %q: %v", text, err)
			}
			t = append(t, r)
			return nil
		})
		return t, err
	case "ip":
		var t networks
		err := s.OneOrMore(n, part, func(n ast.Node) error {
			a, err := s.addr(n, part)
			t = append(t, netip.PrefixFrom(a, a.BitLen()))
			return err
		})
		return t.indexed(), err
	}
	var t words
	err := s.OneOrMore(n, part, func(n ast.Node) (err error) {
		var word string
		switch part {
		case "method":
			word, err = s.Word(n, part, methodNames.MatchString, "capitals, such as POST")
		case "tier":
			word, err = s.Word(n, part, plainName, "1 to 64 of A-Z a-z 0-9 _ . -")
		default:
			word, err = s.scalar(n, part)
		}
		t = append(t, word)
		if err == nil {
			s.misread(n, word)
			if looksLikeNetwork(word) {
				s.doubt(rulesfile.Line(n), "`%s: %s` compares with this very text, not with the addresses of a network. For these write "+
					"{cidr: 10.0.0.0/8}, which ip and attributes have", part, word)
			}
		}
		return err
	})
	return t.indexed(), err
}

// misread warns about a text without quotes that YAML 1.1 reads as true or false, for example of Norway's code.
func (s *source) misread(n ast.Node, text string) {
	if t := n.GetToken(); t.Type == token.StringType && slices.Contains([]string{"yes", "no", "on", "off"}, strings.ToLower(text)) {
		s.doubt(rulesfile.Line(n), `%s is the text "%[1]s" here, and true or false for other readers of YAML. Put it in quotes: "%[1]s"`, text)
	}
}

// scalar returns a string, a number or a boolean as text.
func (s *source) scalar(n ast.Node, what string) (string, error) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		if text := n.GetToken().Value; plainNumbers.MatchString(text) {
			return text, nil
		}
	case *ast.BoolNode:
		if text := n.GetToken().Value; text == "true" || text == "false" {
			return text, nil
		}
	}
	text, err := s.Text(n, what)
	if err == nil && len(text) > maxValue {
		err = s.Wrong(n, "%s is too long, a value has at most %d bytes", what, maxValue)
	}
	return text, err
}

func (s *source) addr(n ast.Node, what string) (netip.Addr, error) {
	text, err := s.Text(n, what)
	if err != nil {
		return netip.Addr{}, err
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, s.Wrong(n, "%s should be an address such as 192.0.2.1 or 2001:db8::1, here is %.60q; networks stand in {cidr: […]}", what, text)
	}
	return a.Unmap().WithZone(""), nil
}

// between parses the bounds of a range, both inclusive.
func (s *source) between(part string, n ast.Node) (test, error) {
	var ends []ast.Node
	if err := s.List(n, "range", func(n ast.Node) error { ends = append(ends, n); return nil }); err != nil {
		return nil, err
	}
	if part == "route" || part == "method" || part == "tier" {
		return nil, s.Wrong(n, "%s is no number, range is for addresses, ids and attributes", part)
	}
	if len(ends) != 2 {
		return nil, s.Wrong(n, "range should have two ends, such as [1, 100]")
	}
	// For an attribute, a string that looks like an address is an address, and a number is a number. Other strings, and quoted numbers,
	// are neither.
	if text, ok := ends[0].(*ast.StringNode); part == "ip" || ok && isAttribute(part) && strings.ContainsAny(text.Value, ".:") {
		from, err := s.addr(ends[0], part)
		if err != nil {
			return nil, err
		}
		to, err := s.addr(ends[1], part)
		switch {
		case err != nil:
			return nil, err
		case from.BitLen() != to.BitLen() || from.Compare(to) > 0:
			return nil, s.Wrong(n, "range should go from a lower address to a higher one of the same family, here is %v to %v", from, to)
		}
		return span{from, to}, nil
	}
	from, err := s.real(ends[0], "an end of range")
	if err != nil {
		return nil, err
	}
	to, err := s.real(ends[1], "an end of range")
	switch {
	case err != nil:
		return nil, err
	case from.compare(to) > 0:
		return nil, s.Wrong(n, "range should go from the lower number to the higher one, here is %v to %v", from.f, to.f)
	}
	return numbers{from, to}, nil
}

// comparand parses the number that a part is compared with.
func (s *source) comparand(part, what string, key, n ast.Node) (number, error) {
	if part == "route" || part == "method" || part == "tier" || part == "ip" {
		return number{}, s.Wrong(key, "%s is for ids and attributes, not for %s", what, part)
	}
	return s.real(n, what)
}

func (s *source) real(n ast.Node, what string) (number, error) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		text := n.GetToken().Value
		if number, ok := parseNumber(text); ok {
			if decimal, octal := rulesfile.Octal(n); octal {
				s.doubt(rulesfile.Line(n), "%s is %s here, and octal for other readers of YAML. Write %[2]s", text, decimal)
			}
			return number, nil
		}
	}
	return number{}, s.Wrong(n, "%s should be a number%s", what, rulesfile.Found(n))
}

func (s *source) cidr(part string, key, n ast.Node) (test, error) {
	if part != "ip" && !isAttribute(part) {
		return nil, s.Wrong(key, "cidr is for ip and attributes, not for %s", part)
	}
	var t networks
	err := s.OneOrMore(n, "cidr", func(n ast.Node) error {
		text, err := s.Text(n, "cidr")
		if err != nil {
			return err
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return s.Wrong(n, "cidr should be a network such as 10.0.0.0/8 or fd00::/8, here is %.60q", text)
		}
		t = append(t, unmapped(p).Masked())
		return nil
	})
	return t.indexed(), err
}

// listed parses the name of a list.
func (s *source) listed(part string, n ast.Node) (test, error) {
	if part == "route" {
		return nil, s.Wrong(n, "routes are patterns, write them into the condition itself")
	}
	return s.listNamed(n, part)
}

// listNamed parses the name of a list that is used for a part of requests, or for "bans".
func (s *source) listNamed(n ast.Node, part string) (*valueList, error) {
	name, err := s.Text(n, "the name of a list")
	if err != nil {
		return nil, err
	}
	l, ok := s.lists[name]
	if !ok {
		return nil, s.Wrong(n, "there is no list %.40q, it should stand under lists, such as lists: {%s: {file: %s.txt}}", name, "office", "office")
	}
	l.used, l.other = true, l.other || part != "ip"
	return l, nil
}

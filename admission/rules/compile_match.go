package rules

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/internal/rulesfile"
)

// parts are the parts of a request that are not attributes.
var parts = []string{"route", "method", "tier", "user", "ip", "device", "session"}

var methodNames = regexp.MustCompile(`^[A-Z]{1,32}$`)

// isAttribute reports whether name can be the name of an attribute: in any spelling, the names of other parts of requests and subjects
// are reserved.
func isAttribute(name string) bool {
	small := strings.ToLower(name)
	return attributeName(name) && !slices.Contains(parts, small) && small != "caller" && small != "network"
}

// match reads a mapping from parts of a request to conditions.
func (c *compiler) match(n *rulesfile.Node) (m match, err error) {
	err = n.Pairs("match", func(at, n *rulesfile.Node) error {
		part := at.Name()
		if !slices.Contains(parts, part) && !isAttribute(part) {
			return at.Wrong("%q is no part of a request, it should be %s, or the name of an attribute (A-Z a-z 0-9 _ . -)", part,
				strings.Join(parts, ", "))
		}
		if slices.ContainsFunc(m, func(c condition) bool { return c.part == part }) {
			return at.Wrong("match has %q twice", part)
		}
		t, err := c.condition(part, n)
		m = append(m, condition{part: part, text: part + ": " + brief(n.Flow()), test: t})
		return err
	})
	if err == nil && len(m) == 0 {
		err = n.Wrong("match is empty, leave it out to match every request")
	}
	return m, err
}

// brief shortens the text of a condition.
func brief(text string) string {
	const most = 100
	if short := []rune(text); len(short) > most {
		return string(short[:most]) + "…"
	}
	return text
}

// condition reads a value, a list of values, or a mapping such as {not: gold}.
func (c *compiler) condition(part string, n *rulesfile.Node) (test, error) {
	if !n.IsMapping() {
		return c.values(part, n)
	}
	var tests all
	add := func(key string, read func(key, n *rulesfile.Node) (test, error)) rulesfile.Field {
		return rulesfile.Key(key, func(key, n *rulesfile.Node) error {
			t, err := read(key, n)
			tests = append(tests, t)
			return err
		})
	}
	err := n.Fields("a condition",
		add("not", func(_, n *rulesfile.Node) (test, error) {
			t, err := c.condition(part, n)
			return not{t}, err
		}),
		add("range", func(_, n *rulesfile.Node) (test, error) { return c.between(part, n) }),
		add("above", func(key, n *rulesfile.Node) (test, error) {
			limit, err := c.comparand(part, key, n)
			return above(limit), err
		}),
		add("below", func(key, n *rulesfile.Node) (test, error) {
			limit, err := c.comparand(part, key, n)
			return below(limit), err
		}),
		add("whole", func(key, n *rulesfile.Node) (test, error) {
			if part != "user" && part != "device" && part != "session" && !isAttribute(part) {
				return nil, key.Wrong("whole is for ids and attributes, not for %s", part)
			}
			is, err := n.Bool("whole")
			return whole(is), err
		}),
		add("any", func(_, n *rulesfile.Node) (test, error) {
			tests, err := c.conditions(part, "any", n)
			return anyOf(tests), err
		}),
		add("all", func(_, n *rulesfile.Node) (test, error) {
			tests, err := c.conditions(part, "all", n)
			return all(tests), err
		}),
		add("cidr", func(key, n *rulesfile.Node) (test, error) { return cidr(part, key, n) }),
		add("list", func(_, n *rulesfile.Node) (test, error) { return c.listed(part, n) }),
		add("present", func(_, n *rulesfile.Node) (test, error) {
			is, err := n.Bool("present")
			return present(is), err
		}),
	)
	switch {
	case err != nil:
		return nil, err
	case len(tests) == 1:
		return tests[0], nil
	case len(tests) == 0:
		return nil, n.Wrong("the condition is empty, it should be such as gold, [gold, silver] or {not: gold}")
	}
	return tests, nil
}

// conditions reads several conditions on one part.
func (c *compiler) conditions(part, what string, n *rulesfile.Node) (tests []test, err error) {
	err = n.List(what, func(n *rulesfile.Node) error {
		t, err := c.condition(part, n)
		tests = append(tests, t)
		return err
	})
	return tests, err
}

// values reads one or more values of a part.
func (c *compiler) values(part string, n *rulesfile.Node) (test, error) {
	switch part {
	case "route":
		var t routes
		err := n.OneOrMore(part, func(n *rulesfile.Node) error {
			text, err := n.Text(part)
			if err != nil {
				return err
			}
			r, err := parseRoute(text)
			if err != nil {
				return n.Wrong("route %q: %v", text, err)
			}
			t = append(t, r)
			return nil
		})
		return t, err
	case "ip":
		var t networks
		err := n.OneOrMore(part, func(n *rulesfile.Node) error {
			a, err := addrOf(n, part)
			t = append(t, netip.PrefixFrom(a, a.BitLen()))
			return err
		})
		return t.indexed(), err
	}
	var t words
	err := n.OneOrMore(part, func(n *rulesfile.Node) (err error) {
		var word string
		switch part {
		case "method":
			word, err = n.Word(part, methodNames.MatchString, "capitals, such as POST")
		case "tier":
			word, err = n.Word(part, plainName, names.Length+" of A-Z a-z 0-9 _ . -")
		default:
			word, err = valueOf(n, part)
		}
		t = append(t, word)
		if err == nil {
			c.misread(n, word)
			if looksLikeNetwork(word) {
				c.doubt(n.Line(), "`%s: %s` compares with this very text, not with the addresses of a network. For these write "+
					"{cidr: 10.0.0.0/8}, which ip and attributes have", part, word)
			}
		}
		return err
	})
	return t.indexed(), err
}

// valueOf reads a text, a number or a boolean as text.
func valueOf(n *rulesfile.Node, what string) (string, error) {
	text, err := n.Scalar(what)
	switch {
	case err != nil:
		return "", err
	case !utf8.ValidString(text):
		return "", n.Wrong("%.40q is no value, it should be at most %d bytes of UTF-8", text, maxValue)
	case len(text) > maxValue:
		return "", n.Wrong("%s is too long, a value has at most %d bytes", what, maxValue)
	}
	return text, nil
}

// misread warns about a text without quotes that YAML 1.1 reads as true or false, for example Norway's code.
func (c *compiler) misread(n *rulesfile.Node, text string) {
	if n.Misread() {
		c.doubt(n.Line(), `%s is the text "%[1]s" here, and true or false for other readers of YAML. Put it in quotes: "%[1]s"`, text)
	}
}

func addrOf(n *rulesfile.Node, what string) (netip.Addr, error) {
	text, err := n.Text(what)
	if err != nil {
		return netip.Addr{}, err
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, n.Wrong("%s should be an address such as 192.0.2.1 or 2001:db8::1, here is %.60q; networks stand in {cidr: […]}", what, text)
	}
	return a.Unmap().WithZone(""), nil
}

// between reads the bounds of a range, both inclusive.
func (c *compiler) between(part string, n *rulesfile.Node) (test, error) {
	var ends []*rulesfile.Node
	if err := n.List("range", func(n *rulesfile.Node) error { ends = append(ends, n); return nil }); err != nil {
		return nil, err
	}
	if part == "route" || part == "method" || part == "tier" {
		return nil, n.Wrong("%s is no number, range is for addresses, ids and attributes", part)
	}
	if len(ends) != 2 {
		return nil, n.Wrong("range should have two ends, such as [1, 100]")
	}
	// For an attribute, a string that looks like an address is an address, and a number is a number. Other strings, and quoted numbers,
	// are neither.
	if part == "ip" || ends[0].IsText() && isAttribute(part) && strings.ContainsAny(ends[0].Name(), ".:") {
		from, err := addrOf(ends[0], part)
		if err != nil {
			return nil, err
		}
		to, err := addrOf(ends[1], part)
		switch {
		case err != nil:
			return nil, err
		case from.BitLen() != to.BitLen() || from.Compare(to) > 0:
			return nil, n.Wrong("range should go from a lower address to a higher one of the same family, here is %v to %v", from, to)
		}
		return span{from, to}, nil
	}
	from, err := c.real(ends[0], "an end of range")
	if err != nil {
		return nil, err
	}
	to, err := c.real(ends[1], "an end of range")
	switch {
	case err != nil:
		return nil, err
	case from.compare(to) > 0:
		return nil, n.Wrong("range should go from the lower number to the higher one, here is %v to %v", from.f, to.f)
	}
	return numbers{from, to}, nil
}

// comparand reads the number that a part is compared with.
func (c *compiler) comparand(part string, key, n *rulesfile.Node) (number, error) {
	if part == "route" || part == "method" || part == "tier" || part == "ip" {
		return number{}, key.Wrong("%s is for ids and attributes, not for %s", key.Name(), part)
	}
	return c.real(n, key.Name())
}

func (c *compiler) real(n *rulesfile.Node, what string) (number, error) {
	if text, ok := n.Decimal(); ok {
		if number, ok := parseNumber(text); ok {
			if decimal, octal := n.Octal(); octal {
				c.doubt(n.Line(), "%s is %s here, and octal for other readers of YAML. Write %[2]s", text, decimal)
			}
			return number, nil
		}
	}
	return number{}, n.Wrong("%s should be a number%s", what, n.Found())
}

func cidr(part string, key, n *rulesfile.Node) (test, error) {
	if part != "ip" && !isAttribute(part) {
		return nil, key.Wrong("cidr is for ip and attributes, not for %s", part)
	}
	var t networks
	err := n.OneOrMore("cidr", func(n *rulesfile.Node) error {
		text, err := n.Text("cidr")
		if err != nil {
			return err
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return n.Wrong("cidr should be a network such as 10.0.0.0/8 or fd00::/8, here is %.60q", text)
		}
		t = append(t, unmapped(p).Masked())
		return nil
	})
	return t.indexed(), err
}

// listed reads the name of a list.
func (c *compiler) listed(part string, n *rulesfile.Node) (test, error) {
	if part == "route" {
		return nil, n.Wrong("routes are patterns, write them into the condition itself")
	}
	return c.listNamed(n, part)
}

// listNamed reads the name of a list that is used for a part of requests, or for "bans".
func (c *compiler) listNamed(n *rulesfile.Node, part string) (*valueList, error) {
	name, err := n.Text("the name of a list")
	if err != nil {
		return nil, err
	}
	l, ok := c.lists[name]
	if !ok {
		return nil, n.Wrong("there is no list %.40q, it should stand under lists, such as lists: {%s: {file: %s.txt}}", name, "office", "office")
	}
	l.used, l.other = true, l.other || part != "ip"
	return l, nil
}

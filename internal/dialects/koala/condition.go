package koala

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/internal/rulesfile"
)

var (
	parameterNames = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*`)
	numberRanges   = regexp.MustCompile(`^(-?[0-9]{1,19})[ \t]*-[ \t]*(-?[0-9]{1,19})$`)
	spans          = regexp.MustCompile(`^[0-9. \t*-]*[0-9*][0-9. \t*-]*$`)
	networkLike    = regexp.MustCompile(`^[0-9]+(\.[0-9]+)+/[0-9.]*$|^[0-9A-Fa-f:.]*::[0-9A-Fa-f:.]*(/[0-9]*)?$`)
	conditions     = regexp.MustCompile(`[ \t][A-Za-z0-9_.-]*[ \t]*[=@<>]`)
	plainNumbers   = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})$`)
	wildcards      = regexp.MustCompile(`^([0-9]{1,3}|\*)(\.([0-9]{1,3}|\*)){3}$`)
)

// A condition is a condition on one parameter. Its test is a condition of a rules file.
type condition struct {
	parameter string
	test      *rulesfile.Node
	numbers   bool // it compares with numbers only
	joint     bool // all values share one count
	at        part
}

// operators in the order of matching.
var operators = []string{"!=", "!@", "!>", "!<", "=", "@", ">", "<"}

// parseCondition parses a condition such as act=ask.
func (f *file) parseCondition(p part) (c condition, err error) {
	c.at = p
	c.parameter = parameterNames.FindString(p.text)
	rest := p.from(len(c.parameter)).trimmed()
	i := slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(rest.text, op) })
	switch {
	case c.parameter == "" && p.text == "":
		return c, p.wrong("a condition is required, such as act=ask or uid=+")
	case c.parameter == "":
		return c, p.wrong("the name of a parameter must consist of A-Z a-z 0-9 _ . - and must not begin with a digit")
	case c.parameter[0] == '_':
		return c, p.wrong("%s can never match: parameters that begin with _ are reserved for the service", c.parameter)
	case len(c.parameter) > 50:
		return c, p.wrong("the name of a parameter must have at most 50 characters")
	case i < 0:
		return c, rest.wrong("%s needs a comparison, such as %[1]s=5, %[1]s!=5, %[1]s=+, %[1]s>5, %[1]s<5, %[1]s @ dict or %[1]s !@ dict",
			c.parameter)
	}
	op := operators[i]
	value := rest.from(len(op)).trimmed()
	if value.text == "" {
		return c, rest.wrong("%s needs a value to compare with", c.parameter)
	}
	switch op[len(op)-1] {
	case '@':
		c.test, err = f.inDict(value)
	case '>', '<':
		c.numbers = true
		c.test, err = compared(op, value)
	default:
		c.test, err = c.equal(op, value)
	}
	if err == nil && op[0] == '!' {
		c.test = c.opposite()
	}
	return c, err
}

// tree builds the part of the rules file that p becomes. Errors in it are those of its line.
func (p part) tree() rulesfile.At { return rulesfile.At{Place: p.line.whole()} }

// Wrong and Line implement rulesfile.Place.
func (p part) Wrong(problem string) error { return p.wrong("%s", problem) }

func (p part) Line() int { return p.line.number }

// value returns a value that a parameter is compared with.
func (p part) value(text string) *rulesfile.Node {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && plainNumbers.MatchString(text) {
		return p.tree().Int(n)
	}
	return p.tree().Text(text)
}

// both returns the test that holds if the one under key does and other, which is whole or present, does too.
func (p part) both(key string, test *rulesfile.Node, other string) *rulesfile.Node {
	at := p.tree()
	return at.Mapping(at.Pair(key, test), at.Pair(other, at.Bool(true)))
}

// opposite returns the negated test: for present values that do not match, and for integers only if the condition compares with numbers.
func (c *condition) opposite() *rulesfile.Node {
	if c.numbers {
		return c.at.both("not", c.test, "whole")
	}
	return c.at.both("not", c.test, "present")
}

func (f *file) inDict(value part) (*rulesfile.Node, error) {
	if !slices.ContainsFunc(f.dicts, func(d dict) bool { return d.name == value.text }) {
		return nil, value.wrong("dict %q must be declared under [dicts], such as %[1]s : %[1]s.dat", value.text)
	}
	return value.under("list", value.tree().Text(value.text)), nil
}

// under returns a mapping with one key.
func (p part) under(key string, value *rulesfile.Node) *rulesfile.Node {
	return p.tree().Mapping(p.tree().Pair(key, value))
}

func compared(op string, value part) (*rulesfile.Node, error) {
	n, err := strconv.ParseInt(value.text, 10, 64)
	if err != nil {
		return nil, value.wrong("%[2]s needs a whole number, got %[1]q", value.text, op)
	}
	key := "below"
	if strings.HasSuffix(op, ">") {
		key = "above"
	}
	return value.both(key, value.tree().Int(n), "whole"), nil
}

// equal parses the value after = or !=: +, or alternatives of values, ranges and networks.
func (c *condition) equal(op string, value part) (*rulesfile.Node, error) {
	if rest, ok := strings.CutSuffix(value.text, "{~}"); ok {
		c.joint = true
		value = value.to(len(rest)).trimmed()
	}
	if value.text == "+" {
		if op == "!=" {
			return nil, value.wrong("%s!=+ can never match: a missing parameter matches nothing", c.parameter)
		}
		return value.under("present", value.tree().Bool(true)), nil
	}
	items, err := value.split(',')
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(value.text, ",") {
		items = append(items, value.from(len(value.text)))
	}
	var words, networks, others []*rulesfile.Node
	ranges := 0 // numeric ranges
	for _, item := range items {
		text, quoted, err := item.unquoted()
		switch {
		case err != nil:
			return nil, err
		case text == "":
			return nil, item.wrong("a value is required: an empty parameter never matches")
		case quoted && strings.Trim(text, blanks+"\n") != text:
			return nil, item.wrong("%q can never match: spaces around the value of a parameter are ignored", text)
		case quoted && c.parameter == "ip":
			return nil, item.wrong("ip must be compared with an address, got the quoted word %q", text)
		case quoted:
			words = append(words, item.value(text))
		case strings.ContainsRune("=<>@!", rune(text[0])):
			return nil, item.wrong("%q begins with a second comparison sign; quote the word if the sign is part of it", text)
		case conditions.MatchString(text):
			return nil, item.wrong("%q looks like two conditions without a ; between them; quote it if it is one word", text)
		case strings.Contains(text, "{~}") || strings.Contains(text, "{*}"):
			return nil, item.wrong("{~} must follow the last value, as in act=ask,answer{~}; quote %q if it is a word", text)
		case text == "+":
			return nil, item.wrong(`"+" means any value and stands alone; the sign itself should be in quotes`)
		default:
			s, err := item.span()
			switch {
			case err != nil:
				return nil, err
			case s == (span{}) && meant(text):
				return nil, item.wrong("%q must be a range or a network; quote it if it is a word", text)
			case slices.Contains(texts, c.parameter) && (s.network != "" || s.addresses != nil):
				return nil, item.wrong("%s is compared with text, not with addresses; quote %q if it is a word", c.parameter, text)
			case s.network != "":
				networks = append(networks, item.tree().Text(s.network))
			case s.addresses != nil:
				others = append(others, item.under("range", s.addresses))
			case s.numbers != nil:
				ranges++
				others = append(others, item.both("range", s.numbers, "whole"))
			case c.parameter == "ip":
				return nil, item.wrong("ip must be compared with an address, got %q", text)
			default:
				words = append(words, item.value(text))
			}
		}
	}
	c.numbers = ranges == len(items)
	if len(networks) > 0 {
		others = append(others, value.under("cidr", value.tree().List(networks...)))
	}
	switch {
	case len(others) == 0 && len(words) == 1:
		return words[0], nil
	case len(others) == 0:
		return value.tree().List(words...), nil
	case len(others) == 1 && len(words) == 0:
		return others[0], nil
	}
	return value.under("any", value.tree().List(append(others, words...)...)), nil
}

// A span is an item that is more than a word: one of its fields is set.
type span struct {
	network   string          // where an address is a network of one
	addresses *rulesfile.Node // the ends of a range
	numbers   *rulesfile.Node
}

// span returns what an item is besides a word; the zero value if it is nothing else.
func (p part) span() (span, error) {
	if m := numberRanges.FindStringSubmatch(p.text); m != nil {
		from, err1 := strconv.ParseInt(m[1], 10, 64)
		to, err2 := strconv.ParseInt(m[2], 10, 64)
		if err1 != nil || err2 != nil || from > to {
			return span{}, p.wrong("a range must go from the lower whole number to the higher one; quote it if it is a word")
		}
		return span{numbers: p.tree().List(p.tree().Int(from), p.tree().Int(to))}, nil
	}
	if a, b, ok := p.cut("-"); ok {
		from, err1 := netip.ParseAddr(a.text)
		to, err2 := netip.ParseAddr(b.text)
		switch {
		case err1 != nil && err2 != nil:
		case err1 != nil || err2 != nil || from.BitLen() != to.BitLen() || from.Compare(to) > 0:
			return span{}, p.wrong("a range must go from a lower address to a higher one of the same family; quote it if it is a word")
		default:
			return span{addresses: p.tree().Texts(from.String(), to.String())}, nil
		}
	}
	if wildcards.MatchString(p.text) {
		network, ok := wildcard(p.text)
		if !ok {
			return span{}, p.wrong("%q must be an address such as 10.0.24.7, or one with wildcards at its end, such as 10.0.24.* or 10.0.*.*",
				p.text)
		}
		return span{network: network}, nil
	}
	if n, err := netip.ParsePrefix(p.text); err == nil {
		return span{network: n.Masked().String()}, nil
	}
	if a, err := netip.ParseAddr(p.text); err == nil {
		return span{network: netip.PrefixFrom(a.WithZone(""), a.BitLen()).String()}, nil
	}
	if a, _, ok := strings.Cut(p.text, "/"); ok {
		if _, err := netip.ParseAddr(a); err == nil {
			return span{}, p.wrong("%q must be a network, such as 10.0.0.0/8 or fd00::/8", p.text)
		}
	}
	return span{}, nil
}

// meant reports whether a word was probably meant as a range or a network; as a word it would never match.
func meant(text string) bool {
	return spans.MatchString(text) && (strings.ContainsAny(text[1:], "-*") || text[0] == '*') || networkLike.MatchString(text)
}

// wildcard returns the network of an address whose last numbers are wildcards; ok is false for other wildcards and invalid addresses.
func wildcard(text string) (network string, ok bool) {
	fixed := strings.TrimRight(text, ".*")
	open := strings.Count(text, "*")
	a, err := netip.ParseAddr(strings.TrimPrefix(fixed+strings.Repeat(".0", open), "."))
	if err != nil || strings.Contains(fixed, "*") {
		return "", false
	}
	return netip.PrefixFrom(a, 32-8*open).String(), true
}

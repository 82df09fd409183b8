package rulesfile

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An At builds nodes that were written at one place.
type At struct{ Place }

// Text returns a text.
func (at At) Text(value string) *Node { return &Node{Place: at.Place, kind: text, text: value} }

// Texts returns a list of texts.
func (at At) Texts(values ...string) *Node {
	items := make([]*Node, len(values))
	for i, value := range values {
		items[i] = at.Text(value)
	}
	return at.List(items...)
}

// Int returns a whole number.
func (at At) Int(value int64) *Node {
	return &Node{Place: at.Place, kind: integer, text: strconv.FormatInt(value, 10), number: value}
}

// Float returns a number, without an exponent, which rules files do not have.
func (at At) Float(value float64) *Node {
	return &Node{Place: at.Place, kind: decimal, text: strconv.FormatFloat(value, 'f', -1, 64)}
}

// Bool returns true or false.
func (at At) Bool(value bool) *Node {
	return &Node{Place: at.Place, kind: boolean, text: strconv.FormatBool(value), is: value}
}

// Nothing returns a value that is missing.
func (at At) Nothing() *Node { return &Node{Place: at.Place} }

// List returns a list.
func (at At) List(items ...*Node) *Node { return &Node{Place: at.Place, kind: list, items: items} }

// Mapping returns a mapping.
func (at At) Mapping(pairs ...Pair) *Node { return &Node{Place: at.Place, kind: mapping, pairs: pairs} }

// Pair returns a key with its value.
func (at At) Pair(key string, value *Node) Pair { return Pair{at.Text(key), value} }

// Flow encodes n on one line.
func (n *Node) Flow() string {
	switch n.kind {
	case null:
		return "null"
	case text:
		if n.plain {
			return n.text
		}
		return quoted(n.text)
	case list:
		items := make([]string, len(n.items))
		for i, item := range n.items {
			items[i] = item.Flow()
		}
		return "[" + strings.Join(items, ", ") + "]"
	case mapping:
		pairs := make([]string, len(n.pairs))
		for i, p := range n.pairs {
			pairs[i] = p.Key.Flow() + ": " + p.Value.Flow()
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	}
	return n.text
}

// Block encodes each pair of a mapping on a line of its own, as a member of a list indented by indent.
func (n *Node) Block(indent string) string {
	var b strings.Builder
	for i, p := range n.pairs {
		begin := "  "
		if i == 0 {
			begin = "- "
		}
		b.WriteString(indent + begin + p.Key.Flow() + ": " + p.Value.Flow() + "\n")
	}
	return b.String()
}

// plainText matches words and durations.
var plainText = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_./-]*|([0-9.]+(h|m|s|ms))+)$`)

// notTexts are the words that YAML, or an older version of it, does not read as texts.
var notTexts = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// quoted encodes a text so that YAML reads the same text, as a JSON string unless it is a plain word.
func quoted(value string) string {
	if plainText.MatchString(value) && !slices.Contains(notTexts, strings.ToLower(value)) {
		return value
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err) // cannot fail for a string
	}
	return strings.TrimSuffix(b.String(), "\n")
}

package rulesfile

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Text reads a text that is not empty.
func (n *Node) Text(what string) (string, error) {
	switch n.kind {
	case text:
		if n.text != "" {
			return n.text, nil
		}
	case integer, decimal, boolean:
		return "", n.Wrong(`%s should be a text: put it in quotes, "%s"`, what, n.text)
	}
	return "", n.Wrong("%s should be a text%s", what, n.Found())
}

// plainNumbers matches numbers in canonical form, so that comparing them as text is exact.
var plainNumbers = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// Scalar reads a text that is not empty, a number or a boolean as text.
func (n *Node) Scalar(what string) (string, error) {
	if (n.kind == integer || n.kind == decimal) && plainNumbers.MatchString(n.text) || n.kind == boolean &&
		(n.text == "true" || n.text == "false") {
		return n.text, nil
	}
	return n.Text(what)
}

// Decimal reads a number as it is written; ok is false for all others.
func (n *Node) Decimal() (written string, ok bool) {
	return n.text, n.kind == integer || n.kind == decimal
}

// Misread reports whether n is a text without quotes that YAML 1.1 reads as true or false, for example Norway's code.
func (n *Node) Misread() bool {
	return n.plain && slices.Contains([]string{"yes", "no", "on", "off"}, strings.ToLower(n.text))
}

// Number reads a whole number from low to high.
func (n *Node) Number(what string, low, high int) (int, error) {
	if n.kind == integer {
		value := int64(math.MaxInt64)
		switch v := n.number.(type) {
		case int64:
			value = v
		case uint64:
			if v < math.MaxInt64 {
				value = int64(v)
			}
		}
		if _, octal := n.Octal(); int64(low) <= value && value <= int64(high) && !octal {
			return int(value), nil
		}
	}
	if low == high {
		return 0, n.Wrong("%s should be %d%s", what, low, n.Found())
	}
	return 0, n.Wrong("%s should be a whole number from %d to %d%s", what, low, high, n.Found())
}

// Octal reports whether n is a number such as 010, which YAML 1.1 reads as octal and YAML 1.2 as decimal; decimal is the number that it
// looks like. A number such as 07 is the same in both.
func (n *Node) Octal() (decimal string, octal bool) {
	if n.kind != integer {
		return "", false
	}
	text := strings.NewReplacer("_", "", "+", "").Replace(n.text)
	digits := strings.TrimPrefix(text, "-")
	decimal = text[:len(text)-len(digits)] + strings.TrimLeft(digits, "0")
	octal = len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "01234567") == ""
	return decimal, octal && strings.Trim(decimal, "-") != "" && decimal != fmt.Sprint(n.number)
}

// Bool reads true or false.
func (n *Node) Bool(what string) (bool, error) {
	if n.kind == boolean {
		return n.is, nil
	}
	return false, n.Wrong("%s should be true or false%s", what, n.Found())
}

// Word reads a text of a given form.
func (n *Node) Word(what string, valid func(string) bool, right string) (string, error) {
	text, err := n.Text(what)
	if err != nil {
		return "", err
	}
	if !valid(text) {
		return "", n.Wrong("%s should be %s, here is %.40q", what, right, text)
	}
	return text, nil
}

// either formats words as in "open, closed or local".
func either[T ~string](words []T) string {
	var b strings.Builder
	for i, word := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(word))
	}
	return b.String()
}

// OneOf reads one of a few words.
func OneOf[T ~string](n *Node, what string, words ...T) (T, error) {
	if n.kind == text && slices.Contains(words, T(n.text)) {
		return T(n.text), nil
	}
	return "", n.Wrong("%s should be %s%s", what, either(words), n.Found())
}

// The bounds of a Duration.
const (
	minDuration = time.Millisecond
	maxDuration = 366 * 24 * time.Hour
)

// Duration reads a duration.
func (n *Node) Duration(what string) (time.Duration, error) {
	if n.kind == text {
		d, err := time.ParseDuration(n.text)
		if err == nil && minDuration <= d && d <= maxDuration && d%time.Millisecond == 0 {
			return d, nil
		}
	}
	right := "such as 10s, 1m or 24h"
	if what == "window" {
		right += ", or minute, hour, day or month"
	}
	return 0, n.Wrong("%s should be a duration of whole milliseconds from 1ms to %sh, %s%s", what, strconv.Itoa(int(maxDuration/time.Hour)),
		right, n.Found())
}

// Found describes n for an error about what was expected.
func (n *Node) Found() string {
	switch n.kind {
	case null:
		return ", here is nothing"
	case reference:
		return "; anchors, aliases and tags are not read, write the value itself"
	case mapping:
		return ", here is a mapping"
	case list:
		return ", here is a list"
	}
	if decimal, octal := n.Octal(); octal {
		return fmt.Sprintf(", here is %.40q, which some readers of YAML take for octal: write %.40s", n.text, decimal)
	}
	return fmt.Sprintf(", here is %.40q", n.text)
}

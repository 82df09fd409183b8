package rulesfile

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Text parses a text that is not empty; what is its name in errors, as in all other methods.
func (f *File) Text(n ast.Node, what string) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		if n.Value != "" {
			return n.Value, nil
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return "", f.Wrong(n, `%s should be a text: put it in quotes, "%s"`, what, n.GetToken().Value)
	}
	return "", f.Wrong(n, "%s should be a text%s", what, Found(n))
}

// Number parses a whole number from low to high.
func (f *File) Number(n ast.Node, what string, low, high int) (int, error) {
	if n, ok := n.(*ast.IntegerNode); ok {
		value := int64(math.MaxInt64)
		switch v := n.Value.(type) {
		case int64:
			value = v
		case uint64:
			if v < math.MaxInt64 {
				value = int64(v)
			}
		}
		if _, octal := Octal(n); int64(low) <= value && value <= int64(high) && !octal {
			return int(value), nil
		}
	}
	if low == high {
		return 0, f.Wrong(n, "%s should be %d%s", what, low, Found(n))
	}
	return 0, f.Wrong(n, "%s should be a whole number from %d to %d%s", what, low, high, Found(n))
}

// Octal reports whether n is a number such as 010, which YAML 1.1 reads as octal and YAML 1.2 as decimal; decimal is the number that it
// looks like. A number such as 07 is the same in both.
func Octal(n ast.Node) (decimal string, octal bool) {
	number, ok := n.(*ast.IntegerNode)
	if !ok {
		return "", false
	}
	text := strings.NewReplacer("_", "", "+", "").Replace(n.GetToken().Value)
	digits := strings.TrimPrefix(text, "-")
	decimal = text[:len(text)-len(digits)] + strings.TrimLeft(digits, "0")
	octal = len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "01234567") == ""
	return decimal, octal && strings.Trim(decimal, "-") != "" && decimal != fmt.Sprint(number.Value)
}

// Bool parses true or false.
func (f *File) Bool(n ast.Node, what string) (bool, error) {
	if n, ok := n.(*ast.BoolNode); ok {
		return n.Value, nil
	}
	return false, f.Wrong(n, "%s should be true or false%s", what, Found(n))
}

// Word parses a string of a given form.
func (f *File) Word(n ast.Node, what string, valid func(string) bool, right string) (string, error) {
	text, err := f.Text(n, what)
	if err != nil {
		return "", err
	}
	if !valid(text) {
		return "", f.Wrong(n, "%s should be %s, here is %.40q", what, right, text)
	}
	return text, nil
}

// either formats words as in "open, closed or local".
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// OneOf parses one of a few words.
func (f *File) OneOf(n ast.Node, what string, words ...string) (string, error) {
	if n, ok := n.(*ast.StringNode); ok && slices.Contains(words, n.Value) {
		return n.Value, nil
	}
	return "", f.Wrong(n, "%s should be %s%s", what, either(words), Found(n))
}

// The bounds of a Duration.
const (
	minDuration = time.Millisecond
	maxDuration = 366 * 24 * time.Hour
)

// Duration parses a duration.
func (f *File) Duration(n ast.Node, what string) (time.Duration, error) {
	if n, ok := n.(*ast.StringNode); ok {
		d, err := time.ParseDuration(n.Value)
		if err == nil && minDuration <= d && d <= maxDuration && d%time.Millisecond == 0 {
			return d, nil
		}
	}
	right := "such as 10s, 1m or 24h"
	if what == "window" {
		right += ", or minute, hour, day or month"
	}
	return 0, f.Wrong(n, "%s should be a duration of whole milliseconds from 1ms to %sh, %s%s", what, strconv.Itoa(int(maxDuration/time.Hour)), right, Found(n))
}

// Found describes n for an error about what was expected.
func Found(n ast.Node) string {
	switch n := n.(type) {
	case *ast.NullNode:
		return ", here is nothing"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		return "; anchors, aliases and tags are not read, write the value itself"
	case *ast.MappingNode, *ast.MappingValueNode:
		return ", here is a mapping"
	case *ast.SequenceNode:
		return ", here is a list"
	case ast.ScalarNode:
		if decimal, octal := Octal(n); octal {
			return fmt.Sprintf(", here is %.40q, which some readers of YAML take for octal: write %.40s", n.GetToken().Value, decimal)
		}
		if t := n.GetToken(); t != nil {
			return fmt.Sprintf(", here is %.40q", t.Value)
		}
	}
	return ""
}

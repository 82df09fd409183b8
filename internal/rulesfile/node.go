package rulesfile

import (
	"fmt"
	"strings"
)

// A Node is a value of a rules file, with the place where it was written. It is immutable once it is read, so it is then safe for
// concurrent use. All methods that read it return an *Error that states what would be right; what is the name of the value in it.
type Node struct {
	Place
	kind   kind
	text   string // of a text its value, of other scalars how they are written
	plain  bool   // a text without quotes
	is     bool   // of a boolean
	number any    // of an integer: an int64 or a uint64, or something else if it is larger
	items  []*Node
	pairs  []Pair
}

// A Pair is a key of a mapping with its value.
type Pair struct{ Key, Value *Node }

type kind uint8

const (
	null kind = iota
	text
	integer
	decimal
	boolean
	list
	mapping
	reference // an anchor, an alias, a tag or a merge key
	other     // any other scalar
)

// Wrong returns an error about n.
func (n *Node) Wrong(format string, args ...any) error {
	return n.Place.Wrong(fmt.Sprintf(format, args...))
}

// IsMapping reports whether n is a mapping.
func (n *Node) IsMapping() bool { return n.kind == mapping }

// IsText reports whether n is a text.
func (n *Node) IsText() bool { return n.kind == text }

// IsBool reports whether n is true or false.
func (n *Node) IsBool() bool { return n.kind == boolean }

// Empty reports whether n is a list or a mapping without values, or neither.
func (n *Node) Empty() bool { return len(n.items)+len(n.pairs) == 0 }

// EmptyList reports whether n is a list without values.
func (n *Node) EmptyList() bool { return n.kind == list && len(n.items) == 0 }

// Keys returns the keys of a mapping in their order.
func (n *Node) Keys() []*Node {
	keys := make([]*Node, len(n.pairs))
	for i, p := range n.pairs {
		keys[i] = p.Key
	}
	return keys
}

// Key returns the key with this name of the mapping n, or nil.
func (n *Node) Key(name string) *Node {
	for _, p := range n.pairs {
		if p.Key.text == name {
			return p.Key
		}
	}
	return nil
}

// Name returns the text of a key.
func (n *Node) Name() string { return n.text }

// A Field is a valid key of a mapping, with the function that reads its value.
type Field struct {
	key  string
	read func(key, value *Node) error
}

// Key returns the Field of a key.
func Key(key string, read func(key, value *Node) error) Field { return Field{key, read} }

// Into returns the Field of a key whose value read returns; it is stored in to.
func Into[T any](key string, to *T, read func(n *Node) (T, error)) Field {
	return Key(key, func(_, n *Node) (err error) {
		*to, err = read(n)
		return err
	})
}

// Word returns the Field of a key whose value is one of a few words.
func Word[T ~string](key string, to *T, words ...T) Field {
	return Into(key, to, func(n *Node) (T, error) { return OneOf(n, key, words...) })
}

// Number returns the Field of a key whose value is a whole number from low to high.
func Number(key string, to *int, low, high int) Field {
	return Into(key, to, func(n *Node) (int, error) { return n.Number(key, low, high) })
}

// Bool returns the Field of a key whose value is true or false.
func Bool(key string, to *bool) Field {
	return Into(key, to, func(n *Node) (bool, error) { return n.Bool(key) })
}

// Others returns the Fields of keys that another package reads.
func Others(keys ...string) []Field {
	all := make([]Field, len(keys))
	for i, key := range keys {
		all[i] = Key(key, func(_, _ *Node) error { return nil })
	}
	return all
}

// Fields reads the mapping n key by key. Unknown and repeated keys are errors.
func (n *Node) Fields(what string, fields ...Field) error {
	seen := make(map[string]bool, len(fields))
	return n.Pairs(what, func(at, value *Node) error {
		key := at.text
		for _, known := range fields {
			if known.key != key {
				continue
			}
			if seen[key] {
				return at.Wrong("%s has %q twice", what, key)
			}
			seen[key] = true
			return known.read(at, value)
		}
		keys := make([]string, len(fields))
		for i, known := range fields {
			keys[i] = known.key
		}
		return at.Wrong("unknown key %q: %s has %s", key, what, strings.Join(keys, ", "))
	})
}

// Pairs calls read for each key and value of the mapping n.
func (n *Node) Pairs(what string, read func(key, value *Node) error) error {
	if n.kind != mapping {
		return n.Wrong("%s should be a mapping, such as {key: value}%s", what, n.Found())
	}
	for _, p := range n.pairs {
		if p.Key.kind != text {
			return p.Key.Wrong("a key of %s should be a plain word", what)
		}
		if err := read(p.Key, p.Value); err != nil {
			return err
		}
	}
	return nil
}

// List calls read for each value of the list n.
func (n *Node) List(what string, read func(*Node) error) error {
	if n.kind != list {
		return n.Wrong("%s should be a list%s", what, n.Found())
	}
	if len(n.items) == 0 {
		return n.Wrong("%s is empty", what)
	}
	for _, v := range n.items {
		if err := read(v); err != nil {
			return err
		}
	}
	return nil
}

// OneOrMore calls read for n, or for each of its values if it is a list.
func (n *Node) OneOrMore(what string, read func(*Node) error) error {
	if n.kind == list {
		return n.List(what, read)
	}
	return read(n)
}

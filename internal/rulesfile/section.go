package rulesfile

import "sync"

// A Section is a section of the file that the package of T reads. A program has one for each key. Make it with NewSection; it is immutable.
type Section[T any] struct {
	key  string
	read func(*Node) (T, error)
}

// NewSection returns the section under a key of the file. read must not keep state: it may be called several times.
func NewSection[T any](key string, read func(*Node) (T, error)) *Section[T] {
	return &Section[T]{key, read}
}

// In returns what the section contains; the zero value if the file does not have it. Callers share the value and must not change it. The
// error wraps an *Error; there is none if the section was checked when the file was parsed.
func (s *Section[T]) In(all *Sections) (value T, err error) {
	if all == nil {
		return value, nil
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	n := all.nodes[s.key]
	if kept, ok := all.values[s.key].(T); ok || n == nil {
		return kept, nil
	}
	if value, err = s.read(n); err == nil {
		all.values[s.key] = value
		delete(all.nodes, s.key)
	}
	return value, err
}

// check implements Checker.
func (s *Section[T]) check(key string, all *Sections) error {
	if s.key != key {
		return nil
	}
	_, err := s.In(all)
	return err
}

// A Checker is a Section of any type.
type Checker interface {
	check(key string, all *Sections) error
}

// Sections are the sections of one file for other packages than rules, each read once. A nil *Sections has none. It is safe for
// concurrent use.
type Sections struct {
	mu     sync.Mutex
	nodes  map[string]*Node // guarded by mu: not read yet
	values map[string]any   // guarded by mu
}

// NewSections returns the sections of a file that has none yet.
func NewSections() *Sections {
	return &Sections{nodes: map[string]*Node{}, values: map[string]any{}}
}

// Add adds the section with this key, and reads it if it is one of checked.
func (all *Sections) Add(key string, n *Node, checked ...Checker) error {
	all.mu.Lock()
	all.nodes[key] = n
	all.mu.Unlock()
	for _, s := range checked {
		if err := s.check(key, all); err != nil {
			return err
		}
	}
	return nil
}

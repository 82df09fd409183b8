package draw

import (
	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
)

// Tree computes the root of leaves that are added in order. Make it with NewTree; it is for one goroutine.
type Tree struct {
	leaves *compact.Range
	last   []byte
}

// NewTree returns a tree without leaves.
func NewTree() *Tree {
	factory := &compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	return &Tree{leaves: factory.NewEmptyRange(0)}
}

// Add adds a leaf.
func (t *Tree) Add(leaf []byte) error {
	t.last = leaf
	return t.leaves.Append(leaf, nil)
}

// Size returns how many leaves were added.
func (t *Tree) Size() int64 { return int64(t.leaves.End()) }

// Last returns the leaf that was added last; nil: none.
func (t *Tree) Last() []byte { return t.last }

// Root returns the root of the leaves so far.
func (t *Tree) Root() ([]byte, error) {
	if t.leaves.End() == 0 {
		return rfc6962.DefaultHasher.EmptyRoot(), nil
	}
	return t.leaves.GetRootHash(nil)
}

package memory

import (
	"iter"
	"maps"
	"slices"
)

// A table is rows by key, listed in the order of the keys. Rows are replaced and never changed, so clones share what they refer to. The
// zero value is not usable; use newTable.
type table[K comparable, V any] struct {
	compare func(a, b K) int
	keys    []K // sorted
	rows    map[K]V
}

func newTable[K comparable, V any](compare func(a, b K) int) table[K, V] {
	return table[K, V]{compare: compare, rows: make(map[K]V)}
}

func (t *table[K, V]) get(key K) (row V, ok bool) {
	row, ok = t.rows[key]
	return row, ok
}

func (t *table[K, V]) has(key K) bool {
	_, ok := t.rows[key]
	return ok
}

func (t *table[K, V]) put(key K, row V) {
	if !t.has(key) {
		i, _ := slices.BinarySearchFunc(t.keys, key, t.compare)
		t.keys = slices.Insert(t.keys, i, key)
	}
	t.rows[key] = row
}

// add puts a row unless there is one.
func (t *table[K, V]) add(key K, row V) {
	if !t.has(key) {
		t.put(key, row)
	}
}

func (t *table[K, V]) remove(key K) {
	if t.has(key) {
		i, _ := slices.BinarySearchFunc(t.keys, key, t.compare)
		t.keys = slices.Delete(t.keys, i, i+1)
		delete(t.rows, key)
	}
}

// from lists the rows from a key on. The table must not change meanwhile.
func (t *table[K, V]) from(key K) iter.Seq2[K, V] {
	i, _ := slices.BinarySearchFunc(t.keys, key, t.compare)
	return t.list(t.keys[i:])
}

// all lists all rows. The table must not change meanwhile.
func (t *table[K, V]) all() iter.Seq2[K, V] { return t.list(t.keys) }

func (t *table[K, V]) list(keys []K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range keys {
			if !yield(key, t.rows[key]) {
				return
			}
		}
	}
}

func (t *table[K, V]) clone() table[K, V] {
	return table[K, V]{compare: t.compare, keys: slices.Clone(t.keys), rows: maps.Clone(t.rows)}
}

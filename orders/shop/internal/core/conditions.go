package core

import (
	"cmp"
	"slices"
	"sync"

	"github.com/tidegate/tidegate/orders"
)

// conditions are those that background work has found, at most one for each cause. The zero value has none. Safe for concurrent use.
type conditions struct {
	mu    sync.Mutex
	found map[orders.Cause]orders.Condition // guarded by mu
}

// Set replaces the condition of a cause.
func (c *conditions) Set(found orders.Condition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found == nil {
		c.found = make(map[orders.Cause]orders.Condition)
	}
	c.found[found.Cause] = found
}

// Clear removes the condition of a cause.
func (c *conditions) Clear(cause orders.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.found, cause)
}

// All returns the conditions, sorted by cause.
func (c *conditions) All() []orders.Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]orders.Condition, 0, len(c.found))
	for _, found := range c.found {
		list = append(list, found)
	}
	slices.SortFunc(list, func(a, b orders.Condition) int { return cmp.Compare(a.Cause, b.Cause) })
	return list
}

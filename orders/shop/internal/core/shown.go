package core

import (
	"github.com/google/uuid"

	"github.com/tidegate/tidegate/orders"
)

func (c *Core) Shown(id orders.ID, buyer string) orders.ID {
	if buyer != "" {
		return id
	}
	key := c.IDKey.Load()
	if key == nil {
		return orders.ID{}
	}
	return key.Reference(id)
}

func (c *Core) ParseShown(text string) (orders.ID, error) {
	id, err := orders.ParseID(text)
	key := c.IDKey.Load()
	if key == nil || err == nil && key.Issued(id) {
		return id, err
	}
	if u, err := uuid.Parse(text); err == nil && len(text) == 36 {
		if of, err := orders.ParseID(uuid.UUID(key.Resolve(orders.ID(u))).String()); err == nil && key.Issued(of) {
			return of, nil
		}
	}
	return id, err
}

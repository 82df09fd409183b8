package orders

import (
	"context"
	"fmt"
	"time"
)

// catalog is this process's copy of all sales. It is replaced as a whole.
type catalog struct {
	loaded   bool
	ids      *IDKey // nil before the first are loaded
	sales    map[string]*listing
	byNumber map[int]*cachedItem
}

type listing struct {
	Sale
	cached map[string]*cachedItem // by item id
}

// all returns the sale's cached items, in the order of its items.
func (l *listing) all() []*cachedItem {
	items := make([]*cachedItem, len(l.Items))
	for i := range l.Items {
		items[i] = l.cached[l.Items[i].ID]
	}
	return items
}

// newCatalog keeps the cached state of an item as long as the sale's epoch is the same.
func newCatalog(s *Service, sales []Sale, ids *IDKey, before *catalog) *catalog {
	c := &catalog{loaded: sales != nil, ids: ids, sales: make(map[string]*listing, len(sales)), byNumber: make(map[int]*cachedItem)}
	for _, sale := range sales {
		l := &listing{Sale: sale, cached: make(map[string]*cachedItem, len(sale.Items))}
		for i := range sale.Items {
			ci := s.newCachedItem(l, &l.Items[i])
			if before != nil {
				if old, ok := before.byNumber[ci.item.Number]; ok && old.sale.Epoch == sale.Epoch && old.sale.EpochToken == sale.EpochToken {
					ci.itemState = old.itemState
				}
			}
			if ci.itemState == nil {
				ci.itemState = newItemState()
			}
			l.cached[ci.item.ID], c.byNumber[ci.item.Number] = ci, ci
		}
		c.sales[sale.ID] = l
	}
	return c
}

// loadCatalog reads the sales from the database.
func (s *Service) loadCatalog(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	sales, err := s.store.Sales(ctx)
	if err != nil {
		return err
	}
	if sales == nil {
		sales = []Sale{}
	}
	before := s.catalog.Load()
	ids := before.ids
	if ids == nil {
		key, err := s.store.IDKey(ctx)
		if err != nil {
			return err
		}
		ids = &key
	}
	now := newCatalog(s, sales, ids, before)
	s.catalog.Store(now)
	s.compareCatalogs(ctx, before, now)
	for _, sale := range sales {
		if old, ok := before.sales[sale.ID]; ok && old.Epoch != sale.Epoch {
			s.ledger.askAgain()
			poke(s.asking)
		}
		if sale.EpochFloor < sale.Epoch {
			poke(s.handing)
		}
	}
	return nil
}

// issued reports whether an order may have this id. Until the sales are first loaded, every id is possible.
func (s *Service) issued(id ID) bool {
	ids := s.catalog.Load().ids
	return ids == nil || ids.issued(id)
}

// listing returns a sale, or ErrUnknownSale; ErrUnavailable until the sales are first loaded.
func (s *Service) listing(sale string) (*listing, error) {
	c := s.catalog.Load()
	l, ok := c.sales[sale]
	switch {
	case ok:
		return l, nil
	case !c.loaded:
		return nil, fmt.Errorf("%w: sales are not loaded yet", ErrUnavailable)
	}
	return nil, ErrUnknownSale
}

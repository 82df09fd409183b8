package orders

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
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

// newCatalog keeps the cached state of an item as long as its keys, which contain the sale's epoch, are the same.
func newCatalog(co *core, sales []Sale, ids *IDKey, before *catalog) *catalog {
	c := &catalog{loaded: sales != nil, ids: ids, sales: make(map[string]*listing, len(sales)), byNumber: make(map[int]*cachedItem)}
	for _, sale := range sales {
		l := &listing{Sale: sale, cached: make(map[string]*cachedItem, len(sale.Items))}
		for i := range sale.Items {
			ci := co.newCachedItem(l, &l.Items[i])
			if before != nil {
				if old, ok := before.byNumber[ci.item.Number]; ok && old.keys[itemKey] == ci.keys[itemKey] && old.sale.EpochToken == sale.EpochToken {
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

// catalogWatch keeps the catalog: it reads the sales from the database, and makes sure that Redis has them.
type catalogWatch struct {
	*core
	ledger      *ledger
	regressions *regressions

	catalog  atomic.Pointer[catalog]
	loading  sync.Mutex // serializes reads of the sales, so that none overwrites a later one
	flights  singleflight.Group
	compared atomic.Bool // the sales were read, and compared with Redis, once
}

// loadCatalog reads the sales from the database.
func (w *catalogWatch) loadCatalog(ctx context.Context) error {
	w.loading.Lock()
	defer w.loading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	sales, err := w.store.Sales(ctx)
	if err != nil {
		return err
	}
	if sales == nil {
		sales = []Sale{}
	}
	before := w.catalog.Load()
	ids := before.ids
	if ids == nil {
		key, err := w.store.IDKey(ctx)
		if err != nil {
			return err
		}
		ids = &key
	}
	now := newCatalog(w.core, sales, ids, before)
	w.catalog.Store(now)
	w.regressions.compareCatalogs(ctx, before, now)
	for _, sale := range sales {
		if old, ok := before.sales[sale.ID]; ok && old.Epoch != sale.Epoch {
			w.ledger.askAgain()
			poke(w.asking)
		}
		if sale.EpochFloor < sale.Epoch {
			poke(w.handing)
		}
	}
	return nil
}

// issued reports whether an order may have this id. Until the sales are first loaded, every id is possible.
func (w *catalogWatch) issued(id ID) bool {
	ids := w.catalog.Load().ids
	return ids == nil || ids.issued(id)
}

// listing returns a sale, or ErrUnknownSale; ErrUnavailable until the sales are first loaded.
func (w *catalogWatch) listing(sale string) (*listing, error) {
	c := w.catalog.Load()
	l, ok := c.sales[sale]
	switch {
	case ok:
		return l, nil
	case !c.loaded:
		return nil, fmt.Errorf("%w: sales are not loaded yet", ErrUnavailable)
	}
	return nil, ErrUnknownSale
}

func (w *catalogWatch) reread(ctx context.Context, sale string) (*listing, error) {
	if err := w.loadCatalog(ctx); err != nil {
		return nil, err
	}
	return w.listing(sale)
}

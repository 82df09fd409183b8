package shop

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
)

// catalog is this process's copy of all sales. It is immutable: a change makes another one, which shares the sales that did not change.
type catalog struct {
	loaded   bool
	server   int64         // the number of the database server, as in regressions, of which all sales were read
	ids      *orders.IDKey // nil before the first are loaded
	sales    map[string]*listing
	byNumber map[int]*cachedItem
	known    func() *storage.KnownSales // versions of the sales, computed once
}

type listing struct {
	orders.Sale
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

// newCatalog returns a catalog of these sales.
func newCatalog(sales map[string]*listing, byNumber map[int]*cachedItem) *catalog {
	c := &catalog{sales: sales, byNumber: byNumber}
	c.known = sync.OnceValue(func() *storage.KnownSales {
		versions := make([]storage.SaleVersion, 0, len(c.sales))
		for _, l := range c.sales {
			versions = append(versions, storage.SaleVersion{Sale: l.ID, Revision: l.Revision, EpochToken: l.EpochToken})
		}
		return storage.NewKnownSales(versions)
	})
	return c
}

// with returns the catalog with what the database has of the named sales: found, and not the others.
func (c *catalog) with(co *core, names []string, found []orders.Sale) *catalog {
	now := newCatalog(maps.Clone(c.sales), maps.Clone(c.byNumber))
	now.loaded, now.server, now.ids = c.loaded, c.server, c.ids
	for _, name := range names {
		l, ok := now.sales[name]
		if !ok {
			continue
		}
		for _, ci := range l.cached {
			if now.byNumber[ci.item.Number] == ci {
				delete(now.byNumber, ci.item.Number)
			}
		}
		delete(now.sales, name)
	}
	for i := range found {
		now.add(co, &found[i], c)
	}
	return now
}

// add keeps the cached state of an item as long as its keys, which contain the sale's epoch, are the same as before.
func (c *catalog) add(co *core, sale *orders.Sale, before *catalog) {
	l := &listing{Sale: *sale, cached: make(map[string]*cachedItem, len(sale.Items))}
	for i := range sale.Items {
		ci := co.newCachedItem(l, &l.Items[i])
		if old, ok := before.byNumber[ci.item.Number]; ok && old.keys[itemKey] == ci.keys[itemKey] && old.sale.EpochToken == sale.EpochToken {
			ci.itemState = old.itemState
		} else {
			ci.itemState = newItemState()
		}
		l.cached[ci.item.ID], c.byNumber[ci.item.Number] = ci, ci
	}
	c.sales[sale.ID] = l
}

// remembered returns the items that Redis should have, by number.
func (w *catalogWatch) remembered() []*cachedItem {
	c := w.catalog.Load()
	items := make([]*cachedItem, 0, len(c.byNumber))
	for _, ci := range c.byNumber {
		if !w.over(&ci.sale.Sale) {
			items = append(items, ci)
		}
	}
	slices.SortFunc(items, func(a, b *cachedItem) int { return a.item.Number - b.item.Number })
	return items
}

// catalogWatch keeps the catalog: it reads the sales from the database, and makes sure that Redis has them.
type catalogWatch struct {
	*core
	ledger      *ledger.Ledger
	regressions *regressions

	catalog  atomic.Pointer[catalog]
	loading  sync.Mutex // serializes reads of the sales, so that none overwrites a later one
	flights  singleflight.Group
	compared atomic.Bool // the sales were read, and compared with Redis, once
}

// loadWithin is how long the database is waited for.
const loadWithin = 5 * time.Second

// loadCatalog reads the sales that have changed from the database; all of them if it is another server, which may have other sales of the same
// versions.
func (w *catalogWatch) loadCatalog(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	server, latest := w.regressions.servers.Load(), w.catalog.Load()
	known := latest.known()
	if latest.server != server {
		known = storage.NewKnownSales(nil)
	}
	// This takes the longer the more sales there are, so a change of one of them, which needs the lock too, does not wait for it. A sale that
	// is read meanwhile may be read again.
	names, err := w.store.Differing(ctx, known)
	if err != nil {
		return err
	}
	w.loading.Lock()
	defer w.loading.Unlock()
	before := w.catalog.Load()
	if before.loaded && before.server == server && len(names) == 0 {
		w.replace(ctx, before, before)
		return nil
	}
	found, err := w.store.Sales(ctx, names)
	if err != nil {
		return err
	}
	now := before.with(w.core, names, found)
	now.loaded, now.server = true, server
	if now.ids == nil {
		key, err := w.store.IDKey(ctx)
		if err != nil {
			return err
		}
		now.ids = &key
		w.idKey.Store(now.ids)
	}
	w.replace(ctx, before, now)
	return nil
}

// replace stores a catalog, and begins what the difference to the former one, which may be the same, calls for. The caller holds loading.
func (w *catalogWatch) replace(ctx context.Context, before, now *catalog) {
	w.catalog.Store(now)
	w.regressions.compareCatalogs(ctx, before, now)
	for id, l := range now.sales {
		switch old, ok := before.sales[id]; {
		case !ok:
			poke(w.verifying)
		case old.Epoch != l.Epoch:
			w.ledger.AskAgain()
			poke(w.asking)
		}
		if l.EpochFloor < l.Epoch {
			poke(w.handing)
		}
	}
}

// issued reports whether an order may have this id. Until the sales are first loaded, every id is possible.
func (w *catalogWatch) issued(id orders.ID) bool {
	ids := w.catalog.Load().ids
	return ids == nil || ids.Issued(id)
}

// listing returns a sale, or ErrUnknownSale; ErrUnavailable until the sales are first loaded, and while the
// database is foreign.
func (w *catalogWatch) listing(sale string) (*listing, error) {
	c := w.catalog.Load()
	l, ok := c.sales[sale]
	switch {
	case w.foreign.Load():
		return nil, errForeign
	case ok:
		return l, nil
	case !c.loaded:
		return nil, errNotLoaded
	}
	return nil, orders.ErrUnknownSale
}

// inEpoch returns an item in an epoch; with an empty state unless the catalog has that epoch.
func (w *catalogWatch) inEpoch(sale, item string, epoch int64) *cachedItem {
	if l, ok := w.catalog.Load().sales[sale]; ok && l.Epoch == epoch {
		if ci, ok := l.cached[item]; ok {
			return ci
		}
	}
	l := &listing{Sale: orders.Sale{ID: sale, Epoch: epoch}}
	return &cachedItem{sale: l, item: &orders.Item{ID: item}, keys: w.itemKeys(sale, item, epoch), itemState: &itemState{}}
}

// find is listing, but reads the database if this process does not know the sale: another one may have made it a moment before. It is for
// callers who are trusted: everybody can ask for sales that do not exist.
func (w *catalogWatch) find(ctx context.Context, sale string) (*listing, error) {
	l, err := w.listing(sale)
	if errors.Is(err, orders.ErrUnknownSale) {
		return w.reread(ctx, sale)
	}
	return l, err
}

// reread reads one sale from the database. A name that no sale can have is unknown without a query, which Postgres would refuse.
func (w *catalogWatch) reread(ctx context.Context, sale string) (*listing, error) {
	if !orders.ValidName(sale) {
		return nil, orders.ErrUnknownSale
	}
	if !w.catalog.Load().loaded {
		if err := w.loadCatalog(ctx); err != nil {
			return nil, err
		}
		return w.listing(sale)
	}
	w.loading.Lock()
	defer w.loading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	names := []string{sale}
	found, err := w.store.Sales(ctx, names)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, orders.ErrUnknownSale
	}
	before := w.catalog.Load()
	w.replace(ctx, before, before.with(w.core, names, found))
	return w.listing(sale)
}

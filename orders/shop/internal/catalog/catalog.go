// Package catalog has the sales as this process has them in memory, compares them with Redis and the database, and runs scripts for
// their items.
package catalog

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
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
)

// Catalog is this process's copy of all sales. It is immutable: a change makes another one, which shares the sales that did not change.
type Catalog struct {
	Loaded   bool
	server   int64         // the number of the database server, as in regressions, of which all sales were read
	IDs      *orders.IDKey // nil before the first are loaded
	Sales    map[string]*Listing
	ByNumber map[int]*Item
	known    func() *storage.KnownSales // versions of the sales, computed once
}

// A Listing is a sale with what this process keeps of its items.
type Listing struct {
	orders.Sale
	Cached map[string]*Item // by item id
}

// All returns the sale's cached items, in the order of its items.
func (l *Listing) All() []*Item {
	items := make([]*Item, len(l.Items))
	for i := range l.Items {
		items[i] = l.Cached[l.Items[i].ID]
	}
	return items
}

// newCatalog returns a catalog of these sales.
func newCatalog(sales map[string]*Listing, byNumber map[int]*Item) *Catalog {
	c := &Catalog{Sales: sales, ByNumber: byNumber}
	c.known = sync.OnceValue(func() *storage.KnownSales {
		versions := make([]storage.SaleVersion, 0, len(c.Sales))
		for _, l := range c.Sales {
			versions = append(versions, storage.SaleVersion{Sale: l.ID, Revision: l.Revision, EpochToken: l.EpochToken})
		}
		return storage.NewKnownSales(versions)
	})
	return c
}

// with returns the catalog with what the database has of the named sales: found, and not the others.
func (c *Catalog) with(co *core.Core, names []string, found []orders.Sale) *Catalog {
	now := newCatalog(maps.Clone(c.Sales), maps.Clone(c.ByNumber))
	now.Loaded, now.server, now.IDs = c.Loaded, c.server, c.IDs
	for _, name := range names {
		l, ok := now.Sales[name]
		if !ok {
			continue
		}
		for _, ci := range l.Cached {
			if now.ByNumber[ci.Item.Number] == ci {
				delete(now.ByNumber, ci.Item.Number)
			}
		}
		delete(now.Sales, name)
	}
	for i := range found {
		now.add(co, &found[i], c)
	}
	return now
}

// add keeps the cached state of an item as long as its keys, which contain the sale's epoch, are the same as before.
func (c *Catalog) add(co *core.Core, sale *orders.Sale, before *Catalog) {
	l := &Listing{Sale: *sale, Cached: make(map[string]*Item, len(sale.Items))}
	for i := range sale.Items {
		ci := NewItem(co, l, &l.Items[i])
		if old, ok := before.ByNumber[ci.Item.Number]; ok && old.Keys[core.ItemKey] == ci.Keys[core.ItemKey] &&
			old.Sale.EpochToken == sale.EpochToken {
			ci.itemState = old.itemState
		} else {
			ci.itemState = newItemState()
		}
		l.Cached[ci.Item.ID], c.ByNumber[ci.Item.Number] = ci, ci
	}
	c.Sales[sale.ID] = l
}

// Remembered returns the items that Redis should have, by number.
func (w *Watch) Remembered() []*Item {
	c := w.Catalog.Load()
	items := make([]*Item, 0, len(c.ByNumber))
	for _, ci := range c.ByNumber {
		if !w.Over(&ci.Sale.Sale) {
			items = append(items, ci)
		}
	}
	slices.SortFunc(items, func(a, b *Item) int { return a.Item.Number - b.Item.Number })
	return items
}

// Watch keeps the catalog: it reads the sales from the database, and makes sure that Redis has them.
type Watch struct {
	*core.Core
	ledger      *ledger.Ledger
	regressions *Regressions

	Catalog  atomic.Pointer[Catalog]
	loading  sync.Mutex // serializes reads of the sales, so that none overwrites a later one
	flights  singleflight.Group
	Compared atomic.Bool // the sales were read, and compared with Redis, once
}

// NewWatch returns the part without any sale.
func NewWatch(c *core.Core, l *ledger.Ledger, regressions *Regressions) *Watch {
	w := &Watch{Core: c, ledger: l, regressions: regressions}
	w.Catalog.Store(newCatalog(map[string]*Listing{}, map[int]*Item{}))
	return w
}

// loadWithin is how long the database is waited for.
const loadWithin = 5 * time.Second

// loadCatalog reads the sales that have changed from the database; all of them if it is another server, which may have other
// sales of the same versions.
func (w *Watch) loadCatalog(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	server, latest := w.regressions.Servers.Load(), w.Catalog.Load()
	known := latest.known()
	if latest.server != server {
		known = storage.NewKnownSales(nil)
	}
	// This takes the longer the more sales there are, so a change of one of them, which needs the lock too, does not wait for it. A sale that
	// is read meanwhile may be read again.
	names, err := w.Store.Differing(ctx, known)
	if err != nil {
		return err
	}
	w.loading.Lock()
	defer w.loading.Unlock()
	before := w.Catalog.Load()
	if before.Loaded && before.server == server && len(names) == 0 {
		w.replace(ctx, before, before)
		return nil
	}
	found, err := w.Store.Sales(ctx, names)
	if err != nil {
		return err
	}
	now := before.with(w.Core, names, found)
	now.Loaded, now.server = true, server
	if now.IDs == nil {
		key, err := w.Store.IDKey(ctx)
		if err != nil {
			return err
		}
		now.IDs = &key
		w.IDKey.Store(now.IDs)
	}
	w.replace(ctx, before, now)
	return nil
}

// replace stores a catalog, and begins what the difference to the former one, which may be the same, calls for. The caller holds loading.
func (w *Watch) replace(ctx context.Context, before, now *Catalog) {
	w.Catalog.Store(now)
	w.regressions.compareCatalogs(ctx, before, now)
	for id, l := range now.Sales {
		switch old, ok := before.Sales[id]; {
		case !ok:
			core.Poke(w.Verifying)
		case old.Epoch != l.Epoch:
			w.ledger.AskAgain()
			core.Poke(w.Asking)
		}
		if l.EpochFloor < l.Epoch {
			core.Poke(w.Handing)
		}
	}
}

// Issued reports whether an order may have this id. Until the sales are first loaded, every id is possible.
func (w *Watch) Issued(id orders.ID) bool {
	ids := w.Catalog.Load().IDs
	return ids == nil || ids.Issued(id)
}

// Listing returns a sale, or ErrUnknownSale; ErrUnavailable until the sales are first loaded, and while the
// database is foreign.
func (w *Watch) Listing(sale string) (*Listing, error) {
	c := w.Catalog.Load()
	l, ok := c.Sales[sale]
	switch {
	case w.Foreign.Load():
		return nil, core.ErrForeign
	case ok:
		return l, nil
	case !c.Loaded:
		return nil, core.ErrNotLoaded
	}
	return nil, orders.ErrUnknownSale
}

// InEpoch returns an item in an epoch; with an empty state unless the catalog has that epoch.
func (w *Watch) InEpoch(sale, item string, epoch int64) *Item {
	if l, ok := w.Catalog.Load().Sales[sale]; ok && l.Epoch == epoch {
		if ci, ok := l.Cached[item]; ok {
			return ci
		}
	}
	l := &Listing{Sale: orders.Sale{ID: sale, Epoch: epoch}}
	return &Item{Sale: l, Item: &orders.Item{ID: item}, Keys: w.ItemKeys(sale, item, epoch), itemState: &itemState{}}
}

// Find is listing, but reads the database if this process does not know the sale: another one may have made it a moment before. It is for
// callers who are trusted: everybody can ask for sales that do not exist.
func (w *Watch) Find(ctx context.Context, sale string) (*Listing, error) {
	l, err := w.Listing(sale)
	if errors.Is(err, orders.ErrUnknownSale) {
		return w.Reread(ctx, sale)
	}
	return l, err
}

// Reread reads one sale from the database. A name that no sale can have is unknown without a query, which Postgres would refuse.
func (w *Watch) Reread(ctx context.Context, sale string) (*Listing, error) {
	if !orders.ValidName(sale) {
		return nil, orders.ErrUnknownSale
	}
	if !w.Catalog.Load().Loaded {
		if err := w.loadCatalog(ctx); err != nil {
			return nil, err
		}
		return w.Listing(sale)
	}
	w.loading.Lock()
	defer w.loading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	names := []string{sale}
	found, err := w.Store.Sales(ctx, names)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, orders.ErrUnknownSale
	}
	before := w.Catalog.Load()
	w.replace(ctx, before, before.with(w.Core, names, found))
	return w.Listing(sale)
}

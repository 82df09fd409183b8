package orders

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// catalog is every sale as this process knows it. It is replaced as a whole.
type catalog struct {
	loaded   bool
	sales    map[string]*listing
	byNumber map[int]*shelf
}

type listing struct {
	Sale
	shelves map[string]*shelf // by item id
}

// newCatalog keeps what shelves learnt, as long as the epoch is the same.
func newCatalog(s *Service, sales []Sale, before *catalog) *catalog {
	c := &catalog{loaded: sales != nil, sales: make(map[string]*listing, len(sales)), byNumber: make(map[int]*shelf)}
	for _, sale := range sales {
		l := &listing{Sale: sale, shelves: make(map[string]*shelf, len(sale.Items))}
		for i := range sale.Items {
			sh := &shelf{sale: l, item: &l.Items[i], keys: s.itemKeys(sale.ID, sale.Items[i].ID, sale.Epoch)}
			if before != nil {
				if old, ok := before.byNumber[sh.item.Number]; ok && old.sale.Epoch == sale.Epoch {
					sh.memory = old.memory
				}
			}
			if sh.memory == nil {
				sh.memory = newMemory()
			}
			l.shelves[sh.item.ID], c.byNumber[sh.item.Number] = sh, sh
		}
		c.sales[sale.ID] = l
	}
	return c
}

// watch reads the sales and makes sure that Redis knows them, whenever
// somebody says that they changed or the fence that Redis may be another one,
// and every second, in case nobody was heard.
func (s *Service) watch(ctx context.Context) error {
	return every(ctx, time.Second, s.reload, func() {
		if err := s.loadCatalog(ctx); err != nil && ctx.Err() == nil {
			s.opts.Logger.WarnContext(ctx, "sales could not be read; those known stay in force", slog.Any("error", err))
		}
		for _, l := range s.catalog.Load().sales {
			if err := s.verifySale(ctx, l); err != nil && ctx.Err() == nil {
				s.opts.Logger.WarnContext(ctx, "a sale could not be compared with Redis", slog.String("sale", l.ID), slog.Any("error", err))
				return
			}
		}
		s.compared.Store(s.catalog.Load().loaded)
	})
}

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
	s.catalog.Store(newCatalog(s, sales, before))
	for _, sale := range sales {
		if old, ok := before.sales[sale.ID]; ok && old.Epoch != sale.Epoch {
			s.ledger.askAgain()
			poke(s.asking)
		}
	}
	return nil
}

// listing finds a sale, asking the database when this process has never loaded any.
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

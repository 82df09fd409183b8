package embedded

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// The sample sale, for an installation without sales.
const (
	sampleSale   = "demo"
	sampleItem   = "ticket"
	sampleStock  = 500
	sampleLength = 30 * 24 * time.Hour
)

// sales is the part of shop.Service that the sample needs.
type sales interface {
	Sales(ctx context.Context, after string, limit int) ([]orders.SaleStatus, error)
	PutSale(ctx context.Context, d orders.Definition) (orders.SaleStatus, bool, error)
	SetSwitch(ctx context.Context, sale string, to orders.Switch) (orders.SaleStatus, error)
}

// ensureSample returns the name of a sample sale that has not ended: the newest one, or else a new one. The orders of an ended one are
// not changed.
func ensureSample(ctx context.Context, s sales, now time.Time) (string, error) {
	all, err := s.Sales(ctx, "", 0)
	if err != nil {
		return "", fmt.Errorf("embedded: sample sale: %w", err)
	}
	name := sampleSale
	for n := 2; ; n++ {
		i := slices.IndexFunc(all, func(known orders.SaleStatus) bool { return known.ID == name })
		if i < 0 {
			break
		}
		if all[i].State != orders.StateEnded && all[i].State != orders.StateClosed {
			return name, nil
		}
		name = fmt.Sprintf("%s-%d", sampleSale, n)
	}
	if _, _, err := s.PutSale(ctx, orders.Definition{
		ID: name, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(sampleLength), Hold: orders.NoHold,
		Items: []orders.ItemDefinition{{ID: sampleItem, Stock: sampleStock}},
	}); err != nil {
		return "", fmt.Errorf("embedded: sample sale: %w", err)
	}
	if _, err := s.SetSwitch(ctx, name, orders.SwitchOpen); err != nil {
		return "", fmt.Errorf("embedded: sample sale: %w", err)
	}
	return name, nil
}

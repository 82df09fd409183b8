package sales

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/jsontime"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/orders"
)

// Reader is the handlers that read sales and orders.
type Reader struct {
	Orders  Source
	MayWait MayWait
}

// MayWait reports whether an answer may wait for a change. The wait uses the context, and calls end at its end.
type MayWait = func(ctx context.Context) (waiting context.Context, end func(), ok bool)

// A Source reads sales and orders.
type Source interface {
	Namer
	Sale(ctx context.Context, sale string) (orders.SaleStatus, error)
	Order(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error)
	Wait(ctx context.Context, id orders.ID, v orders.Viewer, while orders.Status, wait time.Duration) (orders.Order, error)
	Lister
}

// saleInput is the name of a sale in the path.
type saleInput struct {
	Sale string `path:"sale" doc:"Name of the sale"`
}

type saleView struct {
	_ struct{} `additionalProperties:"true"`

	Sale     string       `json:"sale"`
	State    orders.State `json:"state" enum:"scheduled,open,paused,recovering,ended,closed"`
	Now      time.Time    `json:"now" doc:"The clock that the hours follow"`
	StartsAt time.Time    `json:"starts_at"`
	EndsAt   time.Time    `json:"ends_at"`
	Items    []itemView   `json:"items"`
}

type itemView struct {
	_ struct{} `additionalProperties:"true"`

	Item  string `json:"item"`
	Stock int    `json:"stock"`
	Free  int    `json:"free" doc:"Units that nobody has reserved or bought"`
}

type saleOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         saleView
}

func (h *Reader) Sale(ctx context.Context, in *saleInput) (*saleOutput, error) {
	request.Of(ctx).Slot.Leave()
	s, err := h.Orders.Sale(ctx, in.Sale)
	if err != nil {
		return nil, err
	}
	items := make([]itemView, len(s.Items))
	for i, it := range s.Items {
		items[i] = itemView{Item: it.ID, Stock: it.Stock, Free: s.Free[it.ID]}
	}
	return &saleOutput{CacheControl: "max-age=1", Body: saleView{
		Sale: s.ID, State: s.State, Now: jsontime.Instant(s.Now), StartsAt: jsontime.Instant(s.StartsAt), EndsAt: jsontime.Instant(s.EndsAt), Items: items,
	}}, nil
}

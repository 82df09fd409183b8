package sales

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/document"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/orders"
)

// Reader is the handlers that read sales and orders.
type Reader struct {
	Orders  Source
	MayWait MayWait

	documents document.Shared // of sales
}

// MayWait reports whether an answer may wait for a change. The wait uses the context, and calls end at its end.
type MayWait = func(ctx context.Context) (waiting context.Context, end func(), ok bool)

// A Source reads sales and orders.
type Source interface {
	Namer
	Sale(ctx context.Context, sale string) (orders.SaleStatus, error)
	SaleState(sale string) (orders.SaleStatus, error)
	Order(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error)
	Wait(ctx context.Context, id orders.ID, v orders.Viewer, while orders.Status, wait time.Duration) (orders.Order, error)
	Lister
}

// Paths of the routes that buyers use most.
const (
	SalePath   = "/v1/sales/{sale}"
	OrdersPath = SalePath + "/orders"
	OrderPath  = "/v1/orders/{id}"
)

// Routes are the routes of sales and orders as they are.
func (h *Reader) Routes() []route.Route {
	return []route.Route{
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "get-sale", Method: http.MethodGet, Path: SalePath, Summary: "A sale and what is left of it",
				Tags: []string{"Sales"}, Errors: []int{401, 403, 404, 422, 429, 503},
			},
			Public: route.Charged, Roles: auth.ForReaders, Document: reflect.TypeFor[SaleView](),
		}, h.Sale),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "get-order", Method: http.MethodGet, Path: OrderPath, Summary: "An order, also when it changes",
				Tags: tagOrders, Errors: []int{401, 403, 404, 422, 429, 503},
			},
			Public: route.Charged, Roles: auth.ForReaders,
		}, h.Order),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "list-own-orders", Method: http.MethodGet, Path: OrdersPath,
				Summary: "The caller's own orders in a sale", Tags: tagOrders, Errors: []int{401, 403, 404, 422, 429, 503},
			},
			Public: route.Charged,
		}, h.OwnOrders),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "list-orders", Method: http.MethodGet, Path: OrdersPath,
				Summary: "All orders in a sale", Tags: route.TagOperating, Errors: []int{401, 403, 404, 422, 503},
			},
			Roles: auth.ForReaders,
		}, h.AllOrders),
	}
}

var (
	tagOrders     = []string{"Orders"}
	tagBackOffice = []string{"Back office"}
)

// saleInput is the name of a sale in the path.
type saleInput struct {
	Sale string `path:"sale" doc:"Name of the sale"`
}

// SaleView is a sale in responses to everybody.
type SaleView struct {
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
	Free  int    `json:"free" doc:"Units neither reserved nor bought"`
}

// Sale answers with a document that all callers of a moment share. Only the free units in it are of a moment before: it is made
// anew when the definition or the state has changed.
func (h *Reader) Sale(ctx context.Context, in *saleInput) (*document.Output, error) {
	request.Of(ctx).Slot.Leave()
	d, err := h.documents.Get(ctx, in.Sale, func(ctx context.Context) (any, func() bool, error) {
		before, err := h.Orders.SaleState(in.Sale)
		if err != nil {
			return nil, nil, err
		}
		s, err := h.Orders.Sale(ctx, in.Sale)
		return viewSale(&s), func() bool {
			now, err := h.Orders.SaleState(in.Sale)
			return err == nil && now.State == before.State && now.Revision == before.Revision && now.Epoch == before.Epoch
		}, err
	})
	if err != nil {
		return nil, err
	}
	return d.JSON(), nil
}

func viewSale(s *orders.SaleStatus) *SaleView {
	items := make([]itemView, len(s.Items))
	for i, it := range s.Items {
		items[i] = itemView{Item: it.ID, Stock: it.Stock, Free: s.Free[it.ID]}
	}
	return &SaleView{
		Sale: s.ID, State: s.State, Now: response.Instant(s.Now), StartsAt: response.Instant(s.StartsAt), EndsAt: response.Instant(s.EndsAt),
		Items: items,
	}
}

package sales

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/orders"
)

// Admin is the handlers for operators' changes of sales.
type Admin struct {
	Orders   Manager
	Verified func(sale string, checks []orders.Check, at time.Time) // nil: not called
}

// A Manager lists, defines, switches and verifies sales.
type Manager interface {
	Sales(ctx context.Context, after string, limit int) ([]orders.SaleStatus, error)
	PutSale(ctx context.Context, d orders.Definition) (sale orders.SaleStatus, created bool, err error)
	PutItem(ctx context.Context, sale string, item orders.ItemDefinition) (now orders.SaleStatus, added bool, err error)
	SetSwitch(ctx context.Context, sale string, to orders.Switch) (orders.SaleStatus, error)
	RebuildSale(ctx context.Context, sale string) (orders.SaleStatus, error)
	Verify(ctx context.Context, sale string) ([]orders.Check, error)
}

// MaxSale is the maximum size of a sale's definition in bytes: 10,000 items of 200.
const MaxSale = 2 << 20

// Routes are the routes that define, switch and verify sales.
func (h *Admin) Routes() []route.Route {
	operator := func(op huma.Operation) route.Route {
		op.Tags = route.TagOperating
		return route.Route{Operation: op, Roles: auth.ForOperators, Created: op.Method == http.MethodPut}
	}
	verb := func(verb, summary string) route.Route {
		return operator(huma.Operation{
			OperationID: verb + "-sale", Method: http.MethodPost, Path: SalePath + "/" + verb, Summary: summary,
			Errors: []int{401, 403, 404, 409, 503},
		})
	}
	return []route.Route{
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "list-sales", Method: http.MethodGet, Path: "/v1/sales", Summary: "All sales", Tags: route.TagOperating,
				Errors: []int{401, 403, 422, 503},
			},
			Roles: auth.ForViewers,
		}, h.Sales),
		route.Of(operator(huma.Operation{
			OperationID: "put-sale", Method: http.MethodPut, Path: SalePath, Summary: "Define a sale, or change it",
			Description: "A change that shuts a sale while it is open (`starts_at` in the future, `ends_at` in the past), or that changes " +
				"`requires_user` of a sale with orders, is 409 `force_required` without `?force=true`. The hours of a sale that is a draft, not " +
				"started, paused or over change without it.",
			MaxBodyBytes: MaxSale + 1, Errors: []int{401, 403, 408, 409, 413, 415, 422, 503},
		}), h.PutSale),
		route.Of(operator(huma.Operation{
			OperationID: "put-item", Method: http.MethodPut, Path: SalePath + "/items/{item}", Summary: "Add an item to a sale, or change it",
			Description: "The other items stay as they are. As for the whole sale, the stock only grows, and a setting that is left out gets " +
				"its default.",
			MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
		}), h.PutItem),
		route.Of(verb("open", "Publish or resume a sale; its hours still apply"), h.SetSwitch(orders.SwitchOpen)),
		route.Of(verb("pause", "Pause a sale"), h.SetSwitch(orders.SwitchPaused)),
		route.Of(verb("close", "End a sale for good"), h.SetSwitch(orders.SwitchClosed)),
		route.Of(verb("rebuild", "Rebuild a sale in Redis from the database and what all processes remember; it takes no orders for a second "+
			"or two"), h.Rebuild),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "verify-sale", Method: http.MethodGet, Path: SalePath + "/verify",
				Summary: "Check a sale's invariants", Tags: route.TagOperating, Errors: []int{401, 403, 404, 503},
			},
			Roles: auth.ForViewers, Lasting: true,
		}, h.Verify),
	}
}

type putSaleInput struct {
	Sale  string `path:"sale" doc:"Name of the sale"`
	Force bool   `query:"force" doc:"Change the sale even if that shuts it while it is open, or changes requires_user while it has orders; 409 force_required otherwise"`
	Body  SaleDefinition
}

// SaleDefinition is what an operator decides about a sale. A setting that is left out gets its default.
type SaleDefinition struct {
	StartsAt     time.Time        `json:"starts_at"`
	EndsAt       time.Time        `json:"ends_at"`
	RequiresUser *bool            `json:"requires_user,omitempty" default:"true" doc:"Take orders of known users only"`
	HoldMS       *int64           `json:"hold_ms,omitempty" minimum:"0" maximum:"31536000000" default:"900000" doc:"Time to pay after the commit; 0: a confirmed order is final"`
	Items        []ItemDefinition `json:"items" minItems:"1" maxItems:"10000"`
	Revision     int64            `json:"revision,omitempty" minimum:"1" doc:"Change the sale only if it is still of this revision; 409 otherwise"`
}

// AuditDetail returns what the audit log stores of the request: the body, after whether the change was forced.
func (in *putSaleInput) AuditDetail() any {
	if !in.Force {
		return in.Body
	}
	return forced{in.Body}
}

// forced is a body whose JSON begins with "force":true, because the end of a long one is cut off.
type forced struct{ body any }

func (f forced) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(f.body)
	if err != nil {
		return nil, err
	}
	return append([]byte(`{"force":true,`), text[1:]...), nil
}

// ItemDefinition is an item of a SaleDefinition.
type ItemDefinition struct {
	Item string `json:"item"`
	ItemSettings
}

// ItemSettings are what operators decide about an item. It is exported because Huma finds no fields of other embedded types.
type ItemSettings struct {
	Stock         int  `json:"stock" minimum:"0" maximum:"10000000" doc:"Units on sale; only grows"`
	QuotaPerBuyer int  `json:"quota_per_buyer,omitempty" minimum:"1" maximum:"1000" default:"1"`
	InFlightMax   int  `json:"in_flight_max,omitempty" minimum:"1" maximum:"1000000" default:"10000" doc:"Orders accepted and not yet committed"`
	Final         bool `json:"final,omitempty" doc:"The stock does not grow any more, so waiting buyers can be turned away when it is gone; it stays final"`
}

func (s *ItemSettings) of(item string) orders.ItemDefinition {
	return orders.ItemDefinition{ID: item, Stock: s.Stock, QuotaPerBuyer: s.QuotaPerBuyer, InFlightMax: s.InFlightMax, Final: s.Final}
}

// OperatorSale is a sale in responses to operators.
type OperatorSale struct {
	_ struct{} `additionalProperties:"true"`

	Sale         string         `json:"sale"`
	State        orders.State   `json:"state" enum:"scheduled,open,paused,recovering,ended,closed"`
	Switch       orders.Switch  `json:"switch" enum:"draft,open,paused,closed" doc:"What the operator set; with the hours it makes the state"`
	Now          time.Time      `json:"now"`
	StartsAt     time.Time      `json:"starts_at"`
	EndsAt       time.Time      `json:"ends_at"`
	RequiresUser bool           `json:"requires_user"`
	HoldMS       int64          `json:"hold_ms"`
	Items        []OperatorItem `json:"items"`
	Revision     int64          `json:"revision" doc:"Grows with every change"`
}

// OperatorItem is an item in responses to operators.
type OperatorItem struct {
	_ struct{} `additionalProperties:"true"`

	Item          string `json:"item"`
	Stock         int    `json:"stock"`
	Free          int    `json:"free"`
	QuotaPerBuyer int    `json:"quota_per_buyer"`
	InFlightMax   int    `json:"in_flight_max"`
	Final         bool   `json:"final"`
	Room          string `json:"room,omitempty" doc:"Waiting room that orders must have come through"`
}

type operatorSaleOutput struct {
	Status int
	Body   OperatorSale
}

func viewForOperator(s *orders.SaleStatus) OperatorSale {
	v := OperatorSale{
		Sale: s.ID, State: s.State, Switch: s.Switch, Now: response.Instant(s.Now), StartsAt: response.Instant(s.StartsAt),
		EndsAt:       response.Instant(s.EndsAt),
		RequiresUser: s.RequiresUser, HoldMS: s.Hold.Milliseconds(), Items: make([]OperatorItem, len(s.Items)), Revision: s.Revision,
	}
	for i := range s.Items {
		v.Items[i] = viewItem(s, &s.Items[i])
	}
	return v
}

func viewItem(s *orders.SaleStatus, it *orders.Item) OperatorItem {
	return OperatorItem{
		Item: it.ID, Stock: it.Stock, Free: s.Free[it.ID], QuotaPerBuyer: it.QuotaPerBuyer, InFlightMax: it.InFlightMax,
		Final: it.Final, Room: it.Room,
	}
}

func (h *Admin) PutSale(ctx context.Context, in *putSaleInput) (*operatorSaleOutput, error) {
	d := orders.Definition{
		ID: in.Sale, StartsAt: in.Body.StartsAt, EndsAt: in.Body.EndsAt, Anonymous: !*in.Body.RequiresUser,
		Hold: time.Duration(*in.Body.HoldMS) * time.Millisecond, Items: make([]orders.ItemDefinition, len(in.Body.Items)),
		Revision: in.Body.Revision,
		Force:    in.Force,
	}
	if d.Hold == 0 {
		d.Hold = orders.NoHold
	}
	for i := range in.Body.Items {
		d.Items[i] = in.Body.Items[i].of(in.Body.Items[i].Item)
	}
	s, created, err := h.Orders.PutSale(context.WithoutCancel(ctx), d)
	if err != nil {
		return nil, err
	}
	out := &operatorSaleOutput{Status: http.StatusOK, Body: viewForOperator(&s)}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

type putItemInput struct {
	Sale string       `path:"sale" doc:"Name of the sale"`
	Item string       `path:"item" doc:"Name of the item"`
	Body ItemSettings `nameHint:"ItemSettings"`
}

// AuditDetail returns what the audit log stores of the request.
func (in *putItemInput) AuditDetail() any { return in.Body }

type operatorItemOutput struct {
	Status int
	Body   OperatorItem
}

// PutItem adds an item to a sale, or changes it.
func (h *Admin) PutItem(ctx context.Context, in *putItemInput) (*operatorItemOutput, error) {
	s, added, err := h.Orders.PutItem(context.WithoutCancel(ctx), in.Sale, in.Body.of(in.Item))
	if err != nil {
		return nil, err
	}
	out := &operatorItemOutput{Status: http.StatusOK}
	if it, ok := s.Item(in.Item); ok {
		out.Body = viewItem(&s, it)
	}
	if added {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (h *Admin) SetSwitch(to orders.Switch) func(context.Context, *saleInput) (*operatorSaleOutput, error) {
	return func(ctx context.Context, in *saleInput) (*operatorSaleOutput, error) {
		s, err := h.Orders.SetSwitch(context.WithoutCancel(ctx), in.Sale, to)
		if err != nil {
			return nil, err
		}
		return &operatorSaleOutput{Status: http.StatusOK, Body: viewForOperator(&s)}, nil
	}
}

// Rebuild waits until the sale is rebuilt.
func (h *Admin) Rebuild(ctx context.Context, in *saleInput) (*operatorSaleOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, rebuildWithin)
	defer cancel()
	s, err := h.Orders.RebuildSale(ctx, in.Sale)
	if err != nil {
		return nil, err
	}
	return &operatorSaleOutput{Status: http.StatusOK, Body: viewForOperator(&s)}, nil
}

// rebuildWithin is how long a request waits for a sale to be rebuilt.
const rebuildWithin = 20 * time.Second

// Sales lists the sales by name.
func (h *Admin) Sales(ctx context.Context, in *response.Paging) (*response.PageOutput[OperatorSale], error) {
	after, err := response.ParseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := h.Orders.Sales(ctx, string(after), in.Limit)
	if err != nil {
		return nil, err
	}
	return response.PageOf(list, len(list) == in.Limit, viewForOperator, func(s *orders.SaleStatus) []byte { return []byte(s.ID) }), nil
}

// Verification is the result of verifying a sale or a room. It is an alias, because only schemas of types without a name take nameHint.
type Verification = struct {
	_ struct{} `additionalProperties:"true"`

	OK     bool           `json:"ok"`
	Checks []orders.Check `json:"checks"`
}

// VerificationOf returns the result of checks.
func VerificationOf(checks []orders.Check) Verification {
	return Verification{OK: !slices.ContainsFunc(checks, func(c orders.Check) bool { return !c.OK }), Checks: checks}
}

type verifyOutput struct {
	Body Verification `nameHint:"Verification"`
}

func (h *Admin) Verify(ctx context.Context, in *saleInput) (*verifyOutput, error) {
	checks, err := h.Orders.Verify(ctx, in.Sale)
	if err != nil {
		return nil, err
	}
	if h.Verified != nil {
		h.Verified(in.Sale, checks, time.Now())
	}
	return &verifyOutput{Body: VerificationOf(checks)}, nil
}

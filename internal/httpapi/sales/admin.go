package sales

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/jsontime"
	"github.com/tidegate/tidegate/internal/httpapi/paging"
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

type putSaleInput struct {
	Sale  string `path:"sale" doc:"Name of the sale"`
	Force bool   `query:"force" doc:"Change the sale even if that shuts it while it is open, or changes requires_user while it has orders; 409 force_required otherwise"`
	Body  struct {
		StartsAt     time.Time        `json:"starts_at"`
		EndsAt       time.Time        `json:"ends_at"`
		RequiresUser *bool            `json:"requires_user,omitempty" default:"true" doc:"Take orders of known users only"`
		HoldMS       *int64           `json:"hold_ms,omitempty" minimum:"0" maximum:"31536000000" default:"900000" doc:"Time to pay after the commit; 0: a confirmed order is final"`
		Items        []itemDefinition `json:"items" minItems:"1" maxItems:"10000"`
		Revision     int64            `json:"revision,omitempty" minimum:"1" doc:"Change the sale only if it is still of this revision; 409 otherwise"`
	} `nameHint:"SaleDefinition"`
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

type itemDefinition struct {
	Item string `json:"item"`
	ItemSettings
}

// ItemSettings are what operators decide about an item. It is exported because Huma finds no fields of other embedded types.
type ItemSettings struct {
	Stock         int  `json:"stock" minimum:"0" maximum:"10000000" doc:"Units on sale; only grows"`
	QuotaPerBuyer int  `json:"quota_per_buyer,omitempty" minimum:"1" maximum:"1000" default:"1"`
	InFlightMax   int  `json:"in_flight_max,omitempty" minimum:"1" maximum:"1000000" default:"10000" doc:"Orders accepted and not yet committed"`
	Final         bool `json:"final,omitempty" doc:"The stock grows no more, so that those who wait can be told when it is gone; it stays final"`
}

func (s *ItemSettings) of(item string) orders.ItemDefinition {
	return orders.ItemDefinition{ID: item, Stock: s.Stock, QuotaPerBuyer: s.QuotaPerBuyer, InFlightMax: s.InFlightMax, Final: s.Final}
}

// operatorSale is a sale in responses to operators.
type operatorSale struct {
	_ struct{} `additionalProperties:"true"`

	Sale         string         `json:"sale"`
	State        orders.State   `json:"state" enum:"scheduled,open,paused,recovering,ended,closed"`
	Switch       orders.Switch  `json:"switch" enum:"draft,open,paused,closed" doc:"What the operator set; with the hours it makes the state"`
	Now          time.Time      `json:"now"`
	StartsAt     time.Time      `json:"starts_at"`
	EndsAt       time.Time      `json:"ends_at"`
	RequiresUser bool           `json:"requires_user"`
	HoldMS       int64          `json:"hold_ms"`
	Items        []operatorItem `json:"items"`
	Revision     int64          `json:"revision" doc:"Grows with every change"`
}

type operatorItem struct {
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
	Body   operatorSale
}

func viewForOperator(s *orders.SaleStatus) operatorSale {
	v := operatorSale{
		Sale: s.ID, State: s.State, Switch: s.Switch, Now: jsontime.Instant(s.Now), StartsAt: jsontime.Instant(s.StartsAt), EndsAt: jsontime.Instant(s.EndsAt),
		RequiresUser: s.RequiresUser, HoldMS: s.Hold.Milliseconds(), Items: make([]operatorItem, len(s.Items)), Revision: s.Revision,
	}
	for i := range s.Items {
		v.Items[i] = viewItem(s, &s.Items[i])
	}
	return v
}

func viewItem(s *orders.SaleStatus, it *orders.Item) operatorItem {
	return operatorItem{Item: it.ID, Stock: it.Stock, Free: s.Free[it.ID], QuotaPerBuyer: it.QuotaPerBuyer, InFlightMax: it.InFlightMax, Final: it.Final, Room: it.Room}
}

func (h *Admin) PutSale(ctx context.Context, in *putSaleInput) (*operatorSaleOutput, error) {
	d := orders.Definition{
		ID: in.Sale, StartsAt: in.Body.StartsAt, EndsAt: in.Body.EndsAt, Anonymous: !*in.Body.RequiresUser,
		Hold: time.Duration(*in.Body.HoldMS) * time.Millisecond, Items: make([]orders.ItemDefinition, len(in.Body.Items)), Revision: in.Body.Revision,
		Force: in.Force,
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
	Body   operatorItem
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
func (h *Admin) Sales(ctx context.Context, in *paging.Paging) (*paging.Output[operatorSale], error) {
	after, err := paging.ParseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := h.Orders.Sales(ctx, string(after), in.Limit)
	if err != nil {
		return nil, err
	}
	return paging.Of(list, len(list) == in.Limit, viewForOperator, func(s *orders.SaleStatus) []byte { return []byte(s.ID) }), nil
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

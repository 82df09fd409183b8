package httpapi

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/orders"
)

// Orders is what the handlers need of the sales and their orders. FromService makes one of an *orders.Service.
type Orders interface {
	Prepare(orders.Request) (sales.Attempt, error)

	Sale(ctx context.Context, sale string) (orders.SaleStatus, error)
	Sales(ctx context.Context, after string, limit int) ([]orders.SaleStatus, error)
	Order(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error)
	Wait(ctx context.Context, id orders.ID, v orders.Viewer, while orders.Status, wait time.Duration) (orders.Order, error)
	Orders(ctx context.Context, q orders.Query) ([]orders.Order, error)

	PutSale(ctx context.Context, def orders.Sale) (sale orders.SaleStatus, created bool, err error)
	SetSwitch(ctx context.Context, sale string, to orders.Switch) (orders.SaleStatus, error)
	Verify(ctx context.Context, sale string) ([]orders.Check, error)

	Cancel(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error)
	Pay(ctx context.Context, id orders.ID, reference string) (orders.Payment, error)
	Events(ctx context.Context, after int64, limit int, wait time.Duration) ([]orders.Event, error)
	DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error)
	Replay(ctx context.Context, id orders.ID) (orders.Order, error)

	Backlog(ctx context.Context) (orders.Backlog, error)
	InWork(ctx context.Context) (int, error)
	Committed() uint64

	Ready(ctx context.Context) error
}

// Gate decides about requests, as an *admission.Gate does.
type Gate interface {
	// Charge, like all methods that change counts, continues when ctx is cancelled, because the result of a count must be
	// recorded.
	Charge(ctx context.Context, req admission.Request) (admission.Decision, error)
	// ChargeUnless calls excused before it refuses a request; an excused request is admitted without being counted.
	ChargeUnless(ctx context.Context, req admission.Request, excused func(context.Context) bool) (admission.Decision, error)
	Check(ctx context.Context, req admission.Request) (admission.Decision, error)
	Refund(ctx context.Context, d admission.Decision) error
	RefundRequest(ctx context.Context, req admission.Request) (admission.Decision, error)
	Reset(ctx context.Context, req admission.Request, rule string) (admission.Decision, error)
	Explain(ctx context.Context, req admission.Request) (admission.Explanation, error)

	Rules() *admission.Rules
	Reload() (*admission.Rules, error)
	Stats() admission.Stats

	// Banned reads the process's memory only.
	Banned(req admission.Request) (b bans.Ban, left time.Duration, ok bool)
	Bans() []bans.Ban
	Ban(ctx context.Context, order bans.Order) (bans.Ban, error)
	Lift(ctx context.Context, target bans.Target) (ok bool, err error)
}

// BanHistory lists bans and their ends.
type BanHistory interface {
	// List returns up to limit events, the newest first: those after the one with the ID after, or from the newest if that is empty.
	List(ctx context.Context, after string, limit int) ([]bans.Event, error)
}

// FromService adapts a service to Orders.
func FromService(s *orders.Service) Orders { return service{s} }

type service struct{ *orders.Service }

// Prepare only differs in the type of its result, which Go does not convert in method signatures.
func (s service) Prepare(req orders.Request) (sales.Attempt, error) {
	attempt, err := s.Service.Prepare(req)
	if err != nil {
		return nil, err
	}
	return attempt, nil
}

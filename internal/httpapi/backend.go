package httpapi

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/orders"
)

// Orders is what the handlers ask of the sales and their orders.
// An *orders.Service is one through FromService.
type Orders interface {
	Prepare(orders.Request) (Attempt, error)

	Sale(ctx context.Context, sale string) (orders.SaleStatus, error)
	Sales(ctx context.Context, after string, limit int) ([]orders.SaleStatus, error)
	Order(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error)
	Wait(ctx context.Context, id orders.ID, v orders.Viewer, while orders.Status, wait time.Duration) (orders.Order, error)
	Orders(ctx context.Context, q orders.Query) ([]orders.Order, error)

	PutSale(ctx context.Context, def orders.Sale) (sale orders.SaleStatus, created bool, err error)
	SetSwitch(ctx context.Context, sale string, to orders.Switch) (orders.SaleStatus, error)
	Verify(ctx context.Context, sale string) ([]orders.Check, error)

	Cancel(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error)
	Capture(ctx context.Context, id orders.ID, reference string) (orders.Payment, error)
	Events(ctx context.Context, after int64, limit int, wait time.Duration) ([]orders.Event, error)
	DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error)
	Replay(ctx context.Context, id orders.ID) (orders.Order, error)

	Backlog(ctx context.Context) (orders.Backlog, error)
	InWork(ctx context.Context) (int, error)
	Committed() uint64

	Ready(ctx context.Context) error
}

// Attempt is one attempt to place an order, resolved and valid.
type Attempt interface {
	// Screen answers where the process knows the answer by itself.
	Screen() (out orders.Outcome, decided bool)
	// Remembered tells whether the process remembers an order that this repeats.
	Remembered() bool
	// Replay finds the order that this repeats and reserves nothing. It runs on when ctx ends.
	Replay(ctx context.Context) (out orders.Outcome, found bool, err error)
	// Reserve runs on when ctx ends: a hang-up must not leave a reservation half known.
	Reserve(ctx context.Context) (orders.Outcome, error)
}

// Gate decides who may come in, as an *admission.Gate does.
type Gate interface {
	// Charge and what changes counts run on when ctx ends: what was counted, somebody has to hear of.
	Charge(ctx context.Context, req admission.Request) (admission.Decision, error)
	// ChargeUnless asks excused before it refuses; who is excused is admitted uncounted.
	ChargeUnless(ctx context.Context, req admission.Request, excused func(context.Context) bool) (admission.Decision, error)
	Check(ctx context.Context, req admission.Request) (admission.Decision, error)
	Refund(ctx context.Context, d admission.Decision) error
	RefundRequest(ctx context.Context, req admission.Request) (admission.Decision, error)
	Reset(ctx context.Context, req admission.Request, rule string) (admission.Decision, error)
	Explain(ctx context.Context, req admission.Request) (admission.Explanation, error)

	Rules() *admission.Rules
	Reload() (*admission.Rules, error)
	Stats() admission.Stats

	// Banned asks nobody.
	Banned(req admission.Request) (b admission.Ban, left time.Duration, ok bool)
	Bans() []admission.Ban
	Ban(ctx context.Context, order admission.BanOrder) (admission.Ban, error)
	Lift(ctx context.Context, target admission.BanTarget) (ok bool, err error)
}

// BanHistory lists what became of bans.
type BanHistory interface {
	// List returns up to limit events, the newest first: those after the one with the ID after, or from the newest if that is empty.
	List(ctx context.Context, after string, limit int) ([]admission.BanEvent, error)
}

// FromService makes a service the Orders of an API.
func FromService(s *orders.Service) Orders { return service{s} }

type service struct{ *orders.Service }

// Prepare differs in its result's type only, which Go does not convert in a method's signature.
func (s service) Prepare(req orders.Request) (Attempt, error) {
	attempt, err := s.Service.Prepare(req)
	if err != nil {
		return nil, err
	}
	return attempt, nil
}

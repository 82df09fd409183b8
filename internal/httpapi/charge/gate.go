package charge

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
)

// Gate is what the API needs of an *admission.Gate. What changes counts continues when ctx is cancelled.
type Gate interface {
	Limit
	// ChargeUnless calls excused before it refuses a request; an excused request is admitted without being counted.
	ChargeUnless(ctx context.Context, req admission.Request, excused func(context.Context) bool) (admission.Decision, error)
	Refund(ctx context.Context, d admission.Decision) error
	Check(ctx context.Context, req admission.Request) (admission.Decision, error)
	RefundRequest(ctx context.Context, req admission.Request) (admission.Decision, error)
	Reset(ctx context.Context, req admission.Request, rule string) (admission.Decision, error)
	Explain(ctx context.Context, req admission.Request) (admission.Explanation, error)

	Rules() *rules.Set
	Reload() (*rules.Set, error)
	Stats() admission.Stats

	// Banned reads the process's memory only.
	Banned(req admission.Request) (b bans.Ban, left time.Duration, ok bool)
	Bans() []bans.Ban
	Ban(ctx context.Context, order bans.Order) (bans.Ban, error)
	Lift(ctx context.Context, target bans.Target) (ok bool, err error)
}

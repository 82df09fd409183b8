package httpapi

import (
	"context"
	"math"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
)

// charge asks the rules whether the caller may come in, and writes what they
// say into the answer's fields.
func (a *API) charge(ctx context.Context) error {
	r := requestOf(ctx)
	d, err := a.chargeGate(ctx, admission.Request{
		User:   r.caller.User,
		IP:     admissionhttp.ClientAddress(r.http, a.proxies),
		Tier:   r.caller.Tier,
		Route:  r.http.URL.Path,
		Method: r.http.Method,
	})
	if err != nil {
		return err
	}
	admissionhttp.WriteFields(r.header, &d)
	return denial(&d)
}

// chargeGate is where every charge of this process passes.
func (a *API) chargeGate(ctx context.Context, req admission.Request) (admission.Decision, error) {
	d, err := a.gate.Charge(ctx, req)
	if a.decided != nil && err == nil {
		a.decided(&req, &d)
	}
	return d, err
}

// denial is the problem that d is to who is refused, or nil. Header fields are admissionhttp's.
func denial(d *admission.Decision) error {
	if d.Admitted {
		return nil
	}
	p := problem(string(d.Reason))
	p.ViolatedPolicies = admissionhttp.Violated(d)
	return p
}

func ceilSeconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// ceilMS rounds up, so that nobody comes back too early.
func ceilMS(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

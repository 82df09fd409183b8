package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/loadshed"
)

// RequestOf returns the admission request for a request to this API.
func (a *API) RequestOf(r *request.Info) admission.Request {
	return admission.Request{
		User:   r.Caller.User,
		IP:     admissionhttp.ClientAddress(r.HTTP, a.proxies),
		Tier:   r.Caller.Tier,
		Route:  r.HTTP.URL.Path,
		Method: r.HTTP.Method,
	}
}

// Charge asks the rules about the request, and writes their result into the response's header fields. The returned context is
// for the remaining work: rules and remaining work share the time within; 0: no limit. It must be cancelled also after an
// error.
func (a *API) Charge(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc, error) {
	return a.ChargeUnless(ctx, within, nil)
}

// ChargeUnless is Charge, but does not refuse requests for which excused returns true. If a rule cannot decide the request,
// that is an error of the operator, and its text is not returned to the caller.
func (a *API) ChargeUnless(
	ctx context.Context, within time.Duration, excused func(context.Context) bool,
) (rest context.Context, cancel context.CancelFunc, err error) {
	r := request.Of(ctx)
	rest, cancel, err = a.chargeOrSolve(ctx, within, r, a.RequestOf(r), excused)
	if errors.Is(err, admission.ErrInvalidRequest) {
		p := problem.New(problem.Internal)
		p.Cause = err
		err = p
	}
	return rest, cancel, err
}

// chargeOrSolve charges req, unless it would be refused and excused returns true; nil excuses nothing. If only a challenge is
// missing and the caller sent a solution, the solution is verified and the request is charged again. It is not verified
// earlier, because a solution is valid only once, and verifying it costs more than charging.
func (a *API) chargeOrSolve(
	ctx context.Context, within time.Duration, r *request.Info, req admission.Request, excused func(context.Context) bool,
) (rest context.Context, cancel context.CancelFunc, err error) {
	var d admission.Decision
	if !r.Placing {
		defer func() {
			if err != nil || len(d.Rules) > 0 { // otherwise no rule applies to this request, and its result is not theirs
				a.Answered(err, "", func() admission.Request { return req })
			}
		}()
	}
	rest, cancel = loadshed.Bounded(ctx, within)
	d, err = a.chargeGate(rest, req, excused)
	if err == nil && d.Reason == admission.CaptchaRequired && a.captcha != nil {
		b := a.orderBinding(&req)
		token := r.HTTP.Header.Get(captchaField)
		admissionhttp.WriteFields(r.Header, &d) // of the refusal, unless the solution helps
		if token == "" {
			p := denied(&d)
			p.Challenge = a.ChallengeFor(b)
			return rest, cancel, p
		}
		err = a.limitCaptcha(rest, r, admission.Request{IP: req.IP, Route: SolutionRoute})
		if err == nil {
			err = r.Stay.Outside(func() error { return a.verifyCaptcha(ctx, token, b, req.IP) })
		}
		if err != nil {
			return rest, cancel, err
		}
		cancel()
		rest, cancel = loadshed.Bounded(ctx, within) // verifying may have used up the first deadline
		req.Solved = true
		d, err = a.chargeGate(rest, req, nil) // excused was called before
	}
	if err != nil {
		return rest, cancel, err
	}
	admissionhttp.WriteFields(r.Header, &d)
	r.Charged = d
	return rest, cancel, denial(&d)
}

// captchaField holds a solution.
const captchaField = "X-Captcha"

// chargeGate is the only place that charges requests in this process.
func (a *API) chargeGate(
	ctx context.Context, req admission.Request, excused func(context.Context) bool,
) (d admission.Decision, err error) {
	request.Of(ctx).Slot.Leave()
	began := time.Now()
	ctx, span := a.traceDecision(ctx)
	if excused == nil {
		d, err = a.gate.Charge(ctx, req)
	} else {
		d, err = a.gate.ChargeUnless(ctx, req, excused)
	}
	endDecision(span, &d, err)
	if err == nil && a.decided != nil {
		a.decided(&req, &d, time.Since(began))
	}
	return d, err
}

// chargeOnce is chargeGate for callers whose answer depends on nothing else.
func (a *API) chargeOnce(ctx context.Context, req admission.Request) (admission.Decision, error) {
	d, err := a.chargeGate(ctx, req, nil)
	if a.live != nil {
		said := err
		if err == nil {
			said = denial(&d)
		}
		a.Answered(said, d.Rule, func() admission.Request { return req })
	}
	return d, err
}

// denial returns the problem for a refusal d, or nil. admissionhttp writes the header fields.
func denial(d *admission.Decision) error {
	if d.Admitted {
		return nil
	}
	return denied(d)
}

func denied(d *admission.Decision) *problem.Problem {
	p := problem.New(string(d.Reason))
	p.ViolatedPolicies, p.Rule = admissionhttp.Violated(d), d.Rule
	return p
}

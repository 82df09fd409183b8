package httpapi

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
)

// requestAt is what the rules are asked about a request to this API.
func (a *API) requestAt(r *request) admission.Request {
	return admission.Request{
		User:   r.caller.User,
		IP:     admissionhttp.ClientAddress(r.http, a.proxies),
		Tier:   r.caller.Tier,
		Route:  r.http.URL.Path,
		Method: r.http.Method,
	}
}

// charge asks the rules whether the caller may come in, and writes what they say into the answer's fields. The context that it
// returns, to be cancelled also after an error, is for what remains: rules and that have within together, or any time if it is 0.
func (a *API) charge(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc, error) {
	return a.chargeUnless(ctx, within, nil)
}

// chargeUnless is charge, but whoever is excused is not refused. A rule that cannot decide such a request is the operator's mistake, and what
// it says is none of the caller's business.
func (a *API) chargeUnless(
	ctx context.Context, within time.Duration, excused func(context.Context) bool,
) (rest context.Context, cancel context.CancelFunc, err error) {
	r := requestOf(ctx)
	rest, cancel, err = a.chargeOrSolve(ctx, within, r, a.requestAt(r), excused)
	if errors.Is(err, admission.ErrInvalidRequest) {
		p := problem(reasonInternal)
		p.cause = err
		err = p
	}
	return rest, cancel, err
}

// chargeOrSolve charges req, unless it would be refused and is excused; nobody is if excused is nil. Where only a challenge is in the way
// and the caller has solved one, the solution is verified, and the request charged once more. Only then, because a solution is good once,
// and verifying it costs more than charging.
func (a *API) chargeOrSolve(
	ctx context.Context, within time.Duration, r *request, req admission.Request, excused func(context.Context) bool,
) (rest context.Context, cancel context.CancelFunc, err error) {
	var d admission.Decision
	if !r.placing {
		defer func() {
			if err != nil || len(d.Rules) > 0 { // else no rule is about this request, and how it ends is not theirs
				a.answered(err, "", func() admission.Request { return req })
			}
		}()
	}
	rest, cancel = bounded(ctx, within)
	d, err = a.chargeGate(rest, req, excused)
	if err == nil && d.Reason == admission.CaptchaRequired && a.captcha != nil {
		b := a.orderBinding(&req)
		token := r.http.Header.Get(captchaField)
		admissionhttp.WriteFields(r.header, &d) // of the refusal, in case that it stands
		if token == "" {
			p := denied(&d)
			p.Challenge = a.challengeFor(b)
			return rest, cancel, p
		}
		err = a.limitCaptcha(rest, r, admission.Request{IP: req.IP, Route: SolutionRoute})
		if err == nil {
			err = r.stay.outside(func() error { return a.verifyCaptcha(ctx, token, b, req.IP) })
		}
		if err != nil {
			return rest, cancel, err
		}
		cancel()
		rest, cancel = bounded(ctx, within) // to ask another provider takes longer than all else may
		req.Solved = true
		d, err = a.chargeGate(rest, req, nil) // it has been asked whether the request is excused
	}
	if err != nil {
		return rest, cancel, err
	}
	admissionhttp.WriteFields(r.header, &d)
	r.charged = d
	return rest, cancel, denial(&d)
}

// captchaField holds a solution.
const captchaField = "X-Captcha"

func bounded(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	if within == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, within)
}

// chargeGate is where every charge of this process passes.
func (a *API) chargeGate(
	ctx context.Context, req admission.Request, excused func(context.Context) bool,
) (d admission.Decision, err error) {
	requestOf(ctx).slot.leave()
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

// chargeOnce is chargeGate for whoever has nothing else to ask.
func (a *API) chargeOnce(ctx context.Context, req admission.Request) (admission.Decision, error) {
	d, err := a.chargeGate(ctx, req, nil)
	if a.live != nil {
		said := err
		if err == nil {
			said = denial(&d)
		}
		a.answered(said, d.Rule, func() admission.Request { return req })
	}
	return d, err
}

// denial is the problem that d is to who is refused, or nil. Header fields are admissionhttp's.
func denial(d *admission.Decision) error {
	if d.Admitted {
		return nil
	}
	return denied(d)
}

func denied(d *admission.Decision) *Problem {
	p := problem(string(d.Reason))
	p.ViolatedPolicies, p.rule = admissionhttp.Violated(d), d.Rule
	return p
}

func ceilSeconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// ceilMS rounds up, so that nobody comes back too early.
func ceilMS(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

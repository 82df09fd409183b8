package charge

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/challenge"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/lazydeadline"
	"github.com/tidegate/tidegate/internal/livepage"
)

// A Charger asks the rules about requests. It is safe for concurrent use once its fields are set.
type Charger struct {
	Gate       Gate
	Proxies    auth.Proxies
	Challenges *challenge.Handlers // nil: challenges cannot be solved
	// of challenges and solutions, independent of the rules; nil: none
	CaptchaLimit Limit
	Recorder     *livepage.Recorder                                           // nil: there is no page
	Tracer       trace.Tracer                                                 // nil: no spans
	Decided      func(*admission.Request, *admission.Decision, time.Duration) // nil: not called
	Errors       request.ErrorWriter
}

// A Limit charges requests, as an *admission.Gate does.
type Limit interface {
	// Charge continues when ctx is cancelled, because the result of a count must be recorded.
	Charge(ctx context.Context, req admission.Request) (admission.Decision, error)
}

// RequestOf returns the admission request for a request to this API.
func (c *Charger) RequestOf(r *request.Info) admission.Request { return r.Admission(c.Proxies) }

// Charge asks the rules about the request, and writes their result into the response's header fields. The returned context is
// for the remaining work: rules and remaining work share the time within; 0: no limit. It must be ended also after an error.
func (c *Charger) Charge(ctx context.Context, within time.Duration) (*lazydeadline.Context, error) {
	return c.ChargeUnless(ctx, within, nil)
}

// ChargeUnless is Charge, but does not refuse requests for which excused returns true. If a rule cannot decide the request,
// that is an error of the operator, and its text is not returned to the caller.
func (c *Charger) ChargeUnless(
	ctx context.Context, within time.Duration, excused func(context.Context) bool,
) (*lazydeadline.Context, error) {
	r := request.Of(ctx)
	rest, _, err := c.chargeOrSolve(ctx, within, r, c.RequestOf(r), nil, excused)
	return rest, ownFault(err)
}

// ownFault returns err, and for a request to this API that a rule cannot decide an internal problem: the operator's fault, not
// the caller's.
func ownFault(err error) error {
	if !errors.Is(err, admission.ErrInvalidRequest) {
		return err
	}
	p := problem.New(problem.Internal)
	p.Cause = err
	return p
}

// ChargeOnly is Charge for a request whose remaining work has no deadline.
func (c *Charger) ChargeOnly(ctx context.Context) error {
	rest, err := c.Charge(ctx, 0)
	rest.End()
	return err
}

// Middleware charges an operation before its handler runs.
func (c *Charger) Middleware(ctx huma.Context, next func(huma.Context)) {
	if err := c.ChargeOnly(ctx.Context()); err != nil {
		c.Errors.Fail(humaecho.Unwrap(ctx), err)
		return
	}
	next(ctx)
}

// EchoMiddleware is Middleware for routes that are not registered with Huma.
func (c *Charger) EchoMiddleware(next echo.HandlerFunc) echo.HandlerFunc {
	return func(e echo.Context) error {
		if err := c.ChargeOnly(e.Request().Context()); err != nil {
			return err
		}
		return next(e)
	}
}

// ChargeAndSolve asks the rules, and then needs a solution for b if needed returns true. The same solution answers rules that challenge the
// request. The rules come first, because needed may read a store, a solution is valid only once, and verifying it costs more than charging.
func (c *Charger) ChargeAndSolve(ctx context.Context, b captcha.Binding, needed func() (bool, error)) error {
	r := request.Of(ctx)
	req := c.RequestOf(r)
	rest, solved, err := c.chargeOrSolve(ctx, 0, r, req, &b, nil)
	rest.End()
	if err != nil || solved {
		return ownFault(err)
	}
	if yes, err := needed(); err != nil || !yes {
		return err
	}
	token := r.HTTP.Header.Get(challenge.SolutionField)
	if token == "" {
		p := problem.New(string(admission.CaptchaRequired))
		p.Challenge = c.Challenges.ChallengeFor(b)
		return p
	}
	if err := c.limitCaptcha(ctx, r, admission.Request{IP: req.IP, Route: SolutionRoute}); err != nil {
		return err
	}
	return c.Challenges.Verify(ctx, token, b, req.IP)
}

// ChargeFor charges req, which a gateway asks about with the request of ctx.
func (c *Charger) ChargeFor(ctx context.Context, req admission.Request) error {
	rest, _, err := c.chargeOrSolve(ctx, 0, request.Of(ctx), req, nil, nil)
	rest.End()
	return err
}

// chargeOrSolve charges req, unless it would be refused and excused returns true; nil excuses nothing. If only a challenge is
// missing and the caller sent a solution for b (nil: for orders), the solution is verified and the request is charged again. It
// is not verified earlier, because a solution is valid only once, and verifying it costs more than charging.
func (c *Charger) chargeOrSolve(
	ctx context.Context, within time.Duration, r *request.Info, req admission.Request, b *captcha.Binding, excused func(context.Context) bool,
) (rest *lazydeadline.Context, solved bool, err error) {
	r.Asked = req
	d := &r.Charged
	if !r.Placing {
		defer func() {
			if err != nil || len(d.Rules) > 0 { // otherwise no rule applies to this request, and its result is not theirs
				c.answered(r, &r.Asked, err, "")
			}
		}()
	}
	rest = lazydeadline.Within(ctx, within)
	err = c.charge(rest, &r.Asked, d, excused)
	if err == nil && d.Reason == admission.CaptchaRequired && c.Challenges != nil {
		if b == nil {
			b = new(c.Challenges.OrderBinding(&req))
		}
		token := r.HTTP.Header.Get(challenge.SolutionField)
		admissionhttp.WriteFields(r.Header, d) // of the refusal, unless the solution helps
		if token == "" {
			return rest, false, denial(d, c.Challenges.ChallengeFor(*b))
		}
		err = c.limitCaptcha(rest, r, admission.Request{IP: req.IP, Route: SolutionRoute})
		if err == nil {
			err = r.Stay.Outside(func() error { return c.Challenges.Verify(ctx, token, *b, req.IP) })
		}
		if err != nil {
			return rest, false, err
		}
		rest.End()
		rest = lazydeadline.Within(ctx, within) // verifying may have used up the first deadline
		r.Asked.Solved = true
		err = c.charge(rest, &r.Asked, d, nil) // excused was called before
		delete(r.Header, "Retry-After")        // was for requests without a solution
	}
	if err != nil {
		return rest, false, err
	}
	admissionhttp.WriteFields(r.Header, d)
	return rest, r.Asked.Solved, denial(d, nil)
}

// charge is the only place that charges requests in this process. It sets d, and retains neither pointer.
func (c *Charger) charge(ctx context.Context, req *admission.Request, d *admission.Decision, excused func(context.Context) bool) (err error) {
	request.Of(ctx).Slot.Leave()
	began := time.Now()
	ctx, span := c.startSpan(ctx)
	if excused == nil {
		*d, err = c.Gate.Charge(ctx, *req)
	} else {
		*d, err = c.Gate.ChargeUnless(ctx, *req, excused)
	}
	endSpan(span, d, err)
	if err == nil && c.Decided != nil {
		c.Decided(req, d, time.Since(began))
	}
	return err
}

// Decide charges req for a caller whose answer depends on nothing else. A denial is not an error.
func (c *Charger) Decide(ctx context.Context, req admission.Request) (admission.Decision, error) {
	var d admission.Decision
	err := c.charge(ctx, &req, &d, nil)
	if c.Recorder != nil {
		answer := err
		if err == nil {
			answer = denial(&d, nil)
		}
		c.answered(request.Of(ctx), &req, answer, d.Rule)
	}
	return d, err
}

// Answered records for the page how a request to this API ended.
func (c *Charger) Answered(r *request.Info, err error) { c.answered(r, nil, err, "") }

// answered is Answered for what the rules were asked, or nil: about r itself.
func (c *Charger) answered(r *request.Info, req *admission.Request, err error, rule string) {
	if c.Recorder == nil {
		return
	}
	answer := livepage.Admitted
	if err != nil {
		p := problem.Of(err)
		if answer = p.Reason; rule == "" {
			rule = p.Rule
		}
	}
	if !c.Recorder.Answered(answer, time.Since(r.Began)) {
		return
	}
	if req == nil {
		req = new(c.RequestOf(r))
	}
	c.Recorder.Show(answer, rule, req)
}

// denial returns the problem for a refusal d, with the challenge to solve if that is not nil. For an admitted request it returns nil.
// admissionhttp writes the header fields.
func denial(d *admission.Decision, solve *problem.ChallengeView) error {
	if d.Admitted {
		return nil
	}
	p := problem.New(string(d.Reason))
	p.ViolatedPolicies, p.Rule, p.Challenge = admissionhttp.Violated(d), d.Rule, solve
	return p
}

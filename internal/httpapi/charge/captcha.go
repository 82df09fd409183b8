package charge

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/internal/httpapi/request"
)

// SolutionRoute is the route under which CaptchaLimit counts solutions before they are verified. Otherwise thousands of invalid
// solutions would each cause a call to an external provider, which would finally refuse to answer.
const SolutionRoute = "/x-captcha"

// ChallengeMiddleware charges requests for challenges. They count as solved: a rule that challenges them would make solving
// impossible.
func (c *Charger) ChallengeMiddleware(ctx huma.Context, next func(huma.Context)) {
	r := request.Of(ctx.Context())
	req := c.RequestOf(r)
	req.Solved = true
	err := c.limitCaptcha(ctx.Context(), r, req)
	if err == nil {
		var d admission.Decision
		if d, err = c.Decide(ctx.Context(), req); err == nil {
			admissionhttp.WriteFields(r.Header, &d)
			err = denial(&d, nil)
		}
	}
	if err != nil {
		c.Errors.Fail(humaecho.Unwrap(ctx), err)
		return
	}
	next(ctx)
}

// limitCaptcha charges CaptchaLimit, which is independent of the rules. Only refusals write header fields.
func (c *Charger) limitCaptcha(ctx context.Context, r *request.Info, req admission.Request) error {
	if c.CaptchaLimit == nil {
		return nil
	}
	d, err := c.CaptchaLimit.Charge(ctx, req)
	if err == nil && !d.Admitted {
		admissionhttp.WriteFields(r.Header, &d)
		err = denial(&d, nil)
	}
	return err
}

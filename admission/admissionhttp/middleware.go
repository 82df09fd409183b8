package admissionhttp

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/httpproblem"
)

// Gate makes the decisions; *admission.Gate implements it.
type Gate interface {
	Charge(ctx context.Context, req admission.Request) (admission.Decision, error)
}

// Middleware charges every request at the gate and passes admitted requests to next. requestOf builds the admission.Request; if it
// returns an error, the response is 400. The header fields of the decision are set before the next handler runs. That handler gets the
// decision with DecisionOf.
func Middleware(gate Gate, requestOf func(*http.Request) (admission.Request, error)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			req, err := requestOf(r)
			if err != nil {
				Fail(w, errors.Join(admission.ErrInvalidRequest, err))
				return
			}
			d, err := gate.Charge(r.Context(), req)
			switch {
			case err != nil:
				Fail(w, err)
			case !d.Admitted:
				Refuse(w, &d)
			default:
				WriteFields(w.Header(), &d)
				next.ServeHTTP(w, r.WithContext(WithDecision(r.Context(), d)))
			}
		})
	}
}

type decisionKey struct{}

// WithDecision returns a context from which DecisionOf gets d. Middleware calls it.
func WithDecision(ctx context.Context, d admission.Decision) context.Context {
	return context.WithValue(ctx, decisionKey{}, d)
}

// DecisionOf returns the decision that admitted a request, for admission.Gate.Refund. ok is false if the request did not pass a gate.
func DecisionOf(ctx context.Context) (d admission.Decision, ok bool) {
	d, ok = ctx.Value(decisionKey{}).(admission.Decision)
	return d, ok
}

// Refuse answers with a denial: 429 if a limit was exceeded, otherwise 403.
func Refuse(w http.ResponseWriter, d *admission.Decision) {
	p := httpproblem.Problem{Type: "about:blank", Status: http.StatusForbidden, Reason: string(d.Reason)}
	switch d.Reason {
	case admission.RateLimited, admission.CostAboveLimit:
		p.Type = "https://iana.org/assignments/http-problem-types#quota-exceeded"
		p.Status = http.StatusTooManyRequests
	}
	p.ViolatedPolicies = Violated(d)
	WriteFields(w.Header(), d)
	_ = p.Write(w) // fails if the client hung up; nothing to do then
}

// Fail answers to an error of a gate: 400 for admission.ErrInvalidRequest, 503 for all others. The error's text is not sent.
func Fail(w http.ResponseWriter, err error) {
	p := httpproblem.Problem{Type: "about:blank", Status: http.StatusServiceUnavailable, Reason: "store_unavailable"}
	if errors.Is(err, admission.ErrInvalidRequest) {
		p.Status, p.Reason = http.StatusBadRequest, "invalid"
	} else {
		w.Header()["Retry-After"] = []string{"1"}
	}
	_ = p.Write(w) // as above
}

// Violated returns the public names of the rules that refused, each once, in the order of the file. Rules that are not public are left
// out.
func Violated(d *admission.Decision) []string {
	var names []string
	for i := range d.Rules {
		if v := &d.Rules[i]; !v.Admitted && !v.Shadow && v.Public != "" && !slices.Contains(names, v.Public) {
			names = append(names, v.Public)
		}
	}
	return names
}

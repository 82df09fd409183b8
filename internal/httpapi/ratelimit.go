package httpapi

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/admission"
)

// charge asks the rules whether the caller may come in, and writes what they
// say into the answer's fields.
func (a *API) charge(ctx context.Context) error {
	r := requestOf(ctx)
	d, err := a.gate.Charge(ctx, admission.Request{
		User:   r.caller.User,
		IP:     clientAddress(peerAddress(r.http.RemoteAddr), r.http.Header.Values("X-Forwarded-For"), a.proxies),
		Tier:   r.caller.Tier,
		Route:  r.http.URL.Path,
		Method: r.http.Method,
	})
	if err != nil {
		return err
	}
	rateLimitFields(r.header, &d)
	if d.Admitted {
		return nil
	}
	p := problem(string(d.Reason))
	p.retryAfter = d.RetryAfter
	for _, v := range d.Rules {
		if violated(&v) && !slices.Contains(p.ViolatedPolicies, v.Rule) {
			p.ViolatedPolicies = append(p.ViolatedPolicies, v.Rule)
		}
	}
	return p
}

func violated(v *admission.Verdict) bool { return !v.Admitted && !v.Shadow }

// rateLimitFields writes RateLimit-Policy and RateLimit as in
// draft-ietf-httpapi-ratelimit-headers-11: one item for each window. A refusal
// reports only the windows that refused, because the others' t would
// outlast Retry-After and mean nothing to the caller.
func rateLimitFields(header http.Header, d *admission.Decision) {
	var policy, limit []byte
	for i := range d.Rules {
		v := &d.Rules[i]
		if v.Shadow || v.Limit == admission.Unlimited {
			continue
		}
		policy = item(policy, v.Rule)
		policy = parameter(policy, ";q=", int64(v.Limit))
		policy = parameter(policy, ";w=", max(1, ceilSeconds(v.Window)))
		if !d.Admitted && v.Admitted {
			continue
		}
		limit = item(limit, v.Rule)
		limit = parameter(limit, ";r=", int64(max(0, v.Remaining)))
		reset := v.ResetAfter
		if !v.Admitted {
			reset = v.RetryAfter
		}
		if reset > 0 {
			limit = parameter(limit, ";t=", ceilSeconds(reset))
		}
	}
	if policy != nil {
		header["Ratelimit-Policy"] = []string{string(policy)}
		header["Ratelimit"] = []string{string(limit)}
	}
}

// item begins a member of the list. A rule's name needs no escaping in a quoted string.
func item(list []byte, rule string) []byte {
	if list != nil {
		list = append(list, ", "...)
	}
	list = append(list, '"')
	list = append(list, rule...)
	return append(list, '"')
}

func parameter(list []byte, name string, value int64) []byte {
	return strconv.AppendInt(append(list, name...), value, 10)
}

func ceilSeconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// Package admissionhttp puts an admission.Gate in front of net/http handlers, and writes decisions into header fields.
//
//	admit := admissionhttp.Middleware(gate, func(r *http.Request) (admission.Request, error) {
//		return admission.Request{User: userOf(r), Route: r.URL.Path, Method: r.Method}, nil
//	})
//	http.ListenAndServe(":8080", admit(mux))
//
// # Model
//
// [Middleware] passes on the requests that the gate admits. All others are answered with a problem (RFC 9457) whose `reason` is a reason
// of package admission:
//
//	429  rate_limited, cost_above_limit     with the names of public rules in `violated-policies`
//	403  banned, forbidden, captcha_required
//	400  invalid                            the request cannot be attributed to a caller
//	503  store_unavailable                  no decision could be made
//
// RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-11) report the windows of the matching rules, also for admitted
// requests. Refusals have Retry-After where waiting helps, and Cache-Control: no-store.
package admissionhttp

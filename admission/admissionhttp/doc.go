// Package admissionhttp puts an admission.Gate in front of net/http handlers, and writes decisions into header fields.
//
// [Middleware] lets in what the gate admits. All else gets a problem (RFC 9457) with a `reason`, the word of package admission:
//
//	429  rate_limited, cost_above_limit     with the names of public rules in `violated-policies`
//	403  banned, forbidden, captcha_required
//	400  invalid                            there is no telling whom the request is from
//	503  store_unavailable                  no decision could be made
//
// What rules counted stands in RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-11), also when the request was
// admitted. Refusals have Retry-After, where waiting helps, and Cache-Control: no-store.
package admissionhttp

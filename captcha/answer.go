package captcha

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/bounded"
)

// An answer is a provider's response about a token.
type answer struct {
	Success  bool     `json:"success"`
	Hostname string   `json:"hostname"`
	Action   string   `json:"action"`
	CData    string   `json:"cdata"`
	Score    *float64 `json:"score"`
	Errors   []string `json:"error-codes"`
}

// errCrowd is an ErrProvider that does not count as an outage.
var errCrowd = fmt.Errorf("%w: too many pending verifications", ErrProvider)

// ask sends a token to the provider. Any response that is not clearly an answer is an ErrProvider. ask does not end with ctx: callers
// have shorter deadlines than siteVerifyWithin, and the provider's silence must be counted even if they do not wait for it.
func (v *SiteVerify) ask(ctx context.Context, token string, ip netip.Addr) (answer, error) {
	select {
	case v.asking <- struct{}{}:
		defer func() { <-v.asking }()
	default:
		return answer{}, errCrowd
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), siteVerifyWithin)
	defer cancel()
	form := url.Values{"secret": {v.opts.Secret}, "response": {token}, "sitekey": {v.opts.SiteKey}}
	if ip.IsValid() {
		form.Set("remoteip", ip.Unmap().WithZone("").String())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.site.verify, strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	a, err := v.call(req)
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrProvider, err)
	}
	return a, nil
}

func (v *SiteVerify) call(req *http.Request) (a answer, err error) {
	resp, err := v.client.Do(req)
	if err != nil {
		return a, fmt.Errorf("ask %s: %w", v.site.name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return a, fmt.Errorf("%s answered %d", v.site.name, resp.StatusCode)
	}
	body, err := bounded.Read(resp.Body, maxAnswer)
	if err != nil {
		return a, fmt.Errorf("read the response of %s: %w", v.site.name, err)
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fmt.Errorf("read the response of %s: %w", v.site.name, err)
	}
	return a, nil
}

// alive returns nil or an ErrRefused if the provider judges tokens: a provider that refuses an invalid token works.
func (v *SiteVerify) alive(ctx context.Context) error {
	a, err := v.ask(ctx, "is-anybody-there", netip.Addr{})
	if err != nil {
		return err
	}
	return v.judge(&a, &Binding{})
}

// faults are the error codes that no token can cause. Clients can cause all others by their tokens, so those must not count as an outage:
// otherwise three tokens of a foreign site would disable the provider.
var faults = []string{"missing-input-secret", "invalid-input-secret", "internal-error"}

// causesOf maps the error codes about the token to causes. timeout-or-duplicate does not distinguish between the two.
var causesOf = map[string]Cause{
	"missing-input-response":           CauseMalformed,
	"invalid-input-response":           CauseWrong,
	"timeout-or-duplicate":             CauseExpired,
	"expired-input-response":           CauseExpired,
	"already-seen-response":            CauseUsed,
	"invalid-or-already-seen-response": CauseUsed,
	"sitekey-secret-mismatch":          CauseForeign,
	"invalid-keys":                     CauseForeign,
	"missing-remoteip":                 CauseWrong,
	"invalid-remoteip":                 CauseWrong,
}

// judge returns the result of an answer for b.
func (v *SiteVerify) judge(a *answer, b *Binding) error {
	if !a.Success {
		for _, code := range a.Errors {
			if slices.Contains(faults, code) {
				return fmt.Errorf("%w: %s returned %.200q", ErrProvider, v.site.name, a.Errors)
			}
		}
		for _, code := range a.Errors {
			if c, ok := causesOf[code]; ok {
				return refused(c)
			}
		}
		return refused(CauseWrong)
	}
	switch {
	case !slices.Contains(v.opts.Hostnames, strings.ToLower(a.Hostname)):
		return refused(CauseForeign)
	case v.site.bound && (a.Action != v.action(b) || !b.isFor(a.CData, cdata)):
		return refused(CauseForeign)
	case !v.site.scored || a.Score == nil: // keys of reCAPTCHA v2 have neither
		return nil
	case a.Action != v.action(b):
		return refused(CauseForeign)
	case *a.Score < v.minScore:
		return refused(CauseWrong)
	}
	return nil
}

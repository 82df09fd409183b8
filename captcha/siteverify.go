package captcha

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	siteVerifyWithin = 3 * time.Second
	maxAnswer        = 64 << 10
	defaultMinScore  = 0.5
	// maxAsking is how many tokens may be with the provider at a time.
	maxAsking = 64
	// siteTokenLife is longer than a token of any provider is good for: 5 minutes at most.
	siteTokenLife = 15 * time.Minute
)

// A site is what is known of a provider. The hosts are these and no others, so that no setting can make a process call its own network.
type site struct {
	verify  string // URL
	longest int    // token
	bound   bool   // names the action and the cdata of its token
}

var sites = map[string]site{
	"turnstile": {"https://challenges.cloudflare.com/turnstile/v0/siteverify", 2048, true},
	"hcaptcha":  {"https://api.hcaptcha.com/siteverify", 8192, false},
	"recaptcha": {"https://www.google.com/recaptcha/api/siteverify", 8192, false},
}

// SiteVerifyOptions are those of a SiteVerify.
type SiteVerifyOptions struct {
	// Provider is turnstile, hcaptcha or recaptcha. Required.
	Provider string
	// SiteKey is the one that pages show. Required.
	SiteKey string
	// Secret is the provider's, for this site. Required.
	Secret string
	// Hostnames of the pages whose tokens count, such as shop.example. Required: the site key is public, and may stand on anybody's page.
	Hostnames []string
	// Used remembers tokens, besides the provider. Required; all processes share one.
	Used Used
	// MinScore is the lowest score of reCAPTCHA v3 that passes, 0 to 1. Zero means 0.5. Keys of v2 have no score.
	MinScore float64
	// Transport carries requests to the provider. Nil means http.DefaultTransport.
	Transport http.RoundTripper
}

// SiteVerify is a provider that others run. Made by NewSiteVerify; safe for concurrent use.
type SiteVerify struct {
	name     string
	site     site
	opts     SiteVerifyOptions
	client   http.Client
	minScore float64
	asking   chan struct{} // as many as are asked about now
	tally    tally
}

// NewSiteVerify returns a provider. It starts nothing and asks nobody. How far a token is tied to its binding is up to the provider:
//
//   - Turnstile: the page gives the widget the challenge's action and cdata, and both are verified: purpose and subject.
//   - reCAPTCHA v3: the action, so the purpose. A v2 key has none, then the token is tied to the site only.
//   - hCaptcha: to the site only.
//
// Of a token that is tied to the site only, anybody who has it may use it, once, for any purpose.
func NewSiteVerify(o SiteVerifyOptions) (*SiteVerify, error) {
	s, ok := sites[o.Provider]
	switch {
	case !ok:
		return nil, fmt.Errorf("captcha: Provider is %.40q, should be turnstile, hcaptcha or recaptcha", o.Provider)
	case o.SiteKey == "" || o.Secret == "":
		return nil, errors.New("captcha: NewSiteVerify needs SiteKey and Secret")
	case len(o.Hostnames) == 0:
		return nil, errors.New("captcha: NewSiteVerify needs Hostnames")
	case o.Used == nil:
		return nil, errors.New("captcha: NewSiteVerify needs Used")
	case !(o.MinScore >= 0 && o.MinScore <= 1):
		return nil, fmt.Errorf("captcha: MinScore is %v, should be 0 to 1", o.MinScore)
	}
	o.Hostnames = slices.Clone(o.Hostnames)
	for i, name := range o.Hostnames {
		if o.Hostnames[i] = strings.ToLower(name); name == "" || strings.ContainsAny(name, ":/* ") {
			return nil, fmt.Errorf("captcha: Hostnames has %.100q, should be a name such as shop.example", name)
		}
	}
	v := &SiteVerify{name: o.Provider, site: s, opts: o, minScore: o.MinScore, asking: make(chan struct{}, maxAsking)}
	if v.minScore == 0 {
		v.minScore = defaultMinScore
	}
	v.client = http.Client{
		Transport: o.Transport,
		// The secret goes to the provider's own address and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return v, nil
}

// Name implements Provider.
func (v *SiteVerify) Name() string { return v.name }

// Stats returns what was counted.
func (v *SiteVerify) Stats() Stats { return Stats{Providers: []ProviderStats{v.tally.stats(v.name)}} }

// Challenge implements Provider. Its JSON is what the page gives to the provider's own script. It asks nobody.
func (v *SiteVerify) Challenge(_ context.Context, b Binding) (Challenge, error) {
	if err := b.validate(); err != nil {
		return Challenge{}, err
	}
	c := struct {
		Provider string `json:"provider"`
		SiteKey  string `json:"sitekey"`
		Action   string `json:"action"`
		CData    string `json:"cdata,omitempty"`
	}{Provider: v.name, SiteKey: v.opts.SiteKey, Action: v.action(&b)}
	if v.site.bound {
		c.CData = cdata(b.Purpose, b.Subject)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return Challenge{}, fmt.Errorf("captcha: encode a challenge: %w", err)
	}
	v.tally.challenges.Add(1)
	return Challenge{v.name, text}, nil
}

// action is how the provider names a purpose: reCAPTCHA takes no "-".
func (v *SiteVerify) action(b *Binding) string {
	if v.name == "recaptcha" {
		return strings.ReplaceAll(b.Purpose, "-", "_")
	}
	return b.Purpose
}

// cdata is how a token names its subject. A subject that is a keyed hash cannot be found from it.
func cdata(purpose, subject string) string {
	return base64.RawURLEncoding.EncodeToString(keyed([]byte("captcha/cdata"), purpose, subject)[:16])
}

// Verify implements Provider. It takes at most 3 s, besides the time of Used. The provider is given these also where ctx ends before; then
// nothing is proved, and nothing marked as used.
func (v *SiteVerify) Verify(ctx context.Context, token string, b Binding, ip netip.Addr) error {
	if err := b.validate(); err != nil {
		return err
	}
	return v.tally.verified(v.verify(ctx, token, &b, ip))
}

func (v *SiteVerify) verify(ctx context.Context, token string, b *Binding, ip netip.Addr) error {
	if !v.mayBe(token) {
		return refused(CauseMalformed)
	}
	a, err := v.ask(ctx, token, ip)
	if err != nil {
		return err
	}
	if err := v.judge(&a, b); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // nobody is left to let in
		return fmt.Errorf("%w: the caller has gone: %w", ErrUnavailable, err)
	}
	return spend(ctx, v.opts.Used, v.name, token, siteTokenLife)
}

// mayBe reports whether token looks like one of the provider's. It is not asked about others.
func (v *SiteVerify) mayBe(token string) bool {
	return len(token) <= v.site.longest && printable(token)
}

// printable reports whether token is one or more visible ASCII characters.
func printable(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

package captcha

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/keyhash"
)

const (
	siteVerifyWithin = 3 * time.Second
	maxAnswer        = 64 << 10
	defaultMinScore  = 0.5
	// maxAsking is the maximum number of concurrent calls to the provider.
	maxAsking = 64
	// siteTokenLife is longer than any provider's tokens are valid: 5 minutes at most.
	siteTokenLife = 15 * time.Minute
)

// A site is the description of a provider. The hosts are constants, so that no setting can make a process call its internal network.
type site struct {
	name    string
	verify  string // URL
	longest int    // maximum length of a token
	bound   bool   // responses contain the action and the cdata of a token
	scored  bool   // responses may contain the action and a score, of keys that have them; hCaptcha's score has another meaning
}

var sites = []site{
	{"turnstile", "https://challenges.cloudflare.com/turnstile/v0/siteverify", 2048, true, false},
	{"hcaptcha", "https://api.hcaptcha.com/siteverify", 8192, false, false},
	{"recaptcha", "https://www.google.com/recaptcha/api/siteverify", 8192, false, true},
}

// Own is the name of a ProofOfWork.
const Own = "altcha"

// Providers returns the names of all third-party providers.
func Providers() []string {
	names := make([]string, len(sites))
	for i := range sites {
		names[i] = sites[i].name
	}
	return names
}

// SiteVerifyOptions are the options of a SiteVerify.
type SiteVerifyOptions struct {
	// Provider is one of Providers. Required.
	Provider string
	// SiteKey is the public key for pages. Required.
	SiteKey string
	// Secret is the secret that the provider issued for this site. Required.
	Secret string
	// Hostnames of the pages whose tokens are accepted, such as shop.example. Required: the site key is public, and any page can use it.
	Hostnames []string
	// Used records used tokens, in addition to the provider. Required; shared by all processes.
	Used Used
	// MinScore is the lowest score of reCAPTCHA v3 that passes, 0 to 1. Zero means 0.5. Keys of v2 have no score.
	MinScore float64
	// Transport carries requests to the provider. Nil means http.DefaultTransport.
	Transport http.RoundTripper
}

// A SiteVerify is a third-party provider. Make it with NewSiteVerify; it is safe for concurrent use.
type SiteVerify struct {
	site     site
	opts     SiteVerifyOptions
	client   http.Client
	minScore float64
	asking   chan struct{} // semaphore for concurrent calls to the provider
	tally    tally
}

// NewSiteVerify returns a provider. It starts no goroutine and makes no network call. How far a token is tied to its binding depends on
// the provider:
//
//   - Turnstile: to purpose and subject. The page passes the challenge's action and cdata to the widget, and both are verified.
//   - reCAPTCHA v3: to the purpose, by the action. With a v2 key, which has no action, only to the site.
//   - hCaptcha: to the site only.
//
// A token that is tied to the site only can be used once by anybody, for any purpose.
func NewSiteVerify(o SiteVerifyOptions) (*SiteVerify, error) {
	i := slices.Index(Providers(), o.Provider)
	switch {
	case i < 0:
		return nil, fmt.Errorf("captcha: Provider must be one of %s, got %.40q", strings.Join(Providers(), ", "), o.Provider)
	case o.SiteKey == "" || o.Secret == "":
		return nil, errors.New("captcha: NewSiteVerify requires SiteKey and Secret")
	case len(o.Hostnames) == 0:
		return nil, errors.New("captcha: NewSiteVerify requires Hostnames")
	case o.Used == nil:
		return nil, errors.New("captcha: NewSiteVerify requires Used")
	case !(o.MinScore >= 0 && o.MinScore <= 1):
		return nil, fmt.Errorf("captcha: MinScore must be 0 to 1, got %v", o.MinScore)
	}
	o.Hostnames = slices.Clone(o.Hostnames)
	for i, name := range o.Hostnames {
		if o.Hostnames[i] = strings.ToLower(name); name == "" || strings.ContainsAny(name, ":/* ") {
			return nil, fmt.Errorf("captcha: Hostnames must be names such as shop.example, got %.100q", name)
		}
	}
	v := &SiteVerify{site: sites[i], opts: o, minScore: o.MinScore, asking: make(chan struct{}, maxAsking)}
	if v.minScore == 0 {
		v.minScore = defaultMinScore
	}
	v.client = http.Client{
		Transport: o.Transport,
		// The secret must only be sent to the provider's own address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return v, nil
}

// Name implements Provider.
func (v *SiteVerify) Name() string { return v.site.name }

// Stats returns the current statistics.
func (v *SiteVerify) Stats() Stats {
	return Stats{Providers: []ProviderStats{v.tally.stats(v.site.name)}}
}

// Challenge implements Provider. Its JSON is what the page passes to the provider's script. It makes no network call.
func (v *SiteVerify) Challenge(_ context.Context, b Binding) (Challenge, error) {
	if err := b.validate(); err != nil {
		return Challenge{}, err
	}
	c := struct {
		Provider string `json:"provider"`
		SiteKey  string `json:"sitekey"`
		Action   string `json:"action"`
		CData    string `json:"cdata,omitempty"`
	}{Provider: v.site.name, SiteKey: v.opts.SiteKey, Action: v.action(&b)}
	if v.site.bound {
		c.CData = cdata(b.Purpose, b.Subject)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return Challenge{}, fmt.Errorf("captcha: encode a challenge: %w", err)
	}
	v.tally.challenges.Add(1)
	return Challenge{v.site.name, text}, nil
}

// action returns the provider's form of a purpose: reCAPTCHA does not allow "-".
func (v *SiteVerify) action(b *Binding) string {
	if v.site.name == "recaptcha" {
		return strings.ReplaceAll(b.Purpose, "-", "_")
	}
	return b.Purpose
}

var cdataKey = keyhash.New([]byte("captcha/cdata"))

// cdata returns the hash of a subject in a token. It does not reveal the subject.
func cdata(purpose, subject string) string {
	return cdataKey.Hash(purpose, subject).String()
}

// Verify implements Provider. It takes at most 3 s, plus the time of Used. The call to the provider continues if ctx ends earlier; the
// token is then neither accepted nor marked as used.
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
	if err := ctx.Err(); err != nil { // the caller has gone
		return fmt.Errorf("%w: the caller disconnected: %w", ErrUnavailable, err)
	}
	return spend(ctx, v.opts.Used, v.site.name, token, siteTokenLife)
}

// mayBe reports whether token may be one of the provider's. Others are refused without a call.
func (v *SiteVerify) mayBe(token string) bool {
	return len(token) <= v.site.longest && printable(token)
}

// printable reports whether token consists of one or more visible ASCII characters.
func printable(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

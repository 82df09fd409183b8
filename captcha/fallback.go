package captcha

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/breaker"
)

const (
	defaultFailures = 3
	fallbackPause   = 30 * time.Second // until the provider is tried again
)

// FallbackOptions are the options of a Fallback. The zero value is usable.
type FallbackOptions struct {
	// Failures is the number of consecutive failures after which the provider counts as unavailable. Zero means 3.
	Failures int
	// Logger gets a message when the provider does not answer, becomes unavailable and recovers. Nil means slog.Default().
	Logger *slog.Logger
}

// A Fallback uses a third-party provider, and a proof of work while that provider is unavailable. Make it with NewFallback; it is safe
// for concurrent use.
//
// The provider counts as unavailable after several consecutive verifications failed. From then on challenges are proofs of work, and
// tokens of the provider get ErrFellBack. After each pause one caller in this process probes the provider. Each process decides
// separately.
type Fallback struct {
	primary *SiteVerify
	proof   *ProofOfWork
	opts    FallbackOptions
	breaker *breaker.Breaker
}

// NewFallback returns a provider that uses primary, with proof as its substitute. It starts nothing.
func NewFallback(primary *SiteVerify, proof *ProofOfWork, o FallbackOptions) (*Fallback, error) {
	if primary == nil || proof == nil {
		return nil, errors.New("captcha: NewFallback requires both providers")
	}
	if o.Failures < 0 {
		return nil, fmt.Errorf("captcha: Failures must be positive, got %d", o.Failures)
	}
	if o.Failures == 0 {
		o.Failures = defaultFailures
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Fallback{primary: primary, proof: proof, opts: o, breaker: breaker.New(o.Failures, fallbackPause)}, nil
}

// Name implements Provider.
func (f *Fallback) Name() string { return f.current().Name() }

func (f *Fallback) current() Provider {
	if f.breaker.Open() {
		return f.proof
	}
	return f.primary
}

// Stats returns the statistics of both providers.
func (f *Fallback) Stats() Stats {
	return Stats{
		Providers: append(f.primary.Stats().Providers, f.proof.Stats().Providers...),
		Fallback:  f.breaker.Open(),
	}
}

// Challenge implements Provider. A caller that probes the provider waits for the result, 3 s at most.
func (f *Fallback) Challenge(ctx context.Context, b Binding) (Challenge, error) {
	if f.breaker.Probes() {
		f.record(ctx, f.primary.alive(ctx))
	}
	return f.current().Challenge(ctx, b)
}

// record records the outcome of a call to the provider.
func (f *Fallback) record(ctx context.Context, err error) {
	switch {
	case errors.Is(err, errCrowd), err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrProvider):
		// The error is not about the provider.
	case !errors.Is(err, ErrProvider):
		if f.breaker.Succeeded() {
			f.opts.Logger.InfoContext(ctx, "captcha provider answers again", "provider", f.primary.Name())
		}
	case f.breaker.Failed():
		f.opts.Logger.ErrorContext(ctx, "captcha provider is unavailable, proof of work replaces it", "provider", f.primary.Name(), "error", err)
	case !f.breaker.Open():
		f.opts.Logger.WarnContext(ctx, "captcha provider does not answer", "provider", f.primary.Name(), "error", err)
	}
}

// Verify implements Provider. Proofs of work from a time when the provider was unavailable stay valid for their lifetime.
func (f *Fallback) Verify(ctx context.Context, token string, b Binding, ip netip.Addr) error {
	if isProof(token) {
		return f.proof.Verify(ctx, token, b, ip)
	}
	if f.breaker.Open() {
		return f.primary.tally.verified(ErrFellBack)
	}
	err := f.primary.Verify(ctx, token, b, ip)
	if f.primary.mayBe(token) {
		f.record(ctx, err)
	}
	if errors.Is(err, ErrProvider) && f.breaker.Open() {
		return fmt.Errorf("%w: %w", ErrFellBack, err)
	}
	return err
}

// isProof reports whether token is a proof of work: only those begin like the base64 of a JSON object.
func isProof(token string) bool { return strings.HasPrefix(token, "eyJ") }

package captcha

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	defaultFailures = 3
	defaultPause    = 30 * time.Second
)

// FallbackOptions are those of a Fallback. The zero value is usable.
type FallbackOptions struct {
	// Failures in a row, after which the provider counts as away. Zero means 3.
	Failures int
	// Pause before the provider is asked again. Zero means 30 s.
	Pause time.Duration
	// Logger is told when the provider does not answer, goes and comes. Nil means slog.Default().
	Logger *slog.Logger
}

// Fallback is a provider that others run, and a proof of work while that one is away. Made by NewFallback; safe for concurrent use.
//
// Away means that several verifications in a row could not be made. From then on challenges are proofs of work, tokens of the provider
// are ErrFellBack, and after each pause one caller in this process asks the provider whether it is back. Each process finds out by itself.
type Fallback struct {
	primary *SiteVerify
	proof   *ProofOfWork
	opts    FallbackOptions

	mu       sync.Mutex
	failures int       // guarded by mu: in a row
	away     bool      // guarded by mu
	again    time.Time // guarded by mu: when to ask the next time
}

// NewFallback returns primary, with proof standing in. It starts nothing.
func NewFallback(primary *SiteVerify, proof *ProofOfWork, o FallbackOptions) (*Fallback, error) {
	if primary == nil || proof == nil {
		return nil, errors.New("captcha: NewFallback needs both providers")
	}
	if o.Failures < 0 || o.Pause < 0 {
		return nil, fmt.Errorf("captcha: Failures is %d and Pause %v, should be positive", o.Failures, o.Pause)
	}
	if o.Failures == 0 {
		o.Failures = defaultFailures
	}
	if o.Pause == 0 {
		o.Pause = defaultPause
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Fallback{primary: primary, proof: proof, opts: o}, nil
}

// Name implements Provider.
func (f *Fallback) Name() string { return f.current().Name() }

func (f *Fallback) current() Provider {
	if f.isAway() {
		return f.proof
	}
	return f.primary
}

func (f *Fallback) isAway() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

// Stats returns what both have counted.
func (f *Fallback) Stats() Stats {
	return Stats{
		Providers: append(f.primary.Stats().Providers, f.proof.Stats().Providers...),
		Fallback:  f.isAway(),
	}
}

// Challenge implements Provider. The caller whose turn it is to find out whether the provider is back waits for it, 3 s at most.
func (f *Fallback) Challenge(ctx context.Context, b Binding) (Challenge, error) {
	if f.turn() {
		f.heard(ctx, f.primary.alive(ctx))
	}
	return f.current().Challenge(ctx, b)
}

// turn reports whether the caller is to ask the provider whether it is back. Others are not until the next pause is over.
func (f *Fallback) turn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.away || time.Now().Before(f.again) {
		return false
	}
	f.again = time.Now().Add(f.opts.Pause)
	return true
}

// heard notes how the provider answered.
func (f *Fallback) heard(ctx context.Context, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case errors.Is(err, errCrowd), err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrProvider):
		// It says nothing about the provider.
	case !errors.Is(err, ErrProvider):
		if f.away {
			f.opts.Logger.InfoContext(ctx, "captcha provider is back", "provider", f.primary.name)
		}
		f.failures, f.away = 0, false
	default:
		f.failures++
		switch {
		case f.away:
		case f.failures < f.opts.Failures:
			f.opts.Logger.WarnContext(ctx, "captcha provider does not answer", "provider", f.primary.name, "error", err)
		default:
			f.away, f.again = true, time.Now().Add(f.opts.Pause)
			f.opts.Logger.ErrorContext(ctx, "captcha provider is away; a proof of work stands in", "provider", f.primary.name, "error", err)
		}
	}
}

// Verify implements Provider. Proofs of work that were asked for while the provider was away stay good for their lifetime.
func (f *Fallback) Verify(ctx context.Context, token string, b Binding, ip netip.Addr) error {
	if isProof(token) {
		return f.proof.Verify(ctx, token, b, ip)
	}
	if f.isAway() {
		return f.primary.tally.verified(ErrFellBack)
	}
	err := f.primary.Verify(ctx, token, b, ip)
	if f.primary.mayBe(token) {
		f.heard(ctx, err)
	}
	if errors.Is(err, ErrProvider) && f.isAway() {
		return fmt.Errorf("%w: %w", ErrFellBack, err)
	}
	return err
}

// isProof tells the two kinds of tokens apart: a proof of work begins as base64 of a JSON object does, and no other token.
func isProof(token string) bool { return strings.HasPrefix(token, "eyJ") }

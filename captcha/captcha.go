package captcha

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/tidegate/tidegate/internal/names"
)

// A Provider makes challenges and verifies solutions. Implementations are safe for concurrent use.
type Provider interface {
	// Name returns the provider of the challenges that Challenge makes now: Own, or one of Providers.
	Name() string
	// Challenge makes a challenge for b.
	Challenge(ctx context.Context, b Binding) (Challenge, error)
	// Verify returns nil if token solves a challenge that was made for b and is used for the first time. Otherwise it returns an
	// ErrRefused, which is a *RefusedError, or an ErrUnavailable. ip is the client's address for providers that use it; it may be
	// invalid. The challenge must have been made for at least the risk of b; 0 accepts all.
	Verify(ctx context.Context, token string, b Binding, ip netip.Addr) error
}

// A Binding is what a solution is valid for.
type Binding struct {
	Purpose         string // what the solution permits, such as login or order: 1 to 32 of a-z 0-9 -
	Subject         string // whom it is for: 1 to 64 opaque bytes, such as a keyed hash; the solution is invalid for other subjects
	PreviousSubject string // Subject under the previous key of those hashes during a rotation, or empty; accepted like Subject
	Risk            int    // 0: no suspicion. Each step doubles the work, up to MaxRisk; third-party providers ignore it
}

// MaxRisk is the highest risk that has an effect.
const MaxRisk = 4

func (b *Binding) validate() error {
	switch {
	case !names.Lower(b.Purpose, "-", 32):
		return fmt.Errorf("%w: purpose must be 1 to 32 of a-z 0-9 -, got %.40q", ErrInvalidBinding, b.Purpose)
	case b.Subject == "" || len(b.Subject) > 64:
		return fmt.Errorf("%w: subject must have 1 to 64 bytes, got %d", ErrInvalidBinding, len(b.Subject))
	case b.Risk < 0:
		return fmt.Errorf("%w: risk must be 0 or more, got %d", ErrInvalidBinding, b.Risk)
	}
	return nil
}

// isFor reports whether named, the subject in a challenge, is that of b.
func (b *Binding) isFor(named string, naming func(purpose, subject string) string) bool {
	return named == naming(b.Purpose, b.Subject) || b.PreviousSubject != "" && named == naming(b.Purpose, b.PreviousSubject)
}

// A Challenge is the data with which a page has a challenge solved.
type Challenge struct {
	Provider string          // as Provider.Name
	JSON     json.RawMessage // an object: for altcha the widget's input, else {provider, sitekey, action, cdata}
}

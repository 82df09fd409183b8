package captcha

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
)

// A Provider makes challenges and verifies solutions. Implementations are safe for concurrent use.
type Provider interface {
	// Name is that of whose challenges Challenge makes at the moment: altcha, turnstile, hcaptcha or recaptcha.
	Name() string
	// Challenge makes one for b.
	Challenge(ctx context.Context, b Binding) (Challenge, error)
	// Verify returns nil if token solves a challenge that was made for b, the first time. Else it returns an ErrRefused that is a
	// *RefusedError, or an ErrUnavailable. ip is the client's address, for providers that want it; it may be invalid. The
	// risk of b is the lowest that the challenge must have been made for: 0 accepts all.
	Verify(ctx context.Context, token string, b Binding, ip netip.Addr) error
}

// A Binding is what a solution is good for.
type Binding struct {
	Purpose         string // what it opens, such as login or order: 1 to 32 of a-z 0-9 -
	Subject         string // whom it is for: 1 to 64 bytes, opaque; callers pass keyed hashes. To anybody else the solution is worth nothing
	PreviousSubject string // what Subject was before the key of those hashes was changed, or empty: a solution for it opens the same
	Risk            int    // 0: nothing is known against the caller. Each step doubles the work, up to MaxRisk; providers that others run ignore it
}

// MaxRisk is the highest risk that makes a difference.
const MaxRisk = 4

var purposes = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

func (b *Binding) validate() error {
	switch {
	case !purposes.MatchString(b.Purpose):
		return fmt.Errorf("%w: purpose is %.40q, should be 1 to 32 of a-z 0-9 -", ErrInvalidBinding, b.Purpose)
	case b.Subject == "" || len(b.Subject) > 64:
		return fmt.Errorf("%w: subject has %d bytes, should have 1 to 64", ErrInvalidBinding, len(b.Subject))
	case b.Risk < 0:
		return fmt.Errorf("%w: risk is %d, should be 0 or more", ErrInvalidBinding, b.Risk)
	}
	return nil
}

// isFor reports whether a subject, as a challenge names it, is that of b.
func (b *Binding) isFor(named string, naming func(purpose, subject string) string) bool {
	return named == naming(b.Purpose, b.Subject) || b.PreviousSubject != "" && named == naming(b.Purpose, b.PreviousSubject)
}

// A Challenge is what a page needs to have one solved.
type Challenge struct {
	Provider string          // as Provider.Name
	JSON     json.RawMessage // an object: of altcha what its widget reads, else {provider, sitekey, action, cdata}
}

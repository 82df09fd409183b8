package captcha

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	altcha "github.com/altcha-org/altcha-lib-go"

	"github.com/tidegate/tidegate/internal/keyhash"
)

const (
	defaultLifetime  = 10 * time.Minute
	maxLifetime      = time.Hour
	defaultMaxNumber = 25_000
	// MaxNumber is the upper bound for the range of numbers that contains the solution.
	MaxNumber = 10_000_000
	// skew is the maximum clock difference between two processes. With a larger one, a used solution could be accepted again.
	skew = time.Minute
)

// ProofOfWorkOptions are the options of a ProofOfWork.
type ProofOfWorkOptions struct {
	// Secret is the secret from which keys are derived. Required, 16 bytes or more; the same in all processes.
	Secret []byte
	// PreviousSecret is the previous Secret during a rotation: solutions of challenges made with it are accepted. Nil: none.
	PreviousSecret []byte
	// Used records used solutions. Required; shared by all processes.
	Used Used
	// Lifetime of a challenge, until the use of its solution. Zero means 10 minutes; at most an hour.
	Lifetime time.Duration
	// MaxNumber is the highest possible solution for a challenge of risk 0; half of it are tried on average. Each step of risk doubles
	// it. Zero means 25,000; at most the constant MaxNumber.
	MaxNumber int
}

// A ProofOfWork is the self-hosted provider: version 1 of ALTCHA's protocol (https://altcha.org/docs/v2/proof-of-work/). Make it with
// NewProofOfWork; it is safe for concurrent use.
type ProofOfWork struct {
	keys     []proofKeys // the first makes challenges, all of them verify
	used     Used
	lifetime time.Duration
	max      int64
	tally    tally
}

// proofKeys are the keys derived from one secret.
type proofKeys struct {
	signing string       // for signatures
	naming  *keyhash.Key // for hashes of subjects
}

// NewProofOfWork returns a provider. It starts no goroutine.
func NewProofOfWork(o ProofOfWorkOptions) (*ProofOfWork, error) {
	if o.Used == nil {
		return nil, errors.New("captcha: NewProofOfWork requires Used")
	}
	if o.Lifetime == 0 {
		o.Lifetime = defaultLifetime
	}
	if o.Lifetime < time.Second || o.Lifetime > maxLifetime {
		return nil, fmt.Errorf("captcha: Lifetime must be 1s to 1h, got %v", o.Lifetime)
	}
	if o.MaxNumber == 0 {
		o.MaxNumber = defaultMaxNumber
	}
	if o.MaxNumber < 1 || o.MaxNumber > MaxNumber {
		return nil, fmt.Errorf("captcha: MaxNumber must be 1 to %d, got %d", MaxNumber, o.MaxNumber)
	}
	p := &ProofOfWork{used: o.Used, lifetime: o.Lifetime, max: int64(o.MaxNumber)}
	secrets := [][]byte{o.Secret}
	if len(o.PreviousSecret) > 0 {
		secrets = append(secrets, o.PreviousSecret)
	}
	for _, secret := range secrets {
		signing, err := derive(secret, "proof-of-work")
		if err != nil {
			return nil, err
		}
		naming, _ := derive(secret, "subject") // fails only for a short secret, as above
		p.keys = append(p.keys, proofKeys{hex.EncodeToString(signing), keyhash.New(naming)})
	}
	return p, nil
}

// Name implements Provider.
func (*ProofOfWork) Name() string { return Own }

// Stats returns the current statistics.
func (p *ProofOfWork) Stats() Stats {
	return Stats{Providers: []ProviderStats{p.tally.stats(p.Name())}}
}

// Challenge implements Provider. It makes no network call, so it succeeds for every valid binding.
func (p *ProofOfWork) Challenge(_ context.Context, b Binding) (Challenge, error) {
	if err := b.validate(); err != nil {
		return Challenge{}, err
	}
	risk := min(b.Risk, MaxRisk)
	expires := time.Now().Add(p.lifetime)
	c, err := altcha.CreateChallenge(altcha.ChallengeOptions{
		Algorithm: altcha.SHA256, HMACKey: p.keys[0].signing, MaxNumber: p.max << risk, Expires: &expires,
		Params: url.Values{"p": {b.Purpose}, "r": {strconv.Itoa(risk)}, "s": {p.keys[0].subject(b.Purpose, b.Subject)}},
	})
	if err != nil {
		return Challenge{}, fmt.Errorf("captcha: make a challenge: %w", err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return Challenge{}, fmt.Errorf("captcha: encode a challenge: %w", err)
	}
	p.tally.challenges.Add(1)
	return Challenge{p.Name(), text}, nil
}

// Verify implements Provider.
func (p *ProofOfWork) Verify(ctx context.Context, token string, b Binding, _ netip.Addr) error {
	if err := b.validate(); err != nil {
		return err
	}
	return p.tally.verified(p.verify(ctx, token, &b))
}

func (p *ProofOfWork) verify(ctx context.Context, token string, b *Binding) error {
	s, ok := decodeSolution(token)
	if !ok {
		return refused(CauseMalformed)
	}
	// The signature covers the hash of salt and number, so it covers everything in the salt.
	i := slices.IndexFunc(p.keys, func(k proofKeys) bool {
		ok, err := altcha.VerifySolutionSafe(s.payload, k.signing, false)
		return err == nil && ok
	})
	if i < 0 {
		return refused(CauseWrong)
	}
	switch {
	case s.purpose != b.Purpose || !b.isFor(s.subject, p.keys[i].subject) || s.risk < min(b.Risk, MaxRisk):
		return refused(CauseForeign)
	case time.Now().Unix() > s.expires:
		return refused(CauseExpired)
	}
	// A solution can be encoded as several tokens, but has only one signature. Another process may have a longer lifetime, and one whose
	// clock is behind accepts the solution for longer.
	return spend(ctx, p.used, p.Name(), s.payload.Signature, max(p.lifetime, time.Until(time.Unix(s.expires+1, 0)))+skew)
}

// subject returns the hash of a subject in a salt.
func (k proofKeys) subject(purpose, subject string) string {
	return k.naming.Hash(purpose, subject).String()
}

package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/captcha"
)

const (
	defaultNamespace  = "tidegate"
	defaultTimeout    = time.Second
	restFor           = time.Second // after the store did not answer
	defaultDeviceLife = 90 * 24 * time.Hour
	maxDeviceLife     = 10 * 366 * 24 * time.Hour
)

// Purpose is that of the challenges which open an attempt.
const Purpose = "login"

// Options of a Throttle.
type Options struct {
	// Secret keys the hashes that stand for names, addresses and devices in the store, and signs attempts and device tokens. Required, 16 bytes
	// or more; all processes that share a store need the same.
	Secret []byte
	// PreviousSecret is what Secret was before it was changed. Attempts, device tokens and challenges that were made with it are accepted, and
	// nothing is made with it; what has failed is counted anew. Nil: there is none.
	PreviousSecret []byte
	// Namespace begins every key. Default "tidegate"; 1 to 64 of A-Z a-z 0-9 . _ : -
	Namespace string
	// Timeout is the longest that the store may take. Zero means a second: what it counts for an attempt whose caller has given up is not taken back.
	Timeout time.Duration
	// DeviceLife is how long a device token is good for. Zero means 90 days; from a minute to 10 years. One that has less than half of it left
	// is replaced at the next success.
	DeviceLife time.Duration
	// Normalize makes names that authenticate as one the same. Nil means Normalize of this package.
	Normalize func(name string) string
	// Captcha verifies solutions. Nil: none is ever right, so that who is challenged has to wait.
	Captcha Verifier
	// Solutions reports whether the address may have one more solution verified, or after which time: each may be a call to another's server, and
	// one that is wrong counts as no failure. Nil: there is no limit.
	Solutions func(ctx context.Context, ip netip.Addr) (wait time.Duration, ok bool)
	// Bans are those of the process. Nil: nobody is banned.
	Bans Bans
	// History is told what rules did, by Run. Nil: nobody is.
	History History
	// Decided is told of every decision, by the name of its mode: reserve, check or report. It must not wait. Nil: nobody is.
	Decided func(mode string, d *Decision)
	// Logger gets what goes wrong. Nil means slog.Default(). No name ever stands there.
	Logger *slog.Logger
}

// A Verifier is what a Throttle needs of a captcha.Provider.
type Verifier interface {
	Verify(ctx context.Context, token string, b captcha.Binding, ip netip.Addr) error
}

// Bans are what a Throttle needs of an *admission.Gate.
type Bans interface {
	Banned(req admission.Request) (b admission.Ban, left time.Duration, ok bool)
	Ban(ctx context.Context, order admission.BanOrder) (admission.Ban, error)
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, defaultNamespace)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.DeviceLife = cmp.Or(o.DeviceLife, defaultDeviceLife)
	if o.Normalize == nil {
		o.Normalize = Normalize
	}
	if o.Decided == nil {
		o.Decided = func(string, *Decision) {}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// A Throttle decides whether somebody may try to log in. Make it with New; the zero value is not usable. It is safe for concurrent use.
type Throttle struct {
	store    Store
	local    *MemoryStore // counts while the store is away
	rules    func() *admission.Rules
	keys     *keyring
	previous *keyring // of the previous secret; nil: there is none
	opts     Options
	built    atomic.Pointer[ladders]

	away    atomic.Bool  // the store did not answer the last time
	resting atomic.Int64 // unix ns until which it is not asked for decisions
	events  chan Event
	dropped atomic.Uint64 // events that found no room
}

// ladders are those of one set of rules.
type ladders struct {
	of          *admission.Rules
	full, local *ladder
}

// New returns a throttle by the login rules of what rules returns, which may change from call to call. It starts nothing and asks the store
// nothing.
func New(store Store, rules func() *admission.Rules, opts Options) (*Throttle, error) {
	if store == nil || rules == nil {
		return nil, errors.New("login: New needs a store and rules")
	}
	opts = opts.withDefaults()
	switch {
	case opts.Timeout < 0:
		return nil, fmt.Errorf("login: Options.Timeout is %v, should be positive", opts.Timeout)
	case opts.DeviceLife < time.Minute || opts.DeviceLife > maxDeviceLife:
		return nil, fmt.Errorf("login: Options.DeviceLife is %v, should be from a minute to 10 years", opts.DeviceLife)
	case len(opts.PreviousSecret) > 0 && len(opts.PreviousSecret) < minSecret:
		return nil, errors.New("login: Options.PreviousSecret is too short, should be the 16 or more bytes that Secret was")
	}
	t := &Throttle{store: store, local: NewMemoryStore(), rules: rules, opts: opts, events: make(chan Event, maxEvents)}
	var err error
	if t.keys, err = newKeyring(opts.Namespace, opts.Secret); err != nil {
		return nil, err
	}
	if len(opts.PreviousSecret) > 0 {
		if t.previous, err = newKeyring(opts.Namespace, opts.PreviousSecret); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// ladders returns those of the rules in force.
func (t *Throttle) ladders() *ladders {
	rules := t.rules()
	l := t.built.Load()
	if l == nil || l.of != rules {
		full := newLadder(rules.Login(), t.opts.DeviceLife)
		l = &ladders{rules, full, halved(full, rules.Login(), t.opts.DeviceLife)}
		t.built.Store(l)
	}
	return l
}

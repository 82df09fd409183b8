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
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/keyhash"
)

const (
	defaultNamespace      = "tidegate"
	defaultTimeout        = time.Second
	restFor               = time.Second // after the store did not answer
	defaultDeviceLifetime = 90 * 24 * time.Hour
	maxDeviceLifetime     = 10 * 366 * 24 * time.Hour
)

// Purpose is the captcha purpose of login challenges.
const Purpose = "login"

// Options of a Throttle.
type Options struct {
	// Secret is the key of the hashes of names, addresses and devices in the store, and signs attempts and device tokens. Required, 16
	// bytes or more; all processes that share a store need the same one.
	Secret []byte
	// PreviousSecret is the previous Secret during a rotation. Attempts, device tokens and challenges made with it are accepted, and no
	// new ones are made with it. Failures are counted from zero. Nil: none.
	PreviousSecret []byte
	// Namespace is the prefix of every key. Default "tidegate"; 1 to 64 of A-Z a-z 0-9 . _ : -
	Namespace string
	// Timeout is the maximum time for the store. Zero means a second. After a timeout the attempt may stay counted in the store.
	Timeout time.Duration
	// DeviceLifetime is the lifetime of a device token. Zero means 90 days; from a minute to 10 years. A success replaces a token with less
	// than half of it left.
	DeviceLifetime time.Duration
	// Normalize maps names that authenticate as the same user to one name. Nil means Normalize of this package.
	Normalize func(name string) string
	// Captcha verifies solutions. Nil: no solution is accepted, so that challenged attempts must wait.
	Captcha Verifier
	// Solutions reports whether the address may have another solution verified, or how long it must wait. A verification may be a call to
	// a third-party server, and a wrong solution does not count as a failure. Nil: no limit.
	Solutions func(ctx context.Context, ip netip.Addr) (wait time.Duration, ok bool)
	// Bans are the bans of the process. Nil: no bans.
	Bans Bans
	// History receives the rules' actions from Run. Nil: none.
	History History
	// OnDecision is called with every decision and its mode: reserve, check or report. It must not block. Nil: none.
	OnDecision func(mode string, d *Decision)
	// Logger gets errors. Nil means slog.Default(). Names are never logged.
	Logger *slog.Logger
}

// A Verifier is the part of a captcha.Provider that a Throttle needs.
type Verifier interface {
	Verify(ctx context.Context, token string, b captcha.Binding, ip netip.Addr) error
}

// Bans is the part of an *admission.Gate that a Throttle needs.
type Bans interface {
	Banned(req admission.Request) (b bans.Ban, left time.Duration, ok bool)
	Ban(ctx context.Context, order bans.Order) (bans.Ban, error)
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, defaultNamespace)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.DeviceLifetime = cmp.Or(o.DeviceLifetime, defaultDeviceLifetime)
	if o.Normalize == nil {
		o.Normalize = Normalize
	}
	if o.OnDecision == nil {
		o.OnDecision = func(string, *Decision) {}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// A Throttle decides on login attempts. Make it with New; the zero value is not usable. It is safe for concurrent use.
type Throttle struct {
	store    Store
	local    *MemoryStore // counts while the store is unavailable
	rules    func() *rules.Set
	keys     *keyring
	previous *keyring // for the previous secret; nil: none
	opts     Options
	built    atomic.Pointer[ruleSets]

	away    atomic.Bool  // the last call to the store failed
	resting atomic.Int64 // unix ns until which the store is not asked for decisions
	events  chan Event
	dropped atomic.Uint64 // events dropped because the queue was full
}

// ruleSets are the login rules of one rules file, compiled for the store and for counting locally.
type ruleSets struct {
	of          *rules.Set
	full, local *ruleSet
}

// New returns a throttle. rules is called for each decision and returns the current rules, of which it uses the login rules. Pass Section
// to rules.Load, so that invalid login rules are an error of the file; otherwise they are logged when they are used, and the built-in ones
// apply. New starts no goroutine and does not call the store.
func New(store Store, rules func() *rules.Set, opts Options) (*Throttle, error) {
	if store == nil || rules == nil {
		return nil, errors.New("login: New requires a store and rules")
	}
	opts = opts.withDefaults()
	switch {
	case opts.Timeout < 0:
		return nil, fmt.Errorf("login: Options.Timeout must be positive, got %v", opts.Timeout)
	case opts.DeviceLifetime < time.Minute || opts.DeviceLifetime > maxDeviceLifetime:
		return nil, fmt.Errorf("login: Options.DeviceLifetime must be from 1 minute to 10 years, got %v", opts.DeviceLifetime)
	case len(opts.PreviousSecret) > 0 && len(opts.PreviousSecret) < keyhash.MinSecret:
		return nil, errors.New("login: Options.PreviousSecret must have at least 16 bytes, like the previous Secret")
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

// currentRules returns the compiled rules in force.
func (t *Throttle) currentRules() *ruleSets {
	set := t.rules()
	rs := t.built.Load()
	if rs == nil || rs.of != set {
		steps, err := Steps(set)
		if err != nil {
			t.opts.Logger.Error("login: the login rules of the file are invalid, the built-in ones apply", "version", set.Version(), "error", err)
			steps, _ = Steps(rules.Default())
		}
		full := newRuleSet(steps, t.opts.DeviceLifetime)
		rs = &ruleSets{set, full, halved(full, steps, t.opts.DeviceLifetime)}
		t.built.Store(rs)
	}
	return rs
}

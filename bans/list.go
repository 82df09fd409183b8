package bans

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
)

const (
	defaultNamespace = "tidegate"
	defaultTimeout   = 150 * time.Millisecond
)

// Options of a List.
type Options struct {
	// Namespace is the prefix of every key of the store. Default "tidegate".
	Namespace string
	// Timeout is the maximum time for one call of the store. Zero means 150 ms.
	Timeout time.Duration
	// Allow returns those who must never be banned at the moment. Nil means that anybody may be banned, except this machine.
	Allow func() Allowlist
	// History receives every ban from Run. Nil means none.
	History History
	// Now is the clock by which bans end; nil means real time. For tests, together with a store that uses the same clock.
	Now func() time.Time
	// Logger gets the messages of Run. Nil means slog.Default().
	Logger *slog.Logger
}

// A List is the list of bans as one process holds it: it checks callers without a round trip, makes and lifts bans in the store, and
// follows those of other processes. Make it with NewList; it is safe for concurrent use.
type List struct {
	*cache
	store   Store
	key     string
	process string // random, unique
	start   time.Time
	opts    Options
	wake    chan struct{} // capacity 1: there is news to send or to fetch
}

// NewList returns the list of the bans in store. It starts no goroutine and does not call the store: see Run.
func NewList(store Store, opts Options) *List {
	opts.Timeout = cmp.Or(opts.Timeout, defaultTimeout)
	if opts.Allow == nil {
		opts.Allow = func() Allowlist { return emptyAllowlist{} }
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return &List{
		cache: newCache(), store: store, key: keyOfBans(opts.Namespace), process: rand.Text(), start: opts.Now(), opts: opts,
		wake: make(chan struct{}, 1),
	}
}

// keyOfBans returns the prefix of all keys of the bans in a namespace, which is also the channel on which changes are announced.
func keyOfBans(namespace string) string { return cmp.Or(namespace, defaultNamespace) + ":{bans}" }

// An emptyAllowlist protects no one.
type emptyAllowlist struct{}

func (emptyAllowlist) NeverBanned(string, string, netip.Addr) string { return "" }

// now is the time by which this process ends bans, in ns since the list was made.
func (l *List) now() int64 { return int64(l.opts.Now().Sub(l.start)) }

// Find returns the ban that excludes a caller, and the time left of it; nil if there is none. Callers on the allowlist are not excluded. An
// empty user or device, and the zero Addr, stand for none. It makes no network call and does not allocate.
func (l *List) Find(user, device string, ip netip.Addr) (b *Ban, left time.Duration) {
	held := l.find(user, device, ip)
	if held == nil {
		return nil, 0
	}
	allow := l.opts.Allow()
	if allow.NeverBanned(user, "", ip) != "" {
		return nil, 0
	}
	// A device on the list is only exempt from bans of that device, because clients choose their device name themselves.
	if allow.NeverBanned("", device, netip.Addr{}) != "" {
		if held = l.find(user, "", ip); held == nil {
			return nil, 0
		}
	}
	if left = time.Duration(held.ends - l.now()); left <= 0 {
		return nil, 0
	}
	return &held.Ban, left
}

// Len returns how many bans this process holds. Some may have ended in the last five seconds.
func (l *List) Len() int { return l.size() }

// Processes returns how many processes were alive at the last reply of the store, at least 1.
func (l *List) Processes() int { return l.processes() }

// All returns the bans in force that this process has received, sorted by kind and value.
func (l *List) All() []Ban {
	held := l.running(l.now())
	bans := make([]Ban, len(held))
	for i, b := range held {
		bans[i] = b.Ban
	}
	slices.SortFunc(bans, func(a, b Ban) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Value, b.Value))
	})
	return bans
}

// Ban executes order and returns the resulting ban. An order without a rule replaces the ban in force; an order with a rule never
// shortens it. The error is ErrRefused if the target is on the allowlist or is this machine, ErrInvalid, or ErrUnavailable. After
// ErrUnavailable the ban may have been made.
func (l *List) Ban(ctx context.Context, order Order) (Ban, error) {
	target, err := ParseTarget(string(order.Kind), order.Value)
	if err != nil {
		return Ban{}, err
	}
	order.Target = target
	if err := order.validate(); err != nil {
		return Ban{}, err
	}
	if why := spares(l.opts.Allow(), target); why != "" {
		return Ban{}, failure.New(ErrRefused, "%s %s: %s", target.Kind, target.Value, why)
	}
	state, err := l.exchangeWithin(context.WithoutCancel(ctx), News{Put: []Order{order}})
	if err != nil {
		return Ban{}, fmt.Errorf("%w: ban: %w", ErrUnavailable, err)
	}
	b, ok := state.find(target)
	if !ok {
		return Ban{}, failure.New(ErrFull, "at most %d bans can be in force; lift some, or ban a network instead of addresses", maxBans)
	}
	return b, nil
}

// Lift ends the ban of a target in all processes. ok is false if there was no ban. The error is ErrUnavailable or ErrInvalid.
func (l *List) Lift(ctx context.Context, target Target) (ok bool, err error) {
	target, err = ParseTarget(string(target.Kind), target.Value)
	if err != nil {
		return false, err
	}
	k, _ := target.listed()
	held := l.get(k) // the store may have lost it
	state, err := l.exchangeWithin(context.WithoutCancel(ctx), News{Lift: []Target{target}})
	if err != nil {
		return false, fmt.Errorf("%w: lift: %w", ErrUnavailable, err)
	}
	return state.Lifted > 0 || held != nil && held.ends > l.now(), nil
}

// BanOrQueue executes the order of a rule before ctx ends, and returns the time left of the resulting ban. If the store does not answer,
// ok is false and Run or Flush makes it. A target that must not be banned, or whose name is not valid for a ban, is not banned.
func (l *List) BanOrQueue(ctx context.Context, order Order) (left time.Duration, ok bool) {
	if !l.bannable(&order) {
		return 0, false
	}
	state, err := l.exchange(ctx, News{Put: []Order{order}})
	if err != nil {
		l.later(order)
		l.requestSync()
		return 0, false
	}
	b, ok := state.find(order.Target)
	if !ok || b.Lifted() {
		return 0, false
	}
	return max(0, b.Until.Sub(state.At)), true
}

// Queue lets Run or Flush execute the order of a rule. A target that must not be banned is not banned.
func (l *List) Queue(order Order) {
	if l.bannable(&order) {
		l.later(order)
		l.requestSync()
	}
}

// bannable makes the target of an order canonical, and reports whether it may, and can, be banned.
func (l *List) bannable(order *Order) bool {
	target, err := ParseTarget(string(order.Kind), order.Value)
	order.Target = target
	return err == nil && spares(l.opts.Allow(), target) == ""
}

// exchange sends news to the store and applies the reply.
func (l *List) exchange(ctx context.Context, news News) (State, error) {
	news.Process, news.Since = l.process, l.known()
	state, err := l.store.Exchange(ctx, l.key, news)
	if err != nil {
		return State{}, err
	}
	l.apply(&state, news.Since, l.now())
	return state, nil
}

func (l *List) exchangeWithin(ctx context.Context, news News) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	defer cancel()
	return l.exchange(ctx, news)
}

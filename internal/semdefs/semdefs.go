// Package semdefs knows which semaphores there are: those of the rules file, and what operators have set instead. It keeps both in the
// database, and Redis in step with it.
//
// The database is what counts. Redis is told while the row is locked, so of two changes the last one stands in both; where a process dies in
// between, another one's next look puts Redis right. A semaphore that is used and not known to Redis is looked up in the database, and
// whatever has a row there Redis has had before: see semaphore.Definition.
package semdefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/semaphore"
)

// ErrUnavailable is in the errors of a database or a Redis that does not answer as it should.
var ErrUnavailable = errors.New("semdefs: unavailable")

// Options of a Registry.
type Options struct {
	Namespace string // as in semaphore.SetOptions
	// Rules are those in force. They are asked again and again, and compared by version. Nil: another process declares what the file says.
	Rules func() *admission.Rules
	// BuiltIn are declared as if the file did, unless it has others of their names.
	BuiltIn []admission.SemaphoreRule
	Logger  *slog.Logger // nil: slog.Default()
}

// A Registry is the semaphores of one installation in one process, with their definitions. Make it with New; it is safe for concurrent use.
type Registry struct {
	set   *semaphore.Set
	bare  *semaphore.Set // knows what Redis knows, and looks nothing up
	table *Table
	rules func() *admission.Rules
	built []admission.SemaphoreRule
	log   *slog.Logger

	declaring sync.Mutex

	mu       sync.Mutex
	declared string           // guarded by mu: version of the rules
	last     map[string]Entry // guarded by mu: as last seen
}

// New starts nothing and asks nobody. rdb and the table stay the caller's; the caller closes the Registry first.
func New(rdb semaphore.Client, table *Table, opts Options) (*Registry, error) {
	r := &Registry{table: table, rules: opts.Rules, built: slices.Clone(opts.BuiltIn), log: opts.Logger, last: map[string]Entry{}}
	if r.log == nil {
		r.log = slog.Default()
	}
	var err error
	if r.set, err = semaphore.NewSet(rdb, semaphore.SetOptions{Namespace: opts.Namespace, Lookup: r.Lookup}); err != nil {
		return nil, fmt.Errorf("semdefs: %w", err)
	}
	if r.bare, err = semaphore.NewSet(rdb, semaphore.SetOptions{Namespace: opts.Namespace}); err != nil {
		return nil, fmt.Errorf("semdefs: %w", err)
	}
	return r, nil
}

// Close closes the Set: it ends all waiting and all permits' contexts.
func (r *Registry) Close() error { return errors.Join(r.bare.Close(), r.set.Close()) }

// Semaphore returns the semaphore of a name, whether there is one or not.
func (r *Registry) Semaphore(name string) (*semaphore.Semaphore, error) { return r.set.Semaphore(name) }

// patience is with the database and Redis together.
const patience = 2 * time.Second

// Lookup is a semaphore.Lookup.
func (r *Registry) Lookup(ctx context.Context, name string) (semaphore.Definition, error) {
	e, declared, err := r.lookUp(ctx, name)
	if err != nil {
		return semaphore.Definition{}, err
	}
	size, ok := e.InForce()
	if !ok {
		return semaphore.Definition{}, fmt.Errorf("%w %q", semaphore.ErrUnknown, name)
	}
	if !declared { // Declare has not come to it yet
		if e, err = r.change(ctx, name, func(e *Entry) error {
			e.File = &size
			return nil
		}); err != nil {
			return semaphore.Definition{}, err
		}
		size, _ = e.InForce() // by now Redis knows it
	}
	return semaphore.Definition{Limit: size.Limit, Lease: size.Lease, Existed: true}, nil
}

// lookUp returns what is known of a name, and whether the database has it: if not, only the file of this process does, or nobody.
func (r *Registry) lookUp(ctx context.Context, name string) (e Entry, declared bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience/2) // the Set has as much patience: what was seen has to be said within it
	defer cancel()
	e, err = r.table.get(ctx, name)
	if err != nil {
		if e, known := r.seen(name); known {
			return e, true, nil // better what was true a moment ago than nobody let in
		}
		return e, false, unavailable("look up "+name, err)
	}
	if _, ok := e.InForce(); ok {
		r.remember(e)
		return e, true, nil
	}
	if file, ok := r.undeclared(name); ok {
		e.File = &file
	}
	return e, false, nil
}

// undeclared returns what the file says of a name, unless this process has declared it: then it is another one that says there is none.
func (r *Registry) undeclared(name string) (Size, bool) {
	wanted := r.built
	if r.rules != nil {
		rules := r.rules()
		if r.hasDeclared(rules) {
			return Size{}, false
		}
		wanted = r.wanted(rules)
	}
	for _, s := range wanted {
		if s.Name == name {
			return Size{s.Limit, s.Lease}, true
		}
	}
	return Size{}, false
}

// wanted returns what the file declares, and what is built in and not in the file.
func (r *Registry) wanted(rules *admission.Rules) []admission.SemaphoreRule {
	all := rules.Semaphores()
	for _, b := range r.built {
		if !slices.ContainsFunc(all, func(s admission.SemaphoreRule) bool { return s.Name == b.Name }) {
			all = append(all, b)
		}
	}
	return all
}

func (r *Registry) hasDeclared(rules *admission.Rules) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return rules.Version() == r.declared
}

func (r *Registry) remember(all ...Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range all {
		r.last[e.Name] = e
	}
}

func (r *Registry) seen(name string) (Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.last[name]
	return e, ok
}

// Entry returns what is known of a name, or semaphore.ErrUnknown where it is no semaphore.
func (r *Registry) Entry(ctx context.Context, name string) (Entry, error) {
	if err := semaphore.CheckName(name); err != nil {
		return Entry{}, err
	}
	e, _, err := r.lookUp(ctx, name)
	if err != nil {
		return Entry{}, err
	}
	if _, ok := e.InForce(); !ok {
		return Entry{}, fmt.Errorf("%w %q", semaphore.ErrUnknown, name)
	}
	return e, nil
}

// Entries returns all semaphores by name, also those that are none any more.
func (r *Registry) Entries(ctx context.Context) ([]Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := r.table.list(ctx)
	if err != nil {
		return nil, unavailable("list", err)
	}
	r.remember(all...)
	return all, nil
}

// Override makes a semaphore what an operator says, whatever the rules file says.
func (r *Registry) Override(ctx context.Context, name string, o Override) (Entry, error) {
	if err := semaphore.CheckName(name); err != nil {
		return Entry{}, err
	}
	return r.change(ctx, name, func(e *Entry) error {
		e.Set = &o
		return nil
	})
}

// Revert takes an operator's word back: the semaphore is what the rules file says, and none where it says nothing. The error is
// semaphore.ErrUnknown where it was none before.
func (r *Registry) Revert(ctx context.Context, name string) (Entry, error) {
	if err := semaphore.CheckName(name); err != nil {
		return Entry{}, err
	}
	return r.change(ctx, name, func(e *Entry) error {
		if _, ok := e.InForce(); !ok {
			return fmt.Errorf("%w %q", semaphore.ErrUnknown, name)
		}
		e.Set = nil
		return nil
	})
}

// change alters an entry, and tells Redis before anybody else can.
func (r *Registry) change(ctx context.Context, name string, alter func(*Entry) error) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	e, err := r.table.change(ctx, name, func(e *Entry, fresh bool) error {
		if err := alter(e); err != nil {
			return err
		}
		return r.tell(ctx, e, !fresh)
	})
	switch {
	case errors.Is(err, semaphore.ErrUnknown), errors.Is(err, semaphore.ErrInvalid):
		return Entry{}, err
	case err != nil:
		return Entry{}, unavailable("change "+name, err)
	}
	r.remember(e)
	return e, nil
}

// tell makes Redis know what an entry says.
func (r *Registry) tell(ctx context.Context, e *Entry, existed bool) error {
	sem, err := r.set.Semaphore(e.Name)
	if err != nil {
		return err
	}
	size, ok := e.InForce()
	if !ok {
		return sem.Undefine(ctx)
	}
	return sem.Define(ctx, semaphore.Definition{Limit: size.Limit, Lease: size.Lease, Existed: existed})
}

func unavailable(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}

// Away returns err as an ErrUnavailable where it says that Redis, or the way to it, is not as it should be. What else there is stays as it
// is: it says something of the request, or of a mistake in this program.
func Away(err error) error {
	for _, known := range []error{
		semaphore.ErrAtCapacity, semaphore.ErrPermitLost, semaphore.ErrUnknown, semaphore.ErrTooHeavy, semaphore.ErrInvalid, semaphore.ErrClosed, ErrUnavailable,
	} {
		if err == nil || errors.Is(err, known) {
			return err
		}
	}
	var replied redis.Error
	if errors.As(err, &replied) && strings.HasPrefix(replied.Error(), "ERR ") {
		return err
	}
	return unavailable("redis", err)
}

// Package semregistry holds the definitions of semaphores: those of the rules file, and the overrides of operators. It stores both in the
// database and keeps Redis consistent with it.
//
// The database is authoritative. Redis is updated while the row is locked, so that the last change is in force in both. If a process
// crashes in between, the next comparison of another process repairs Redis. A semaphore that is used but unknown to Redis is looked up in
// the database. If it has a row there, Redis has had it before: see semaphore.Definition.
package semregistry

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

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/semaphore"
)

// ErrUnavailable is wrapped by errors about a database or a Redis that fails or does not answer.
var ErrUnavailable = errors.New("semregistry: unavailable")

// Options of a Registry.
type Options struct {
	Namespace string // as in semaphore.SetOptions
	// Rules returns the rules in force. It is called repeatedly, and results are compared by version. Nil: another process declares the
	// file.
	Rules func() *rules.Set
	// BuiltIn are declared like those of the file, unless it has semaphores of the same names.
	BuiltIn []Declaration
	Logger  *slog.Logger // nil: slog.Default()
}

// A Registry holds the semaphores of one installation, with their definitions, in one process. Make it with New; it is safe for
// concurrent use.
type Registry struct {
	set   *semaphore.Set
	bare  *semaphore.Set // without a Lookup: sees only what Redis has
	table *Table
	rules func() *rules.Set
	built []Declaration
	log   *slog.Logger

	declaring sync.Mutex

	mu       sync.Mutex
	declared string           // guarded by mu: version of the rules
	last     map[string]Entry // guarded by mu: as last read
}

// New starts no goroutine and makes no call. The caller starts Run, and closes rdb and the table's database after it.
func New(rdb semaphore.Client, table *Table, opts Options) (*Registry, error) {
	r := &Registry{table: table, rules: opts.Rules, built: slices.Clone(opts.BuiltIn), log: opts.Logger, last: map[string]Entry{}}
	if r.log == nil {
		r.log = slog.Default()
	}
	var err error
	if r.set, err = semaphore.NewSet(rdb, semaphore.SetOptions{Namespace: opts.Namespace, Lookup: r.Lookup}); err != nil {
		return nil, fmt.Errorf("semregistry: %w", err)
	}
	if r.bare, err = semaphore.NewSet(rdb, semaphore.SetOptions{Namespace: opts.Namespace}); err != nil {
		return nil, fmt.Errorf("semregistry: %w", err)
	}
	return r, nil
}

// Semaphore returns the semaphore with a name, whether it is defined or not.
func (r *Registry) Semaphore(name string) (*semaphore.Semaphore, error) { return r.set.Semaphore(name) }

// callTimeout is the timeout for the database and Redis together.
const callTimeout = 2 * time.Second

// Lookup is a semaphore.Lookup.
func (r *Registry) Lookup(ctx context.Context, name string) (semaphore.Definition, error) {
	e, declared, err := r.lookUp(ctx, name)
	if err != nil {
		return semaphore.Definition{}, err
	}
	size, ok := e.InForce()
	if !ok {
		return semaphore.Definition{}, failure.New(semaphore.ErrUnknown, "it is called %q", name)
	}
	if !declared { // Declare has not reached it yet
		if e, err = r.change(ctx, name, func(e *Entry) error {
			e.File = &size
			return nil
		}); err != nil {
			return semaphore.Definition{}, err
		}
		size, _ = e.InForce() // it is defined in Redis now
	}
	return semaphore.Definition{Limit: size.Limit, Lease: size.Lease, ExistedBefore: true}, nil
}

// lookUp returns the entry of a name, and whether the database has it in force; if not, its definition is only in this process' file, or
// missing.
func (r *Registry) lookUp(ctx context.Context, name string) (e Entry, declared bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout/2) // the Set has the same timeout, and the result must arrive within it
	defer cancel()
	e, err = r.table.get(ctx, name)
	if err != nil {
		if e, known := r.seen(name); known {
			return e, true, nil // a recent definition is better than failing
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

// undeclared returns the file's definition of a name, unless this process has declared its file: then another process has removed it.
func (r *Registry) undeclared(name string) (Size, bool) {
	wanted := r.built
	if r.rules != nil {
		rules := r.rules()
		if r.hasDeclared(rules) {
			return Size{}, false
		}
		wanted, _ = r.wanted(rules) // Declare reports the error
	}
	for _, d := range wanted {
		if d.Name == name {
			return d.Size, true
		}
	}
	return Size{}, false
}

// wanted returns the definitions of the file, and the built-in ones that are not in it.
func (r *Registry) wanted(set *rules.Set) ([]Declaration, error) {
	all, err := Declarations(set)
	for _, b := range r.built {
		if !slices.ContainsFunc(all, func(d Declaration) bool { return d.Name == b.Name }) {
			all = append(all, b)
		}
	}
	return all, err
}

func (r *Registry) hasDeclared(rules *rules.Set) bool {
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

// Entry returns the entry of a name, or semaphore.ErrUnknown if it has no definition.
func (r *Registry) Entry(ctx context.Context, name string) (Entry, error) {
	if err := semaphore.CheckName(name); err != nil {
		return Entry{}, err
	}
	e, _, err := r.lookUp(ctx, name)
	if err != nil {
		return Entry{}, err
	}
	if _, ok := e.InForce(); !ok {
		return Entry{}, failure.New(semaphore.ErrUnknown, "it is called %q", name)
	}
	return e, nil
}

// Entries returns the entries of all semaphores by name, including those without a definition in force.
func (r *Registry) Entries(ctx context.Context) ([]Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := r.table.list(ctx)
	if err != nil {
		return nil, unavailable("list", err)
	}
	r.remember(all...)
	return all, nil
}

// Override replaces a semaphore's definition by an operator's, which takes precedence over the rules file.
func (r *Registry) Override(ctx context.Context, name string, o Override) (Entry, error) {
	if err := semaphore.CheckName(name); err != nil {
		return Entry{}, err
	}
	return r.change(ctx, name, func(e *Entry) error {
		e.Set = &o
		return nil
	})
}

// Revert removes an operator's override: the definition of the rules file is then in force, if it has one. The error is
// semaphore.ErrUnknown if there was no definition before.
func (r *Registry) Revert(ctx context.Context, name string) (Entry, error) {
	if err := semaphore.CheckName(name); err != nil {
		return Entry{}, err
	}
	return r.change(ctx, name, func(e *Entry) error {
		if _, ok := e.InForce(); !ok {
			return failure.New(semaphore.ErrUnknown, "it is called %q", name)
		}
		e.Set = nil
		return nil
	})
}

// change alters an entry, and updates Redis while the row is locked.
func (r *Registry) change(ctx context.Context, name string, alter func(*Entry) error) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
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

// tell writes an entry's definition to Redis.
func (r *Registry) tell(ctx context.Context, e *Entry, existed bool) error {
	sem, err := r.set.Semaphore(e.Name)
	if err != nil {
		return err
	}
	size, ok := e.InForce()
	if !ok {
		return sem.Undefine(ctx)
	}
	return sem.Define(ctx, semaphore.Definition{Limit: size.Limit, Lease: size.Lease, ExistedBefore: existed})
}

func unavailable(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}

// Away wraps err in ErrUnavailable if it means that Redis or the connection to it fails. Other errors, about the request or a bug in this
// program, are returned unchanged.
func Away(err error) error {
	for _, known := range []error{
		semaphore.ErrPermitLost, semaphore.ErrUnknown, semaphore.ErrTooHeavy, semaphore.ErrInvalid, semaphore.ErrClosed, ErrUnavailable,
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

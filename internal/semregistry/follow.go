package semregistry

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/errsummary"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/semaphore"
)

const (
	lookEvery = time.Second      // interval of checking the rules in force
	setRight  = 30 * time.Second // interval of comparing Redis with the database
)

// Run declares the rules file's semaphores, at the start and after each change, and regularly repairs Redis. When ctx ends, it
// ends all waits and the contexts of all permits, and returns.
func (r *Registry) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.set.Run(ctx) })
	g.Go(func() error { return r.follow(ctx) })
	return g.Wait()
}

// follow declares and compares until ctx ends.
func (r *Registry) follow(ctx context.Context) error {
	var compared time.Time
	failing := false
	return periodic.Until(ctx, lookEvery, func() bool {
		err := r.Declare(ctx)
		if err == nil && time.Since(compared) >= setRight {
			compared = time.Now()
			err = r.Compare(ctx)
		}
		if ctx.Err() == nil && err != nil && !failing {
			r.log.Warn("semaphores are not as they should be, trying again", "error", err)
		}
		failing = err != nil
		return false
	})
}

// Declare writes the semaphores of the rules in force to the database, unless it has done so. An operator's override stays in force. If
// several processes have different files, the last one to declare wins.
func (r *Registry) Declare(ctx context.Context) error {
	if r.rules == nil {
		return nil
	}
	r.declaring.Lock()
	defer r.declaring.Unlock()
	rules := r.rules()
	if r.hasDeclared(rules) {
		return nil
	}
	wanted, err := r.wanted(rules)
	if err != nil {
		return err
	}
	all, err := r.Entries(ctx)
	if err != nil {
		return err
	}
	if err := r.declare(ctx, all, wanted); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.declared = rules.Version()
	return nil
}

func (r *Registry) declare(ctx context.Context, all []Entry, wanted []Declaration) (err error) {
	known, inFile := map[string]*Size{}, map[string]bool{}
	for i := range all {
		known[all[i].Name] = all[i].File
	}
	put := func(name string, file *Size) {
		_, e := r.change(ctx, name, func(e *Entry) error {
			e.File = file
			return nil
		})
		err = errsummary.Join(err, e)
	}
	for _, w := range wanted {
		inFile[w.Name] = true
		if file := known[w.Name]; file == nil || *file != w.Size {
			put(w.Name, &w.Size)
		}
	}
	for _, e := range all {
		if e.File != nil && !inFile[e.Name] {
			put(e.Name, nil)
		}
	}
	return err
}

// Compare queries Redis for every semaphore, and redefines those that differ from the database.
func (r *Registry) Compare(ctx context.Context) error {
	all, err := r.Entries(ctx)
	if err != nil {
		return err
	}
	found := make([]known, len(all))
	var g errgroup.Group // an error does not stop the others
	g.SetLimit(atOnce)
	for i := range all {
		g.Go(func() error {
			var err error
			found[i], err = r.inRedis(ctx, &all[i])
			return err
		})
	}
	err = g.Wait()
	for i := range all {
		if found[i] == different {
			r.log.Warn("redis had another definition of a semaphore than the database", "semaphore", all[i].Name)
		}
		if found[i] != right {
			_, e2 := r.change(ctx, all[i].Name, func(*Entry) error { return nil })
			err = errsummary.Join(err, e2)
		}
	}
	return err
}

// known is the state of a definition in Redis.
type known int

const (
	right     known = iota
	forgotten       // as after a restart of a Redis without persistence
	different
)

// inRedis returns the state of e in Redis. For a semaphore that is not defined it makes no query, as there may be many such names.
func (r *Registry) inRedis(ctx context.Context, e *Entry) (known, error) {
	sem, err := r.bare.Semaphore(e.Name)
	if err != nil {
		return right, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	size, defined := e.InForce()
	st, err := sem.Counts(ctx)
	switch {
	case errors.Is(err, semaphore.ErrUnknown) && defined:
		return forgotten, nil
	case errors.Is(err, semaphore.ErrUnknown):
		return right, nil
	case err != nil:
		return right, unavailable("compare "+e.Name, err)
	case defined && st.Limit == size.Limit && st.Lease == size.Lease:
		return right, nil
	}
	return different, nil
}

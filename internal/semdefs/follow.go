package semdefs

import (
	"context"
	"errors"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/semaphore"
)

const (
	lookEvery = time.Second      // at the rules in force
	setRight  = 30 * time.Second // between two comparisons of Redis with the database
)

// Run declares what the rules file says, at the start and whenever it has changed, and now and then puts Redis right. It returns when ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var compared time.Time
	failing := false
	for {
		err := r.Declare(ctx)
		if err == nil && time.Since(compared) >= setRight {
			compared = time.Now()
			err = r.Compare(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !failing {
			r.log.Warn("semaphores are not as they should be, trying again", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Declare writes down what the rules in force say of semaphores, unless that was done. One that an operator has set stays as it is. Of several
// processes with different files the last one to declare is right.
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
	all, err := r.Entries(ctx)
	if err != nil {
		return err
	}
	if err := r.declare(ctx, all, rules.Semaphores()); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.declared = rules.Version()
	return nil
}

func (r *Registry) declare(ctx context.Context, all []Entry, wanted []admission.SemaphoreRule) (err error) {
	known, inFile := map[string]*Size{}, map[string]bool{}
	for i := range all {
		known[all[i].Name] = all[i].File
	}
	put := func(name string, file *Size) {
		_, e := r.change(ctx, name, func(e *Entry, _ bool) error {
			e.File = file
			return nil
		})
		err = errors.Join(err, e)
	}
	for _, w := range wanted {
		inFile[w.Name] = true
		size := Size{w.Limit, w.Lease}
		if file := known[w.Name]; file == nil || *file != size {
			put(w.Name, &size)
		}
	}
	for _, e := range all {
		if e.File != nil && !inFile[e.Name] {
			put(e.Name, nil)
		}
	}
	return err
}

// Compare asks Redis for every semaphore, and tells it what the database says where it is something else.
func (r *Registry) Compare(ctx context.Context) error {
	all, err := r.Entries(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		e := &all[i]
		right, e2 := r.isRight(ctx, e)
		if e2 == nil && !right {
			r.log.Warn("redis had another definition of a semaphore than the database", "semaphore", e.Name)
			_, e2 = r.change(ctx, e.Name, func(*Entry, bool) error { return nil })
		}
		err = errors.Join(err, e2)
	}
	return err
}

func (r *Registry) isRight(ctx context.Context, e *Entry) (bool, error) {
	sem, err := r.set.Semaphore(e.Name)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	size, defined := e.InForce()
	status, err := sem.Status(ctx)
	switch {
	case errors.Is(err, semaphore.ErrUnknown):
		return !defined, nil
	case err != nil:
		return false, unavailable("compare "+e.Name, err)
	}
	return defined && status.Limit == size.Limit && status.Lease == size.Lease, nil
}

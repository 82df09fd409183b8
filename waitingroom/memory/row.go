package memory

import (
	"context"
	"slices"
)

// A row is as it is committed, and as the transaction that holds its lock will leave it. Values are replaced and never changed, so copies
// share them.
type row[T any] struct {
	lock
	committed *T // nil: there is none
	next      *T // what the holder has written
	written   bool
	version   int64 // the commit of the database that wrote it
}

// seen returns the row as a transaction sees it, or outside of transactions; nil: it sees none.
func (r *row[T]) seen(by *tx) *T {
	if r.written && r.holder == by {
		return r.next
	}
	return r.committed
}

// write sets what the holder of the lock leaves; nil: nothing.
func (r *row[T]) write(next *T) { r.next, r.written = next, true }

func (r *row[T]) end(commit bool) {
	if commit && r.written {
		db := r.holder.of.db
		db.commits++
		r.committed, r.version = r.next, db.commits
	}
	r.next, r.written = nil, false
	r.release()
}

// A lock is given to those who wait in their order.
type lock struct {
	holder  *tx // nil: it is free, and no transaction waits
	waiting []waiter
}

type waiter struct {
	by  *tx
	row lockable
	got chan struct{} // closed when it has the lock
}

// lockable is a row.
type lockable interface {
	base() *lock
	end(commit bool)
}

func (l *lock) base() *lock { return l }

// take locks a row until the end of the transaction. It unlocks the database while it waits.
func (t *tx) take(ctx context.Context, r lockable) error {
	switch l := r.base(); l.holder {
	case t:
		return nil
	case nil:
		l.give(t, r)
		return nil
	}
	return t.wait(ctx, r)
}

func (l *lock) give(t *tx, r lockable) { l.holder, t.held = t, append(t.held, r) }

func (t *tx) wait(ctx context.Context, r lockable) error {
	l := r.base()
	for first := l.holder; ; first = first.waits.holder {
		if first == t {
			return DeadlockDetected
		}
		if first.waits == nil {
			break
		}
	}
	me := waiter{t, r, make(chan struct{})}
	l.waiting, t.waits = append(l.waiting, me), l
	t.of.db.mu.Unlock()
	select {
	case <-me.got:
	case <-t.ended:
	case <-ctx.Done():
	}
	t.of.db.mu.Lock()
	switch {
	case t.over:
		return ErrConnectionLost
	case l.holder == t: // although ctx may have ended, which the next statement notices
		return nil
	}
	l.forget(t)
	return ctx.Err()
}

// forget removes a transaction that waits.
func (l *lock) forget(t *tx) {
	t.waits = nil
	l.waiting = slices.DeleteFunc(l.waiting, func(w waiter) bool { return w.by == t })
}

// release gives the lock to the next.
func (l *lock) release() {
	if l.holder = nil; len(l.waiting) > 0 {
		next := l.waiting[0]
		l.forget(next.by)
		l.give(next.by, next.row)
		close(next.got)
	}
}

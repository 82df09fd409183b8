// Package memory stores waiting rooms in the memory of this process, and loses them with it: for simulations, tests and examples. It
// behaves like the store in Postgres, whose tests it passes: transactions read what is committed, lock rows, wait for each other, and are
// repeated after a deadlock. It starts no goroutine. With a clock in Options.Now, the same calls have the same results.
//
// A Store is the database as one process reaches it. Connect returns it as another process does, with faults of its own. A room reads no
// table of sales, but calls waitingroom.Stock, so it works beside orders in any store.
package memory

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Options of New. The zero value has all defaults.
type Options struct {
	Now    func() time.Time // the database's clock; nil: time.Now
	Faults Faults           // of this process
}

// Store is a waitingroom.Store. The zero value is not usable; use New. Safe for concurrent use.
type Store struct {
	reader
	db     *database
	faults Faults
}

var _ store.Store = (*Store)(nil)

// database is what all processes share.
type database struct {
	clock func() time.Time

	mu    sync.Mutex
	rooms []*room // by name, guarded by mu; one that was never committed has no row
	open  []*tx   // in the order in which they began, guarded by mu

	commits int64 // of rows, guarded by mu; they go on after Restore
}

// New returns an empty database.
func New(opts Options) *Store {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return (&database{clock: opts.Now}).connect(opts.Faults)
}

// Connect returns the same database as another process reaches it.
func (s *Store) Connect(f Faults) *Store { return s.db.connect(f) }

func (db *database) connect(f Faults) *Store {
	s := &Store{db: db, faults: f}
	s.reader = reader{s, nil}
	return s
}

// Disconnect loses the connections of this process: its transactions are rolled back, unless their commit comes later.
func (s *Store) Disconnect() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.disconnect(func(t *tx) bool { return t.of == s && !t.later })
}

// Restart starts the server again, with all that is committed: all processes lose their connections.
func (s *Store) Restart() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.disconnect(func(*tx) bool { return true })
}

func (db *database) disconnect(lost func(*tx) bool) {
	for _, t := range slices.Clone(db.open) {
		if lost(t) {
			t.end(false)
		}
	}
}

// A Copy is a backup of a database. It is immutable.
type Copy struct{ rooms []*room }

// Copy returns what is committed.
func (s *Store) Copy() *Copy {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return &Copy{copied(s.db.rooms)}
}

// Restore starts the server again with a copy, which stays usable.
func (s *Store) Restore(c *Copy) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.disconnect(func(*tx) bool { return true })
	s.db.rooms = copied(c.rooms)
	for _, r := range s.db.rooms {
		s.db.commits++
		r.row.version, r.tail.version = s.db.commits, s.db.commits
	}
}

func (db *database) now() int64 { return db.clock().UnixMilli() }

// room returns a room; nil: there never was one of that name.
func (db *database) room(name string) *room {
	i, found := slices.BinarySearchFunc(db.rooms, name, compareName)
	if !found {
		return nil
	}
	return db.rooms[i]
}

// newRoom is room for one that will be inserted.
func (db *database) newRoom(name string) *room {
	i, found := slices.BinarySearchFunc(db.rooms, name, compareName)
	if !found {
		db.rooms = slices.Insert(db.rooms, i, &room{name: name, subjects: make(map[string][]*place)})
	}
	return db.rooms[i]
}

func compareName(r *room, name string) int { return strings.Compare(r.name, name) }

var errAborted = errors.New("memory: a statement of the transaction has failed")

// InTx repeats transactions as package sqldb does.
func (s *Store) InTx(ctx context.Context, fn func(store.Tx) error) error {
	var answer error // fn's, which may be a conflict
	err := sqldb.Repeat(func() error {
		t := &tx{of: s, ended: make(chan struct{})}
		answer = nil
		if err := s.do(ctx, "Begin", func() error { return t.begin() }); err != nil {
			t.close(false)
			return err
		}
		if answer = fn(writer{reader{s, t}}); answer != nil {
			t.close(false)
			return answer
		}
		err := s.do(ctx, "Commit", t.commit)
		t.close(errors.Is(err, ErrLater))
		return err
	})
	if answer != nil {
		return answer
	}
	return err
}

// A tx is a transaction of a process. All of it is guarded by the database's mu.
type tx struct {
	of      *Store
	held    []lockable    // in the order in which they were locked
	waits   *lock         // nil: for none
	aborted bool          // a statement has failed
	ended   chan struct{} // closed at the end
	over    bool
	later   bool // the process does not wait for the commit
}

func (t *tx) begin() error {
	t.of.db.mu.Lock()
	defer t.of.db.mu.Unlock()
	if t.over { // do was called later
		return ErrConnectionLost
	}
	t.of.db.open = append(t.of.db.open, t)
	return nil
}

func (t *tx) commit() error {
	t.of.db.mu.Lock()
	defer t.of.db.mu.Unlock()
	if err := t.usable(); err != nil {
		return err
	}
	t.end(true)
	return nil
}

// close rolls a transaction back that was not committed, unless its commit comes later.
func (t *tx) close(later bool) {
	t.of.db.mu.Lock()
	defer t.of.db.mu.Unlock()
	if t.later = later; !later {
		t.end(false)
	}
}

// usable returns an error if no statement can be made.
func (t *tx) usable() error {
	switch {
	case t.over:
		return ErrConnectionLost
	case t.aborted:
		return errAborted
	}
	return nil
}

// end makes the rows what t has written, or not, and gives their locks to those who wait.
func (t *tx) end(commit bool) {
	if t.over {
		return
	}
	t.over = true
	close(t.ended)
	if t.waits != nil {
		t.waits.forget(t)
	}
	for _, row := range t.held {
		row.end(commit)
	}
	t.held = nil
	t.of.db.open = slices.DeleteFunc(t.of.db.open, func(o *tx) bool { return o == t })
}

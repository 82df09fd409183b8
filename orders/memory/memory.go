// Package memory stores orders in the memory of this process, and loses them with it: for simulations, tests and examples. It behaves
// like package postgres; one suite tests both. It starts no goroutine. With a clock in Options.Now and a seed in Options.Rand, the same
// calls have the same results.
//
// A Store is the database as one process reaches it. Connect returns it as another process does, with faults of its own.
package memory

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Options of New. The zero value has all defaults.
type Options struct {
	Now    func() time.Time // the database's clock; nil: time.Now
	Rand   *rand.Rand       // of ids, keys and salts, and of the order of Returns; used under the store's lock; nil: seeded by the system
	Faults Faults           // of this process
}

// Store is a storage.Store. The zero value is not usable; use New. Safe for concurrent use.
type Store struct {
	db     *database
	faults Faults
}

var _ storage.Store = (*Store)(nil)

// database is what all processes share.
type database struct {
	clock func() time.Time
	place storage.Place

	mu     sync.Mutex
	rand   *rand.Rand           // guarded by mu
	state  *state               // guarded by mu
	starts int                  // of the server, guarded by mu
	leads  table[string, *lead] // by sale, guarded by mu
}

// New returns an empty database.
func New(opts Options) *Store {
	db := &database{clock: opts.Now, rand: opts.Rand, state: newState(), starts: 1, leads: newTable[string, *lead](strings.Compare)}
	if db.clock == nil {
		db.clock = time.Now
	}
	if db.rand == nil {
		var seed [32]byte
		crand.Read(seed[:])
		db.rand = rand.New(rand.NewChaCha8(seed))
	}
	db.place = storage.Place{System: 1 + db.rand.Int64N(1<<62), Database: 1}
	db.state.idKey = db.random(32)
	return &Store{db, opts.Faults}
}

// Connect returns the same database as another process reaches it.
func (s *Store) Connect(f Faults) *Store { return &Store{s.db, f} }

// random returns n random bytes, a multiple of 8.
func (db *database) random(n int) []byte {
	b := make([]byte, 0, n)
	for len(b) < n {
		b = binary.BigEndian.AppendUint64(b, db.rand.Uint64())
	}
	return b
}

// now returns the time with the precision of Postgres.
func (db *database) now() time.Time { return moment(db.clock()) }

func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// run does one operation: fn under the lock, within the faults.
func run[T any](ctx context.Context, s *Store, op Op, fn func(*state) (T, error)) (T, error) {
	var result, none T
	if err := s.do(ctx, op, func() (err error) {
		s.db.mu.Lock()
		defer s.db.mu.Unlock()
		result, err = fn(s.db.state)
		return err
	}); err != nil {
		return none, err
	}
	return result, nil
}

// write is run without a result.
func (s *Store) write(ctx context.Context, op Op, fn func(*state) error) error {
	_, err := run(ctx, s, op, func(st *state) (struct{}, error) { return struct{}{}, fn(st) })
	return err
}

// Ping returns an error only of a fault.
func (s *Store) Ping(ctx context.Context) error {
	return s.write(ctx, "Ping", func(*state) error { return nil })
}

// CheckSchema returns an error only of a fault.
func (s *Store) CheckSchema(ctx context.Context) error {
	return s.write(ctx, "CheckSchema", func(*state) error { return nil })
}

// IDKey returns the key that New made.
func (s *Store) IDKey(ctx context.Context) (orders.IDKey, error) {
	return run(ctx, s, "IDKey", func(st *state) (orders.IDKey, error) { return orders.IDKey{Key: append([]byte(nil), st.idKey...)}, nil })
}

package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A database and a namespace in Redis belong together: each names the other, since the first process used them. A process that reaches a
// pair that does not belong together takes, commits and rebuilds nothing, for it would mix the orders of two installations.

// Place is where a Postgres database is. A clone and a restored dump are in another place than their origin; a standby is not.
type Place struct {
	System   int64 // system identifier of the server's data; 0: unknown
	Database int64 // oid of the database
}

// is compares what is known of both.
func (p Place) is(o Place) bool {
	return p.Database == o.Database && (p.System == o.System || p.System == 0 || o.System == 0)
}

// String returns "SYSTEM/OID".
func (p Place) String() string { return fmt.Sprintf("%d/%d", p.System, p.Database) }

// Installation is what a database stores of the installation that it belongs to. It has no ID before the first use.
type Installation struct {
	ID        string // random; copies of the database have the same
	Namespace string // that uses the database
	Stored    Place  // where the database was when this was stored
	Live      Place  // where it is now
}

// identity is the value of the key in Redis.
func (in *Installation) identity() string { return fmt.Sprintf("%s %s", in.ID, in.Stored) }

// sameIdentity compares the ids: every write of the row makes a new one, so the places are only for people.
func sameIdentity(a, b string) bool {
	idA, _, _ := strings.Cut(a, " ")
	idB, _, _ := strings.Cut(b, " ")
	return idA == idB
}

// Ownership is what a database and a namespace in Redis store of each other.
type Ownership struct {
	Namespace string       // in Redis
	Owner     string       // identity of the database that the namespace belongs to: its id and its place; empty: none yet
	Database  Installation // of the database
}

// ReadOwnership reads what a database and a namespace store of each other. It changes nothing.
func ReadOwnership(ctx context.Context, rdb redis.Cmdable, store Store, namespace string) (Ownership, error) {
	o := Ownership{Namespace: namespace}
	var err error
	// Redis first: the first process of all writes the database first, so whoever finds its key finds its row.
	if o.Owner, err = rdb.Get(ctx, databaseKey(namespace)).Result(); err != nil && !errors.Is(err, redis.Nil) {
		return o, unavailable(err)
	}
	o.Database, err = store.Installation(ctx)
	return o, err
}

// Err returns ErrForeign, wrapped with what was found, what was expected and what to do, if the two do not belong together.
func (o *Ownership) Err() error {
	db := &o.Database
	switch {
	case db.ID == "":
		if o.Owner != "" {
			return fmt.Errorf("%w: namespace %s in Redis belongs to database %s, and DATABASE_URL is a database that no installation has used yet: %s",
				ErrForeign, o.Namespace, o.Owner, remedy)
		}
	case db.Namespace != o.Namespace:
		return fmt.Errorf("%w: the database belongs to namespace %s in Redis, and NAMESPACE is %s: %s", ErrForeign, db.Namespace, o.Namespace, remedy)
	case !db.Stored.is(db.Live):
		return fmt.Errorf("%w: the database is a copy: it is at %s (system identifier/oid), and its original was at %s: %s", ErrForeign, db.Live, db.Stored, remedy)
	case o.Owner != "" && !sameIdentity(o.Owner, db.identity()):
		return fmt.Errorf("%w: namespace %s in Redis belongs to database %s, and DATABASE_URL is database %s: %s",
			ErrForeign, o.Namespace, o.Owner, db.identity(), remedy)
	}
	return nil
}

const remedy = "set another NAMESPACE, or the right DATABASE_URL and REDIS_URL; after a restore or a move, stop all processes and run tidegate adopt"

// Adopt makes a database and a namespace in Redis belong together, whatever they belonged to. Processes of both should be stopped.
func Adopt(ctx context.Context, rdb redis.Cmdable, store Store, namespace string) error {
	if err := store.Install(ctx, namespace, true); err != nil {
		return err
	}
	in, err := store.Installation(ctx)
	if err != nil {
		return err
	}
	return unavailable(rdb.Set(ctx, databaseKey(namespace), in.identity(), 0).Err())
}

// claim returns ErrForeign, wrapped, if the database and the namespace do not belong together. Each stores the other at the first use, and
// again when Redis has lost it.
func (c *core) claim(ctx context.Context) error {
	o, err := ReadOwnership(ctx, c.base, c.store, c.opts.Namespace)
	if err != nil {
		return err
	}
	if err := o.Err(); err != nil || o.Database.ID != "" && o.Owner != "" {
		return err
	}
	if err := c.store.Install(ctx, c.opts.Namespace, false); err != nil {
		return err
	}
	if o.Database, err = c.store.Installation(ctx); err != nil {
		return err
	}
	if err := o.Err(); err != nil { // another process was first
		return err
	}
	key := databaseKey(c.opts.Namespace)
	if err := c.base.SetNX(ctx, key, o.Database.identity(), 0).Err(); err != nil {
		return unavailable(err)
	}
	if o.Owner, err = c.base.Get(ctx, key).Result(); err != nil {
		return unavailable(err)
	}
	return o.Err()
}

// checkForeign repeats claim, and returns whether the pair is foreign. Without an answer of the servers it stays as it was.
func (c *core) checkForeign(ctx context.Context) bool {
	if c.opts.EphemeralRedis {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	switch err := c.claim(ctx); {
	case errors.Is(err, ErrForeign):
		if !c.foreign.Swap(true) {
			c.opts.Logger.ErrorContext(ctx, "the database and Redis do not belong together; no orders are taken or committed", slog.Any("error", err))
		}
		c.conditions.set(Condition{Cause: CauseForeign, Detail: "the database and Redis do not belong together", Err: err})
	case err == nil && c.foreign.Swap(false):
		c.conditions.clear(CauseForeign)
		c.opts.Logger.InfoContext(ctx, "the database and Redis belong together again")
	}
	return c.foreign.Load()
}

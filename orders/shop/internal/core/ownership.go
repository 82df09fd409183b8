package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// A database and a namespace in Redis belong together: each names the other, since the first process used them. A process that reaches a
// pair that does not belong together takes, commits and rebuilds nothing, for it would mix the orders of two installations.

// identityOf returns the value of the key in Redis: the id, the place, and when the namespace was first used.
func identityOf(in *storage.Installation, how string, at time.Time) string {
	return fmt.Sprintf("%s %s %s %s", in.ID, in.Stored, how, at.UTC().Format("2006-01-02T15:04:05.000000Z"))
}

// How a namespace has come to belong to a database.
const (
	firstUse  = "since"
	byAdopter = "adopted"
)

// mayReplace reports whether the identity own, which the namespace had while this process was running, may replace other: the namespace was
// lost in Redis, and a database that is new here was first to use it again. What an operator has adopted is never replaced.
func mayReplace(own, other string) bool {
	ours, theirs := strings.Fields(own), strings.Fields(other)
	if len(ours) != 4 || len(theirs) != 4 || theirs[2] != firstUse {
		return false
	}
	return ours[2] == byAdopter || ours[3] < theirs[3]
}

// sameIdentity compares the ids: every write of the row makes a new one, so the places are only for people.
func sameIdentity(a, b string) bool {
	idA, _, _ := strings.Cut(a, " ")
	idB, _, _ := strings.Cut(b, " ")
	return idA == idB
}

// Ownership is what a database and a namespace in Redis store of each other.
type Ownership struct {
	Namespace string               // in Redis
	Owner     string               // identity of the database that the namespace belongs to: its id and its place; empty: none yet
	Database  storage.Installation // of the database
}

// ReadOwnership reads what a database and a namespace store of each other. It changes nothing.
func ReadOwnership(ctx context.Context, rdb redis.Cmdable, store storage.Store, namespace string) (Ownership, error) {
	// Redis first: the first process of all writes the database first, so whoever finds its key finds its row.
	owner, err := readOwner(ctx, rdb, namespace)
	if err != nil {
		return Ownership{}, err
	}
	in, err := store.Installation(ctx)
	return Ownership{namespace, owner, in}, err
}

func readOwner(ctx context.Context, rdb redis.Cmdable, namespace string) (owner string, err error) {
	if owner, err = rdb.Get(ctx, databaseKey(namespace)).Result(); errors.Is(err, redis.Nil) {
		err = nil
	}
	return owner, Unavailable(err)
}

// Err returns ErrForeign, wrapped with what was found, what was expected and what to do, if the two do not belong together.
func (o *Ownership) Err() error {
	db := &o.Database
	switch {
	case db.ID == "":
		if o.Owner != "" {
			return fmt.Errorf("%w: namespace %s in Redis belongs to database %s, and DATABASE_URL is a database that no installation has used "+
				"yet: %s",
				orders.ErrForeign, o.Namespace, o.Owner, remedy)
		}
	case db.Namespace != o.Namespace:
		return fmt.Errorf("%w: the database belongs to namespace %s in Redis, and NAMESPACE is %s: %s", orders.ErrForeign, db.Namespace,
			o.Namespace, remedy)
	case !db.Stored.Is(db.Live):
		return fmt.Errorf("%w: the database is a copy: it is at %s (system identifier/oid), and its original was at %s: %s", orders.ErrForeign,
			db.Live, db.Stored, remedy)
	case o.Owner != "" && !sameIdentity(o.Owner, db.ID):
		return fmt.Errorf("%w: namespace %s in Redis belongs to database %s, and DATABASE_URL is database %s %s: %s",
			orders.ErrForeign, o.Namespace, o.Owner, db.ID, db.Stored, remedy)
	}
	return nil
}

const remedy = "set another NAMESPACE, or the right DATABASE_URL and REDIS_URL; after a restore or a move, stop all processes and run " +
	"tidegate adopt"

// Adopt makes a database and a namespace in Redis belong together, whatever they belonged to. Processes of both should be stopped.
func Adopt(ctx context.Context, rdb redis.Cmdable, store storage.Store, namespace string) error {
	if err := store.Install(ctx, namespace, true); err != nil {
		return err
	}
	in, err := store.Installation(ctx)
	if err != nil {
		return err
	}
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return Unavailable(err)
	}
	return Unavailable(rdb.Set(ctx, databaseKey(namespace), identityOf(&in, byAdopter, now), 0).Err())
}

// Claim returns ErrForeign, wrapped, if the database and the namespace do not belong together. Each stores the other at the first use. When
// Redis has lost it, running processes store it again, without the database: another one must not be first. starting: this process does not
// run yet.
func (c *Core) Claim(ctx context.Context, starting bool) error {
	owner, err := readOwner(ctx, c.Base, c.Namespace)
	if err != nil {
		return err
	}
	if own := c.owned.Load(); own != nil && (owner == "" || mayReplace(*own, owner)) {
		if err := c.Base.Set(ctx, databaseKey(c.Namespace), *own, 0).Err(); err != nil {
			return Unavailable(err)
		}
		owner = *own
	}
	in, err := c.Store.Installation(ctx)
	if err != nil {
		return err
	}
	o := Ownership{c.Namespace, owner, in}
	if err := o.Err(); err != nil {
		return err
	}
	if o.Database.ID == "" && starting {
		if err := c.unused(ctx); err != nil {
			return err
		}
	}
	if o.Database.ID == "" || o.Owner == "" {
		if o, err = c.use(ctx); err != nil {
			return err
		}
	}
	c.owned.Store(&o.Owner)
	return nil
}

// unused returns an error if processes are running in the namespace although Redis does not have its database: they are about to store it
// again.
func (c *Core) unused(ctx context.Context) error {
	every, committers := c.NotificationChannel(), c.CommitterChannel()
	var n atomic.Int64
	err := EachMaster(ctx, c.Base, func(ctx context.Context, master *redis.Client) error { // each counts its own subscribers
		subscribers, err := master.PubSubNumSub(ctx, every, committers).Result()
		n.Add(subscribers[every] + subscribers[committers])
		return err
	})
	if err == nil && n.Load() > 0 {
		err = fmt.Errorf("%d processes run in namespace %s, and Redis has lost their database: waiting for them to store it again",
			n.Load(), c.Namespace)
	}
	return Unavailable(err)
}

// EachMaster calls fn for every master, at the same time.
func EachMaster(ctx context.Context, rdb redis.UniversalClient, fn func(context.Context, *redis.Client) error) error {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return fn(ctx, rdb)
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, fn)
	default:
		return fmt.Errorf("orders: a %T cannot be asked for its masters", rdb)
	}
}

// use stores in the database and in Redis that they belong together, unless either belongs to another one.
func (c *Core) use(ctx context.Context) (o Ownership, err error) {
	o.Namespace = c.Namespace
	if err := c.Store.Install(ctx, o.Namespace, false); err != nil {
		return o, err
	}
	if o.Database, err = c.Store.Installation(ctx); err != nil {
		return o, err
	}
	if err := o.Err(); err != nil { // another process was first
		return o, err
	}
	now, err := c.Base.Time(ctx).Result()
	if err != nil {
		return o, Unavailable(err)
	}
	key := databaseKey(o.Namespace)
	if err := c.Base.SetNX(ctx, key, identityOf(&o.Database, firstUse, now), 0).Err(); err != nil {
		return o, Unavailable(err)
	}
	if o.Owner, err = c.Base.Get(ctx, key).Result(); err != nil {
		return o, Unavailable(err)
	}
	return o, o.Err()
}

// CheckForeign repeats claim, and returns whether the pair is foreign. Without an answer of the servers it stays as it was.
func (c *Core) CheckForeign(ctx context.Context) bool {
	if c.EphemeralRedis {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, HeartbeatTimeout)
	defer cancel()
	switch err := c.Claim(ctx, false); {
	case errors.Is(err, orders.ErrForeign):
		if !c.Foreign.Swap(true) {
			c.Logger.ErrorContext(ctx, "the database and Redis do not belong together; no orders are taken or committed", slog.Any("error", err))
		}
		c.Conditions.Set(orders.Condition{Cause: orders.CauseForeign, Detail: "the database and Redis do not belong together", Err: err})
	case err == nil && c.Foreign.Swap(false):
		c.Conditions.Clear(orders.CauseForeign)
		c.Logger.InfoContext(ctx, "the database and Redis belong together again")
	}
	return c.Foreign.Load()
}

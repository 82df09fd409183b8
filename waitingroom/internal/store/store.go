// Package store is what the service of rooms needs of a database: Store, which packages sqlstore and memory implement, with what it takes
// and returns. It stores rows, and decides nothing: what a room and a place are, is in package waitingroom.
package store

import (
	"context"
	"errors"
	"fmt"
)

// These are documented in package waitingroom.
var (
	ErrUnknownRoom = errors.New("waitingroom: unknown room")
	ErrUnavailable = errors.New("waitingroom: store unavailable")
)

// UnknownRoom returns the error of a room that there is not.
func UnknownRoom(name string) error { return fmt.Errorf("%w: %s", ErrUnknownRoom, name) }

// Unavailable makes an error an ErrUnavailable, unless it is nil.
func Unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Store is the database. What is read outside of transactions is committed. Methods return ErrUnavailable, wrapped, when the database did
// not answer. It is safe for concurrent use.
type Store interface {
	Reader
	// InTx runs fn in a transaction, and commits it unless fn returns an error, which InTx returns as it is. It repeats fn when the database
	// has ended the transaction because of others, so each call of fn has to begin anew. Each read in fn returns what is committed by then,
	// and what the transaction has written. After an error of the commit it is not known whether that took place.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Reader reads what is stored, each method as of one moment.
type Reader interface {
	roomReader
	placeReader
	lister
	counter
	actReader
}

// Tx is a transaction. What it locks or changes, others can lock and change only after its end. One goroutine at a time may use it.
type Tx interface {
	Reader
	roomWriter
	tailWriter
	queueEnd
	turnGiver
	placeEnder
	actWriter
	// Now returns the time of the database's clock.
	Now(ctx context.Context) (int64, error)
}

// roomReader reads rooms.
type roomReader interface {
	// Versions returns the versions of all rooms.
	Versions(ctx context.Context) ([]Version, error)
	// Rooms returns rooms by name, each with the end of its queue and LastActive: those of some names, or without names all.
	Rooms(ctx context.Context, names ...string) ([]Room, error)
	// Cursors returns the mode, start, draw and lanes of a room, which show how many positions have had their turn and whether it still
	// gathers; a zero Room if there is none.
	Cursors(ctx context.Context, name string) (Room, error)
	// Closed returns the rooms that an operator has closed and that belong to a sale that has not ended: their names, sales and items.
	Closed(ctx context.Context) ([]Room, error)
	// Old returns the rooms that started, ended, and had their last tick, at least a number of ms ago, and are not deleted: their names,
	// sales and items.
	Old(ctx context.Context, ms int64) ([]Room, error)
}

// placeReader finds places.
type placeReader interface {
	// BySubject returns the current places of subjects.
	BySubject(ctx context.Context, room string, subjects []string) (map[string]*Place, error)
	// ByNumber returns the place with a number, or nil.
	ByNumber(ctx context.Context, room string, number int64) (*Place, error)
	// ByLaneNumber returns the places with numbers of a lane, in any order.
	ByLaneNumber(ctx context.Context, room, lane string, numbers []int64) ([]*Place, error)
}

// lister lists places.
type lister interface {
	// After returns the places with numbers after one, in their order, of a subject if it is not empty.
	After(ctx context.Context, room, subject string, after int64, most int) ([]*Place, error)
	// Listed calls take with the places of a room's numbers after one up to another, in their order, of which it reads what the list of a
	// draw needs. It returns the error of take, as an ErrUnavailable.
	Listed(ctx context.Context, room string, after, upTo int64, take func(*Place) error) error
	// Gone returns places that changed after a time, in the order of their changes: those that were given up, replaced or barred before
	// their turn, and those whose pass would be valid at the room time but was given up or, with done, is done.
	Gone(ctx context.Context, room string, since, rt int64, done bool) ([]*Place, error)
	// Expired returns the places whose pass is over at a room time, the highest numbers first.
	Expired(ctx context.Context, room string, rt int64, most int) ([]*Place, error)
}

// counter counts places.
type counter interface {
	// CountPasses returns how many admitted places can use their pass at a room time.
	CountPasses(ctx context.Context, room string, rt int64) (int64, error)
	// CountAdmitted returns how many of the places that were active after a room time were admitted after a time.
	CountAdmitted(ctx context.Context, room string, since, at int64) (int64, error)
	// TakeCensus reads cursors, tail and places of a room.
	TakeCensus(ctx context.Context, room string) (*Census, error)
}

// actReader reads what operators did.
type actReader interface {
	// Acts returns the acts of operators that history needs, the oldest first.
	Acts(ctx context.Context, room string) ([]Act, error)
	// ActOf returns what was done with a request id, or nil: the act and its detail.
	ActOf(ctx context.Context, room, requestID string) (*Act, error)
}

// roomWriter changes rooms.
type roomWriter interface {
	// Insert stores a new room; false if there is one of that name. It waits for a transaction that has inserted one.
	Insert(ctx context.Context, r *Room) (bool, error)
	// Lock locks a room's row and reads the room with the end of its queue, which may grow meanwhile, unless its last tick is younger than
	// idle ms. It returns ErrUnknownRoom then, and if there is none.
	Lock(ctx context.Context, name string, idle int64) (*Room, error)
	// Write stores what changes in a locked room.
	Write(ctx context.Context, r *Room) error
	// Shrink deletes up to most of the places of an old room, of which more may be left, or if it has none all but its name; lane is
	// then its only one.
	Shrink(ctx context.Context, room string, most int, lane Lane) (more, deleted bool, err error)
}

// tailWriter changes the end of a queue for those who hold its room.
type tailWriter interface {
	// LockTail waits for joins that are under way and keeps others waiting, after Lock. It reads the end of the queue again.
	LockTail(ctx context.Context, room string, s *Saved) error
	// WriteTail stores the lanes of a locked tail.
	WriteTail(ctx context.Context, room string, lanes []Lane) error
}

// queueEnd adds places, for which no lock of the room is needed.
type queueEnd interface {
	// LockEnd locks and reads the end of a room's queue.
	LockEnd(ctx context.Context, room string) (*QueueEnd, error)
	// Add stores joiners, who have their numbers, after the earlier places of some of them were replaced, and the end of the queue.
	Add(ctx context.Context, room string, e *QueueEnd, joiners []Joiner, replaced []string) error
}

// turnGiver moves the places of a locked room on. A place that a join replaces meanwhile, which does not wait for the room's lock, stays
// as it is; one that the caller has read as replaced does not.
type turnGiver interface {
	// Live returns those of some numbers of a lane that can have a turn, in any order.
	Live(ctx context.Context, room, lane string, numbers []int64) ([]*Place, error)
	// NextLive returns the first places with numbers of a lane after one up to another that can have a turn, in their order.
	NextLive(ctx context.Context, room, lane string, after, upTo int64, most int) ([]*Place, error)
	// GiveTurns gives turns from a room time until another.
	GiveTurns(ctx context.Context, room string, turns []Turn, rt, untilRT int64) error
	// Admit admits a place. It returns false if a join has replaced the place.
	Admit(ctx context.Context, room string, p *Place, at, passRT int64) (bool, error)
	// ProlongTurn sets the room time at which the turn of a place is over.
	ProlongTurn(ctx context.Context, room string, p *Place, untilRT int64) error
}

// placeEnder ends places of a locked room, under the same condition.
type placeEnder interface {
	placeCounter
	// Bar bars the current places of subjects.
	Bar(ctx context.Context, room string, subjects []string, why, by string) error
	// Leave gives up places.
	Leave(ctx context.Context, room string, places []*Place) error
	// Ordered sets a place to done with its order, at a room time.
	Ordered(ctx context.Context, room string, p *Place, order string, rt int64) error
	// Finish sets a place to done if it is admitted at a room time. It returns false if it is not.
	Finish(ctx context.Context, room string, p *Place, rt int64) (bool, error)
	// Lapse records places as lapsed whose turn or pass ended between two room times. It leaves those that are locked to the next
	// call, because the lock may be that of somebody who joins again, who waits for other places of this transaction.
	Lapse(ctx context.Context, room string, since, rt int64) error
}

// placeCounter reads what the turns of a locked room depend on.
type placeCounter interface {
	// Unfinished returns those of some numbers that were not given up, and are neither done nor barred, in any order.
	Unfinished(ctx context.Context, room string, numbers []int64) ([]*Place, error)
	// Passes returns the places with a pass that ended after a room time, and was neither used nor given up, in the order of its end.
	Passes(ctx context.Context, room string, since int64) ([]*Place, error)
	// Count counts the places of a room.
	Count(ctx context.Context, room string, m Moments) (Counts, error)
}

// actWriter stores what operators did.
type actWriter interface {
	// RecordAct stores what an operator did now to a room, which is locked.
	RecordAct(ctx context.Context, room string, a *Act) error
}

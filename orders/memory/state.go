package memory

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// state is what the tables of a database hold. An operation checks everything before it writes, so that an error changes nothing.
type state struct {
	idKey        []byte
	installation storage.Installation // Live is the database's
	revision     int64                // of the sale that was changed last
	number       int                  // of the item that was added last
	seq          int64                // of the last event

	sales      table[string, orders.Sale]
	orders     table[orders.ID, order]
	identities map[identity]struct{} // of orders with a key
	unpaid     table[due, struct{}]  // confirmed orders that wait for payment
	owners     table[unit, orders.ID]
	events     []orders.Event // by number, without what the order has
	payments   table[string, orders.Payment]
	returns    table[orders.ID, storage.Return]
	letters    table[orders.ID, orders.DeadLetter]
	late       table[orders.ID, orders.Reservation]
	processes  table[string, process]
	acks       map[ack]struct{}
}

// order is the row of an order.
type order struct {
	orders.Order
	buyerHash string
	key       *string // nil: it has no identity, or has given it up
}

// identity is what orders must not have in common.
type identity struct{ sale, buyerHash, item, key string }

// identity returns the order's, if it has one.
func (o *order) identity() (identity, bool) {
	if o.key == nil {
		return identity{}, false
	}
	return identity{o.Sale, o.buyerHash, o.Item, *o.key}, true
}

// due is when an order expires.
type due struct {
	at time.Time
	id orders.ID
}

// waits reports whether the order waits for payment.
func (o *order) waits() bool { return o.Status == orders.StatusConfirmed && !o.PayBefore.IsZero() }

type unit struct {
	sale, item string
	number     int
}

type process struct {
	beats int
	self  liveness.Self
}

type ack struct {
	sale    string
	epoch   int64
	process string
}

func compareIDs(a, b orders.ID) int { return bytes.Compare(a[:], b[:]) }

func newState() *state {
	return &state{
		sales:      newTable[string, orders.Sale](strings.Compare),
		orders:     newTable[orders.ID, order](compareIDs),
		identities: make(map[identity]struct{}),
		unpaid:     newTable[due, struct{}](func(a, b due) int { return cmp.Or(a.at.Compare(b.at), compareIDs(a.id, b.id)) }),
		owners: newTable[unit, orders.ID](func(a, b unit) int {
			return cmp.Or(strings.Compare(a.sale, b.sale), strings.Compare(a.item, b.item), cmp.Compare(a.number, b.number))
		}),
		payments:  newTable[string, orders.Payment](strings.Compare),
		returns:   newTable[orders.ID, storage.Return](compareIDs),
		letters:   newTable[orders.ID, orders.DeadLetter](compareIDs),
		late:      newTable[orders.ID, orders.Reservation](compareIDs),
		processes: newTable[string, process](strings.Compare),
		acks:      make(map[ack]struct{}),
	}
}

func (st *state) clone() *state {
	c := *st
	c.sales, c.orders, c.identities, c.unpaid = st.sales.clone(), st.orders.clone(), maps.Clone(st.identities), st.unpaid.clone()
	c.owners, c.events, c.payments, c.returns = st.owners.clone(), slices.Clone(st.events), st.payments.clone(), st.returns.clone()
	c.letters, c.late, c.processes, c.acks = st.letters.clone(), st.late.clone(), st.processes.clone(), maps.Clone(st.acks)
	return &c
}

// putOrder writes an order, whose identity no other order has.
func (st *state) putOrder(o order) {
	st.removeOrder(o.ID)
	st.orders.put(o.ID, o)
	if name, ok := o.identity(); ok {
		st.identities[name] = struct{}{}
	}
	if o.waits() {
		st.unpaid.put(due{o.PayBefore, o.ID}, struct{}{})
	}
}

func (st *state) removeOrder(id orders.ID) {
	o, ok := st.orders.get(id)
	if !ok {
		return
	}
	st.orders.remove(id)
	if name, ok := o.identity(); ok {
		delete(st.identities, name)
	}
	st.unpaid.remove(due{o.PayBefore, o.ID})
}

// record adds the event of a change.
func (st *state) record(now time.Time, e orders.Event) {
	st.seq++
	e.Seq, e.At = st.seq, now
	st.events = append(st.events, e)
}

// shown returns the order as callers get it, who may change it.
func (o *order) shown() orders.Order {
	shown := o.Order
	shown.Units = slices.Clone(o.Units)
	return shown
}

// kept returns a reservation as it is stored, or as callers get it: without what its JSON leaves out.
func kept(r *orders.Reservation) orders.Reservation {
	k := *r
	k.Units, k.Reason = slices.Clone(r.Units), ""
	return k
}

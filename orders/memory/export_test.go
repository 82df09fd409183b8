package memory

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/storetest"
)

// Damage changes rows as no method does.
func (s *Store) Damage(change func(*storetest.Rows)) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	st := s.db.state
	var rows storetest.Rows
	for _, o := range st.orders.all() {
		rows.Orders = append(rows.Orders, o.Order)
	}
	for _, p := range st.payments.all() {
		rows.Payments = append(rows.Payments, p)
	}
	rows.Events = slices.Clone(st.events)
	change(&rows)
	for _, id := range slices.Clone(st.orders.keys) {
		o, _ := st.orders.get(id)
		i := slices.IndexFunc(rows.Orders, func(o orders.Order) bool { return o.ID == id })
		if st.removeOrder(id); i >= 0 {
			o.Order = rows.Orders[i]
			st.putOrder(o)
		}
	}
	for _, reference := range slices.Clone(st.payments.keys) {
		st.payments.remove(reference)
	}
	for _, p := range rows.Payments {
		st.payments.put(p.Reference, p)
	}
	st.events = rows.Events
}

// State returns all rows as text.
func (c *Copy) State() string {
	st := *c.state
	return fmt.Sprintf("%v %v %v %v %v %v %v %v %v %v %v %v %v %v %v", st.idKey, st.installation, st.revision, st.number, st.seq,
		st.sales.rows, st.identities, st.unpaid.keys, st.owners.rows, st.events, st.payments.rows, st.returns.rows,
		st.letters.rows, st.processes.rows, st.acks)
}

package sqlstore

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
)

// Orders and dead letters are read as one: the columns of an order, and the payload of a dead letter, which has the rest.
const (
	orderColumns  = `order_id, status, sale, item, buyer, quantity, units, reason, accepted_at, confirmed_at, pay_before, CAST(NULL AS bytea) AS payload`
	letterColumns = `order_id, 'accepted', sale, item, '', 0, {no units}, '', created_at, CAST(NULL AS timestamptz), CAST(NULL AS timestamptz), payload`
)

// scanOrder reads orderColumns or letterColumns.
func scanOrder(row sqldb.Row) (o orders.Order, err error) {
	var letter []byte
	if err := row.Scan((*[16]byte)(&o.ID), &o.Status, &o.Sale, &o.Item, &o.Buyer, &o.Quantity, &o.Units, &o.Reason,
		(*sqldb.Time)(&o.AcceptedAt), (*sqldb.Time)(&o.ConfirmedAt), (*sqldb.Time)(&o.PayBefore), &letter); err != nil || letter == nil {
		return o, err
	}
	if r, err := orders.ParseReservation(letter); err == nil {
		return r.Accepted(), nil
	}
	return o, nil // the payload is damaged: an accepted order of which nothing else is known
}

// A Row is an order to be written. A store adds the columns confirmed_at and pay_before, which depend on its clock.
type Row struct {
	*orders.Reservation
	Status  orders.Status
	KeyHash *string // nil: the key remains free
}

// RowOf returns the row of an order, which is confirmed or rejected.
func RowOf(r *orders.Reservation) Row {
	switch {
	case r.Reason == "":
		return Row{r, orders.StatusConfirmed, &r.KeyHash}
	case r.KeyHash == "" || r.Reason == orders.ReasonDuplicate:
		return Row{r, orders.StatusRejected, nil}
	}
	return Row{r, orders.StatusRejected, &r.KeyHash}
}

// SeatedUnits are the units that the order owns: none if it is rejected.
func (r *Row) SeatedUnits() []int {
	if r.Reason != "" {
		return []int{}
	}
	return r.Units
}

// A Column is a column of orders, as Postgres and SQLite write it.
type Column struct {
	Name string
	Type string               // of an element of List
	Cast string               // from it to the column, if it has another type
	Of   func(r *Row) any     // as package sqldb takes it
	List func(rows []Row) any // one slice for unnest
}

// Written are the columns of a Row.
var Written = []Column{
	column("order_id", "uuid", func(r *Row) [16]byte { return r.ID }),
	column("sale", "text", func(r *Row) string { return r.Sale }),
	column("item", "text", func(r *Row) string { return r.Item }),
	column("buyer", "text", func(r *Row) string { return r.Buyer }),
	column("buyer_hash", "text", func(r *Row) string { return r.BuyerHash }),
	column("key_hash", "text", func(r *Row) *string { return r.KeyHash }),
	column("quantity", "integer", func(r *Row) int { return r.Quantity }),
	units,
	column("status", "text", func(r *Row) string { return string(r.Status) }),
	column("reason", "text", func(r *Row) string { return string(r.Reason) }),
	column("epoch", "bigint", func(r *Row) int64 { return r.Epoch }),
	column("accepted_at", "timestamptz", func(r *Row) time.Time { return time.UnixMilli(r.AcceptedMS) }),
}

func column[T any](name, kind string, of func(*Row) T) Column {
	return Column{name, kind, "", func(r *Row) any { return of(r) }, func(rows []Row) any {
		list := make([]T, len(rows))
		for i := range rows {
			list[i] = of(&rows[i])
		}
		return list
	}}
}

// units are texts for unnest, because lists of different lengths are no array.
var units = Column{"units", "text", "::integer[]", func(r *Row) any { return r.SeatedUnits() }, func(rows []Row) any {
	list := make([]string, len(rows))
	for i := range rows {
		list[i] = ArrayText(rows[i].SeatedUnits())
	}
	return list
}}

// ArrayText returns a list as Postgres writes it.
func ArrayText(units []int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, u := range units {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(u))
	}
	b.WriteByte('}')
	return b.String()
}

package rehearse

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/orders"
)

// Changes of orders at the fake server. All functions except handlers must be called with s.mu held.

func (s *fakeShop) free() int { return s.stock - s.next + len(s.back) }

// tell adds a change to the feed.
func (s *fakeShop) tell(o *judge.Order, status orders.Status) *judge.Event {
	s.events = append(s.events, judge.Event{
		Seq: int64(10 * (len(s.events) + 1)), OrderID: o.OrderID, Sale: "demo", Item: o.Item, User: o.User,
		Quantity: o.Quantity, Units: o.Units, Status: status,
	})
	return &s.events[len(s.events)-1]
}

func (s *fakeShop) commit(o *judge.Order) {
	if o.Status != orders.StatusAccepted || s.wrong == neverEnds && o == s.orders[0] {
		return
	}
	o.Status = orders.StatusConfirmed
	if s.hold > 0 {
		o.PayBefore = time.Now().Add(s.hold)
	}
	s.tell(o, orders.StatusConfirmed)
}

// end removes an unpaid order from the sale.
func (s *fakeShop) end(o *judge.Order, status orders.Status) {
	o.Status = status
	if s.wrong != hidesChange || status != orders.StatusCancelled {
		s.tell(o, status)
	}
	if s.wrong == keepsReturned {
		return
	}
	if s.wrong == keepsQuota {
		s.kept[o.User] += o.Quantity
	}
	s.back = append(s.back, o.Units...)
	if mark := "of " + o.User; s.keys[mark] == o {
		delete(s.keys, mark)
	}
}

// expire ends the orders whose time to pay is over.
func (s *fakeShop) expire() {
	for _, o := range s.orders {
		if o.PayBefore.IsZero() || time.Now().Before(o.PayBefore) {
			continue
		}
		switch {
		case s.wrong == neverExpires:
		case o.Status == orders.StatusConfirmed, s.wrong == expiresPaid && o.Status == orders.StatusPaid && s.first():
			s.end(o, orders.StatusExpired)
		case s.wrong == returnsTwice && o.Status == orders.StatusCancelled && s.first():
			s.tell(o, orders.StatusExpired)
		}
	}
}

// find returns the current order, committed; nil if the user has no such order.
func (s *fakeShop) find(id, user string) *judge.Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.orders, func(o *judge.Order) bool { return o.OrderID == id && (o.User == user || user == "") })
	if i < 0 {
		return nil
	}
	s.commit(s.orders[i])
	s.expire()
	o := *s.orders[i]
	return &o
}

func (s *fakeShop) cancel(w http.ResponseWriter, r *http.Request) {
	o := s.find(r.PathValue("id"), r.Header.Get("X-User-ID"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if o != nil {
		o = s.orders[slices.IndexFunc(s.orders, func(p *judge.Order) bool { return p.OrderID == o.OrderID })]
	}
	switch {
	case o == nil:
		refuse(w, 404, "unknown_order")
		return
	case o.Status == orders.StatusConfirmed && s.hold > 0:
		s.end(o, orders.StatusCancelled)
	case o.Status != orders.StatusCancelled:
		refuse(w, 409, "order_final")
		return
	}
	say(w, 200, o)
}

func (s *fakeShop) payment(w http.ResponseWriter, r *http.Request) {
	var in struct{ Reference, Outcome string }
	o := s.find(r.PathValue("id"), "")
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Outcome != "captured" || o == nil || r.Header.Get("Authorization") != "Bearer secret" {
		refuse(w, 422, "invalid")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o = s.orders[slices.IndexFunc(s.orders, func(p *judge.Order) bool { return p.OrderID == o.OrderID })]
	s.posts++
	e := s.payments[in.Reference]
	if e == nil || s.wrong == forgetsRef && e.Action == orders.ActionNone {
		switch {
		case s.wrong == turnsAway && (o.Status == orders.StatusCancelled || o.Status == orders.StatusExpired):
			refuse(w, 409, "order_final")
			return
		case o.Status == orders.StatusConfirmed && s.hold > 0 && !(s.wrong == refundsLive && s.first()), s.wrong == chargesTwice && o.Status == orders.StatusPaid && e == nil:
			o.Status = orders.StatusPaid
			e = s.tell(o, orders.StatusPaid)
		default:
			e = s.tell(o, o.Status)
			e.Action = orders.ActionRefund
		}
		e.Reference = in.Reference
		said := *e
		if said.Action == "" {
			said.Action = orders.ActionNone
		}
		s.payments[in.Reference] = &said
		if s.wrong == losesCapture && e.Action == orders.ActionRefund && s.once == false {
			s.once, s.events = true, s.events[:len(s.events)-1]
		}
		e = &said
	}
	if s.wrong == dropsAnswers && s.posts%3 == 0 {
		refuse(w, 503, "unavailable")
		return
	}
	say(w, 200, map[string]any{"status": e.Status, "action": e.Action})
}

func (s *fakeShop) feed(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	page := []judge.Event{}
	for _, e := range s.events {
		if e.Seq > after && len(page) < 40 {
			page = append(page, e)
		}
	}
	if len(page) > 0 {
		after = page[len(page)-1].Seq
	}
	say(w, 200, map[string]any{"items": page, "next_cursor": strconv.FormatInt(after, 10)})
}

package shop_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/orders"
)

// model returns the expected results of a sale without commits: the specification of reserve.lua in Go, without its data
// structures.
type model struct {
	stock, quota, inFlight int
	switched               orders.Switch
	orders                 []modelOrder
}

type modelOrder struct {
	user, key string
	quantity  int
	id        orders.ID
}

func (m *model) decide(user, key string, quantity int) (reason orders.Reason, replay orders.ID, free int) {
	held, latest := 0, orders.ID{}
	free = m.stock
	for _, o := range m.orders {
		free -= o.quantity
		if o.user != user {
			continue
		}
		held, latest = held+o.quantity, o.id
		if o.key == key {
			if o.quantity != quantity {
				return orders.ReasonKeyReused, o.id, 0
			}
			return "", o.id, 0
		}
	}
	switch {
	case m.switched == orders.SwitchPaused:
		return orders.ReasonPaused, orders.ID{}, 0
	case held+quantity > m.quota:
		return orders.ReasonQuotaPerBuyer, latest, 0
	case free == 0:
		return orders.ReasonSoldOut, orders.ID{}, 0
	case free < quantity:
		return orders.ReasonNotEnough, orders.ID{}, free
	case len(m.orders) >= m.inFlight:
		return orders.ReasonAtCapacity, orders.ID{}, 0
	}
	return "", orders.ID{}, 0
}

func TestReserveFollowsTheModel(t *testing.T) {
	t.Parallel()
	in := install(t)
	ps := []*process{in.start(), in.start()}
	rapid.Check(t, func(rt *rapid.T) {
		m := model{
			stock: rapid.IntRange(0, 12).Draw(rt, "stock"), quota: rapid.IntRange(1, 4).Draw(rt, "quota"),
			inFlight: rapid.IntRange(1, 8).Draw(rt, "in flight"), switched: orders.SwitchOpen,
		}
		sale := in.sale(ps[0], func(s *orders.Sale) {
			s.Items[0].Stock, s.Items[0].QuotaPerBuyer, s.Items[0].InFlightMax = m.stock, m.quota, m.inFlight
		})
		rt.Repeat(map[string]func(*rapid.T){
			"reserve": func(rt *rapid.T) {
				user := fmt.Sprint("user-", rapid.IntRange(1, 4).Draw(rt, "user"))
				key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key")
				if m.quota == 1 {
					key = rapid.SampledFrom([]string{"a", ""}).Draw(rt, "key or none")
				}
				quantity := rapid.IntRange(1, 3).Draw(rt, "quantity")
				p := ps[rapid.IntRange(0, 1).Draw(rt, "process")]
				a, err := p.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: quantity, User: user, Key: key})
				must(t, err)
				got, err := a.Reserve(t.Context())
				must(t, err)
				reason, id, free := m.decide(user, key, quantity)
				if got.Reason != reason || got.Free != free || got.Replayed != (reason == "" && id != orders.ID{}) {
					rt.Fatalf("%s %s %d: %+v, the model says %q, order %v, %d free", user, key, quantity, got, reason, id, free)
				}
				if id != (orders.ID{}) && got.Order.ID != id {
					rt.Fatalf("%s %s %d: order %s, the model says %s", user, key, quantity, got.Order.ID, id)
				}
				if got.Admitted() && !got.Replayed {
					m.orders = append(m.orders, modelOrder{user, key, quantity, got.Order.ID})
				}
			},
			"grow": func(rt *rapid.T) {
				m.stock += rapid.IntRange(0, 3).Draw(rt, "more")
				sale.Items[0].Stock = m.stock
				_, _, err := ps[0].PutSale(t.Context(), sale.Definition())
				must(t, err)
			},
			"pause": func(*rapid.T) {
				m.switched = orders.SwitchPaused
				_, err := ps[0].SetSwitch(t.Context(), sale.ID, m.switched)
				must(t, err)
			},
			"resume": func(*rapid.T) {
				m.switched = orders.SwitchOpen
				_, err := ps[0].SetSwitch(t.Context(), sale.ID, m.switched)
				must(t, err)
			},
			"": func(rt *rapid.T) {
				in.verified(ps[0], sale.ID)
				list, err := ps[1].Orders(t.Context(), orders.Query{Sale: sale.ID, Viewer: orders.Viewer{All: true}, Limit: 100})
				must(t, err)
				if len(list) != len(m.orders) {
					rt.Fatalf("%d orders, the model has %d", len(list), len(m.orders))
				}
				for _, user := range []string{"user-1", "user-2", "user-3", "user-4"} {
					own, err := ps[0].Orders(t.Context(), orders.Query{Sale: sale.ID, Viewer: orders.Viewer{User: user}, Limit: 100})
					must(t, err)
					held := 0
					for _, o := range m.orders {
						if o.user == user {
							held++
						}
					}
					if len(own) != held {
						rt.Fatalf("%s has %d orders, the model says %d", user, len(own), held)
					}
				}
			},
		})
	})
}

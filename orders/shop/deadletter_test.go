package shop_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/orders"
)

// bury makes the database refuse a buyer's order during the test, until allow is called.
func (in *installation) bury(p *process, sale, buyer string) (id orders.ID, allow func()) {
	in.t.Helper()
	_, err := in.pool.Exec(in.t.Context(), `ALTER TABLE orders ADD CONSTRAINT refused CHECK (buyer <> '`+buyer+`')`)
	must(in.t, err)
	id = in.order(p, sale, buyer, "", 1).Order.ID
	eventually(in.t, "it is a dead letter", func() bool {
		list, err := p.DeadLetters(in.t.Context(), orders.ID{}, 10)
		must(in.t, err)
		return len(list) == 1 && list[0].Reservation.ID == id
	})
	return id, func() {
		_, err := in.pool.Exec(in.t.Context(), `ALTER TABLE orders DROP CONSTRAINT refused`)
		must(in.t, err)
	}
}

func TestADeadLetterIsReplayedOnceItMay(t *testing.T) {
	t.Parallel()
	in := install(t)
	p, other := in.start(), in.start()
	in.work(p)
	sale := in.sale(p)
	id, allow := in.bury(p, sale.ID, "ada")
	if _, err := p.Replay(t.Context(), id); !errors.Is(err, orders.ErrConflict) || !errors.Is(err, orders.ErrPoison) {
		t.Errorf("while the database refuses: %v", err)
	}
	if _, err := p.Pay(t.Context(), id, "pi_1"); !errors.Is(err, orders.ErrUncommitted) || !strings.Contains(err.Error(), "until an operator") {
		t.Errorf("paid before: %v", err)
	}
	confirmed := in.waiting(other, id, orders.StatusAccepted)
	allow()
	o, err := p.Replay(t.Context(), id)
	if err != nil || o.Status != orders.StatusConfirmed || o.PayBefore.IsZero() {
		t.Fatalf("%+v, %v", o, err)
	}
	<-confirmed
	if again, err := p.Replay(t.Context(), id); err != nil || !reflect.DeepEqual(again, o) {
		t.Errorf("once more: %+v, %v", again, err)
	}
	nowhere := id
	nowhere[15]++
	if _, err := p.Replay(t.Context(), nowhere); !errors.Is(err, orders.ErrUnknownOrder) {
		t.Errorf("an order that never was: %v", err)
	}
	if again := in.order(p, sale.ID, "ada", "", 1); !again.Replayed || again.Order.ID != id {
		t.Errorf("its buyer asks again: %+v", again)
	}
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
	if paid, err := p.Pay(t.Context(), id, "pi_1"); err != nil || paid.Action != orders.ActionNone {
		t.Errorf("the capture repeated: %+v, %v", paid, err)
	}
	var events []orders.Event
	eventually(t, "both events are in the feed", func() bool { // which waits for transactions of other tests
		events, err = p.Events(t.Context(), 0, 10, 0)
		must(t, err)
		return len(events) >= 2
	})
	if len(events) != 2 || events[0].OrderID != id {
		t.Errorf("%+v", events)
	}
}

func TestADeadLetterIsInTheLists(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	in.work(p)
	sale := in.sale(p)
	first := in.order(p, sale.ID, "bob", "", 1).Order.ID
	in.settled(p, first)
	id, _ := in.bury(p, sale.ID, "ada")
	eventually(t, "Redis does not wait for it", func() bool { return in.verified(p, sale.ID) == 1 })
	all, ada := orders.Viewer{All: true}, orders.Viewer{User: "ada"}
	both := []orders.ID{first, id}
	slices.SortFunc(both, func(a, b orders.ID) int { return bytes.Compare(a[:], b[:]) }) // ids of the same time are not sorted
	for _, c := range []struct {
		what  string
		query orders.Query
		want  []orders.ID
	}{
		{"all", orders.Query{Viewer: all}, both},
		{"accepted", orders.Query{Viewer: all, Status: orders.StatusAccepted}, []orders.ID{id}},
		{"confirmed", orders.Query{Viewer: all, Status: orders.StatusConfirmed}, []orders.ID{first}},
		{"of ada", orders.Query{Viewer: all, User: "ada"}, []orders.ID{id}},
		{"ada's own", orders.Query{Viewer: ada}, []orders.ID{id}},
		{"after them", orders.Query{Viewer: all, After: both[1]}, nil},
	} {
		c.query.Sale, c.query.Limit = sale.ID, 10
		list, err := p.Orders(t.Context(), c.query)
		must(t, err)
		var got []orders.ID
		for i := range list {
			got = append(got, list[i].ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestAReplayedDuplicateGivesBackItsUnits: another order takes the letter's identity meanwhile.
func TestAReplayedDuplicateGivesBackItsUnits(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	in.work(p)
	sale := in.sale(p)
	id, allow := in.bury(p, sale.ID, "ada")
	allow()
	letters, err := p.DeadLetters(t.Context(), orders.ID{}, 10)
	must(t, err)
	twin := letters[0].Reservation
	twin.ID[15]++
	twin.Units = nil
	twin.Reason = orders.ReasonRecoveredLate
	_, err = in.store().Commit(t.Context(), []orders.Reservation{twin})
	must(t, err)
	_, err = in.pool.Exec(t.Context(), `UPDATE orders SET key_hash = '' WHERE order_id = $1`, [16]byte(twin.ID))
	must(t, err)

	o, err := p.Replay(t.Context(), id)
	if err != nil || o.Status != orders.StatusRejected || o.Reason != orders.ReasonDuplicate {
		t.Fatalf("%+v, %v", o, err)
	}
	if waiting := in.verified(p, sale.ID); waiting != 0 {
		t.Errorf("%d wait", waiting)
	}
	if c := in.check(p, sale.ID, "I6"); c.Detail != "10 free + 0 reserved + 0 sold + 0 on their way back + 0 in dead letters = 10" {
		t.Error(c.Detail)
	}
}

func TestADeadLetterKeepsItsUnitsWhenRedisForgets(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	in.work(p)
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 2 })
	id, allow := in.bury(p, sale.ID, "ada")
	must(t, in.rdb.Del(t.Context(), in.rdb.Keys(t.Context(), in.namespace+":{"+sale.ID+":*").Val()...).Err())
	var bob orders.Outcome
	eventually(t, "the sale is open again", func() bool {
		var err error
		bob, err = attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "bob"})
		return err == nil && bob.Admitted()
	})
	in.settled(p, bob.Order.ID)
	if out := in.order(p, sale.ID, "eve", "", 1); out.Reason != orders.ReasonSoldOut {
		t.Errorf("the letter's unit was sold: %+v", out)
	}
	eventually(t, "only the letter waits", func() bool { return in.verified(p, sale.ID) == 1 })
	allow()
	if o, err := p.Replay(t.Context(), id); err != nil || o.Status != orders.StatusConfirmed {
		t.Errorf("%+v, %v", o, err)
	}
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
}

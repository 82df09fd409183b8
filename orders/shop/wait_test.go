package shop_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// untold is shorter than the polling interval of waiters. An answer within it was triggered by a notification.
const untold = 4 * time.Second

// waiting waits for a change in a process, and returns when it was seen.
func (in *installation) waiting(p *process, id orders.ID, while orders.Status) <-chan time.Time {
	changed := make(chan time.Time, 1)
	go func() {
		o, err := p.Wait(in.t.Context(), id, orders.Viewer{All: true}, while, 20*time.Second)
		if err != nil || o.Status == while {
			in.t.Errorf("waited for %s to be no more %s: %+v, %v", id, while, o, err)
		}
		changed <- time.Now()
	}()
	return changed
}

func TestAChangeIsSeenAtOnceInAnotherProcess(t *testing.T) {
	t.Parallel()
	in := install(t)
	api, other, worker := in.start(), in.start(), in.start()
	in.work(worker)
	sale := in.sale(api, func(s *orders.Sale) { s.Items[0].QuotaPerBuyer = 10 })
	took := map[string][]time.Duration{}
	for i := range 10 {
		id := in.order(api, sale.ID, "ada", string(rune('a'+i)), 1).Order.ID
		<-in.waiting(other, id, orders.StatusAccepted)
		confirmed := in.waiting(other, id, orders.StatusConfirmed)
		began := time.Now()
		if i%2 == 0 {
			in.answered("the order is cancelled", func() error {
				_, err := api.Cancel(t.Context(), id, orders.Viewer{User: "ada"})
				return err
			})
			took["cancelled"] = append(took["cancelled"], (<-confirmed).Sub(began))
		} else {
			in.answered("the order is paid", func() error {
				_, err := api.Pay(t.Context(), id, id.String())
				return err
			})
			took["paid"] = append(took["paid"], (<-confirmed).Sub(began))
		}
	}
	for what, list := range took {
		slices.Sort(list)
		t.Logf("from the call to the answer in another process, %s: median %v, longest %v", what, list[len(list)/2], list[len(list)-1])
		if longest := list[len(list)-1]; longest > untold {
			t.Errorf("%s was found out by asking, after %v", what, longest)
		}
	}
}

// TestAChangeIsSeenWithoutBulletins forbids all processes to publish and to subscribe.
func TestAChangeIsSeenWithoutBulletins(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	in := installOn(t, redis.URL())
	api, other := in.start(), in.start()
	stop := in.work(other)
	sale := in.sale(api)
	id := in.order(api, sale.ID, "ada", "", 1).Order.ID
	in.settled(api, id)
	stop()
	must(t, in.rdb.Do(t.Context(), "ACL", "SETUSER", "default", "resetchannels").Err())
	must(t, in.rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	if err := in.rdb.Publish(t.Context(), "x", "y").Err(); err == nil {
		t.Fatal("notifications are possible")
	}

	after, err := api.Events(t.Context(), 0, 100, 20*time.Second)
	must(t, err)
	if len(after) != 1 {
		t.Fatalf("%+v", after)
	}
	told := make(chan []orders.Event, 1)
	go func() {
		more, err := other.Events(t.Context(), after[0].Seq, 100, 20*time.Second)
		if err != nil {
			t.Error(err)
		}
		told <- more
	}()
	confirmed := in.waiting(other, id, orders.StatusConfirmed)
	_, err = api.Cancel(t.Context(), id, orders.Viewer{User: "ada"})
	must(t, err)
	began := time.Now()
	if events := <-told; len(events) != 1 || events[0].Status != orders.StatusCancelled {
		t.Errorf("%+v", events)
	}
	t.Logf("the feed asked and found it after %v", time.Since(began))
	t.Logf("who waits for the order, after %v", (<-confirmed).Sub(began))
}

// Processes that only commit receive what operators change, and no notifications of orders. The others receive both.
func TestProcessesThatOnlyCommitAreNotNotifiedOfOrders(t *testing.T) {
	t.Parallel()
	in := install(t)
	sub := in.rdb.Subscribe(t.Context(), in.namespace+":notify-committers")
	t.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(t.Context())
	must(t, err)
	p := in.start()
	in.start(func(o *shop.Options) { o.AcceptOnly, o.CommitOnly = false, true })
	eventually(t, "both are subscribed", func() bool {
		n, err := in.rdb.PubSubNumSub(t.Context(), in.namespace+":notify", in.namespace+":notify-committers").Result()
		must(t, err)
		return n[in.namespace+":notify"] == 1 && n[in.namespace+":notify-committers"] == 2
	})
	received := func() (all string) {
		must(t, in.rdb.Publish(t.Context(), in.namespace+":notify-committers", "{}").Err())
		for {
			m, err := sub.ReceiveMessage(t.Context())
			must(t, err)
			if m.Payload == "{}" {
				return all
			}
			all += m.Payload
		}
	}
	sale := in.sale(p)
	if all := received(); !strings.Contains(all, `"sales":true`) {
		t.Errorf("received %q after the sale was published", all)
	}
	out := in.order(p, sale.ID, "ann", "", 1)
	if o := in.settled(p, out.Order.ID); o.Status != orders.StatusConfirmed {
		t.Errorf("%+v", o)
	}
	eventually(t, "the commit was reported", func() bool { return p.Committed() == 1 })
	if all := received(); strings.Contains(all, `"orders"`) {
		t.Errorf("received %q after an order", all)
	}
}

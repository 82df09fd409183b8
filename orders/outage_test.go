package orders_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// TestWhoHadNoTimeToBeHeardIsWaitedFor has a process silent for longer than
// anybody is waited for, and heard again only after a recovery began: so it
// looks when it was the database that was away.
func TestWhoHadNoTimeToBeHeardIsWaitedFor(t *testing.T) {
	in := installOn(t, testenv.StartRedis(t).URL())
	leader, silent := in.start(), in.start()
	silent.follows()
	sale := in.sale(leader, func(s *orders.Sale) { s.Items[0].Stock = 6 })
	placed := append(in.accept(leader, sale.ID, "early-0", 3), in.accept(silent, sale.ID, "early-1", 3)...)
	silent.store.fails("beat", "sales")
	leader.store.after.Store(new(hook(func(_ context.Context, call string) error {
		if call == "raise epoch" {
			time.AfterFunc(time.Second, silent.store.heals)
		}
		return nil
	})))
	_, err := in.pool.Exec(t.Context(), `UPDATE processes SET beats_at = now() - interval '10 seconds'`)
	must(t, err)
	must(t, in.rdb.FlushAll(t.Context()).Err())
	in.work(leader)
	placed = append(placed, in.sellOut(leader, sale.ID, "late")...)
	if confirmed, late := in.outcomes(leader, placed); confirmed != 6 || late != 0 {
		t.Errorf("%d confirmed and %d too late of 6 orders", confirmed, late)
	}
	in.balanced(leader, sale.ID)
}

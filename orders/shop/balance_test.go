package shop_test

import (
	"fmt"
	"strconv"

	"github.com/tidegate/tidegate/orders"
)

// confirmed places orders and waits until the database has them.
func (in *installation) confirmed(p *process, sale string, count int) (ids []orders.ID) {
	in.t.Helper()
	for i := range count {
		ids = append(ids, in.order(p, sale, fmt.Sprint("user-", i), "", 1).Order.ID)
	}
	for i, id := range ids {
		if o := in.settled(p, id); o.Status != orders.StatusConfirmed {
			in.t.Fatalf("order %d: %+v", i, o)
		}
	}
	return ids
}

// balanced waits until nothing is under way, and fails the test on any breach.
func (in *installation) balanced(p *process, sale string) {
	in.t.Helper()
	var (
		checks  []orders.Check
		returns int
		err     error
	)
	defer func() {
		if in.t.Failed() {
			in.t.Logf("at last: %+v, %d returns, %v", checks, returns, err)
		}
	}()
	eventually(in.t, "all is settled", func() bool {
		must(in.t, in.pool.QueryRow(in.t.Context(), `SELECT count(*) FROM order_returns`).Scan(&returns))
		checks, err = p.Verify(in.t.Context(), sale)
		waiting := returns
		for _, c := range checks {
			waiting += c.Waiting
		}
		return err == nil && waiting == 0
	})
	in.verified(p, sale)
}

// free returns how many units are on sale in Redis.
func (in *installation) free(p *process, sale string) int {
	in.t.Helper()
	free := -1
	eventually(in.t, "the sale can be read", func() bool {
		checks, err := p.Verify(in.t.Context(), sale)
		if err != nil || len(checks) == 0 {
			return false
		}
		key := in.namespace + ":{" + sale + ":shoe}:" + strconv.FormatInt(in.epoch(sale), 10) + ":"
		it, err := in.rdb.HMGet(in.t.Context(), key+"item", "stock", "next").Result()
		if err != nil || it[0] == nil {
			return false
		}
		stock, err := strconv.Atoi(it[0].(string))
		must(in.t, err)
		next, err := strconv.Atoi(it[1].(string))
		must(in.t, err)
		returned, err := in.rdb.SCard(in.t.Context(), key+"returned").Result()
		must(in.t, err)
		free = stock - next + int(returned) - 1 // the sentinel
		return true
	})
	return free
}

func (in *installation) epoch(sale string) (epoch int64) {
	in.t.Helper()
	must(in.t, in.pool.QueryRow(in.t.Context(), `SELECT epoch FROM sales WHERE sale = $1`, sale).Scan(&epoch))
	return epoch
}

func (in *installation) count(query string, args ...any) (n int) {
	in.t.Helper()
	must(in.t, in.pool.QueryRow(in.t.Context(), query, args...).Scan(&n))
	return n
}

var all = orders.Viewer{All: true}

// end cancels an order, or makes its time to pay end.
func (in *installation) end(p *process, id orders.ID, how orders.Status) {
	in.t.Helper()
	if how == orders.StatusCancelled {
		_, err := p.Cancel(in.t.Context(), id, all)
		must(in.t, err)
		return
	}
	_, err := in.pool.Exec(in.t.Context(), `UPDATE orders SET pay_before = now() WHERE order_id = $1`, id.String())
	must(in.t, err)
	eventually(in.t, "the order has expired", func() bool {
		o, err := p.Order(in.t.Context(), id, all)
		return err == nil && o.Status == how
	})
}

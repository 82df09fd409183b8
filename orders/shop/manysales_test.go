package shop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// A change of one of many sales makes every process read and compare that sale, and not the others.
func TestAChangeReadsOneSale(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	ps := []*process{in.start(), in.start()}
	const sales, changes = 30, 20
	var sale orders.Sale
	for n := range sales {
		sale = in.sale(ps[0], func(s *orders.Sale) { s.ID = fmt.Sprint("many-", n) })
	}
	stockIs := func(want int) {
		t.Helper()
		for i, p := range ps {
			eventually(t, fmt.Sprintf("process %d has stock %d", i, want), func() bool {
				s, err := p.Sale(t.Context(), sale.ID)
				return err == nil && s.Items[0].Stock == want
			})
		}
	}
	before := [2]int64{ps[0].store.asked.Load(), ps[1].store.asked.Load()}
	must(t, in.rdb.ConfigResetStat(t.Context()).Err())
	began := time.Now()
	for range changes {
		sale.Items[0].Stock++
		in.answered("the stock grows", func() error {
			_, _, err := ps[0].PutSale(t.Context(), sale.Definition())
			return err
		})
		stockIs(sale.Items[0].Stock)
	}
	scripts, took := in.scriptCalls(), time.Since(began)
	for i, p := range ps {
		if asked := p.store.asked.Load() - before[i]; asked > 10*changes {
			t.Errorf("process %d read %d sales for %d changes of one", i, asked, changes)
		}
	}
	// Besides, the processes and the sweeper look at all items once a second.
	if most := 20*changes + 4*sales*int(took/time.Second+1); scripts > most {
		t.Errorf("%d scripts for %d changes in %v, want at most %d", scripts, changes, took, most)
	}

	// No process is notified of a change by another program.
	sale.Items[0].Stock++
	_, _, _, err := ps[0].store.PutSale(t.Context(), sale)
	must(t, err)
	stockIs(sale.Items[0].Stock)

	// Another server may have other sales of the same versions.
	sale.Items[0].Stock++
	_, err = in.pool.Exec(t.Context(), `UPDATE items SET stock = $2 WHERE sale = $1`, sale.ID, sale.Items[0].Stock)
	must(t, err)
	for _, p := range ps {
		p.SuspectDatabase()
	}
	stockIs(sale.Items[0].Stock)
}

// scriptCalls returns how many scripts Redis has run since its statistics were reset.
func (in *installation) scriptCalls() (calls int) {
	in.t.Helper()
	text, err := in.rdb.Info(in.t.Context(), "commandstats").Result()
	must(in.t, err)
	for line := range strings.Lines(text) {
		if numbers, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			_, err := fmt.Sscanf(numbers, "%d,", &calls)
			must(in.t, err)
		}
	}
	return calls
}

// BenchmarkPutSale changes the stock of one of many sales, as an operator does while a second process runs.
func BenchmarkPutSale(b *testing.B) {
	for _, sales := range []int{20, 600, 2000} {
		b.Run(fmt.Sprint(sales, " sales"), func(b *testing.B) {
			in := installIn(b, testenv.StartRedis(b).URL(), testenv.StartPostgres(b).URL())
			in.timeout = redisTimeout
			p := in.start()
			in.work(in.start())
			def := orders.Definition{StartsAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour), Items: []orders.ItemDefinition{{ID: "shoe", Stock: 1}}}
			for n := range sales {
				def.ID = fmt.Sprint("many-", n)
				in.answered("a sale", func() error {
					_, _, err := p.PutSale(b.Context(), def)
					return err
				})
			}
			for b.Loop() {
				def.Items[0].Stock++
				in.answered("its stock", func() error {
					_, _, err := p.PutSale(b.Context(), def)
					return err
				})
			}
		})
	}
}

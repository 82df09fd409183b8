package serve

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestACrowdReadsALargeSale: however many callers read a sale of a thousand items, Redis is read for one of them, and orders of another sale
// are decided meanwhile.
func TestACrowdReadsALargeSale(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	env := environment(server.URL(), databases.Postgres(t))
	api := startAPI(t, env)
	items := make([]string, 1000)
	for i := range items {
		items[i] = fmt.Sprintf(`{"item":"item-%d","stock":5}`, i)
	}
	definition := servetest.Sale("ITEM", 5)
	large := definition[:strings.Index(definition, `"items":`)] + `"items":[` + strings.Join(items, ",") + `]}`
	servetest.OpenSale(t, api.URL("internal"), "large", large)
	servetest.OpenSale(t, api.URL("internal"), "other", servetest.Sale("shoe", 100_000))

	opts, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	commands := func() (n int64) {
		text, err := rdb.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if name, numbers, ok := strings.Cut(line, ":calls="); ok && name == "cmdstat_evalsha" {
				_, _ = fmt.Sscan(strings.SplitN(numbers, ",", 2)[0], &n)
			}
		}
		return n
	}
	const lasts = 3 * time.Second
	until := time.Now().Add(lasts)
	before := commands()
	var reads atomic.Int64
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	for range 32 {
		wg.Go(func() {
			for time.Now().Before(until) {
				resp, err := client.Get(api.URL("public") + "/v1/sales/large")
				if err != nil {
					t.Error(err)
					continue
				}
				if text, err := io.ReadAll(resp.Body); err != nil || len(text) < 10_000 || resp.StatusCode != http.StatusOK {
					t.Errorf("%d %.200s, %v", resp.StatusCode, text, err)
				}
				resp.Body.Close()
				reads.Add(1)
			}
		})
	}
	var slowest time.Duration
	var orders, refused int
	for n := 0; time.Now().Before(until); n++ {
		a := servetest.Once("POST", api.URL("public")+"/v1/sales/other/orders", `{"item":"shoe"}`, "X-User-ID", fmt.Sprint("user-", n))
		if a.Status != http.StatusAccepted {
			refused++
		}
		orders++
		slowest = max(slowest, a.Took)
	}
	wg.Wait()
	scripts := commands() - before - int64(orders)
	t.Logf("%d reads, %d scripts, %d orders, %d refused, slowest %v", reads.Load(), scripts, orders, refused, slowest)
	if most := int64(6 * len(items) * int(lasts/time.Second)); scripts > most || reads.Load() == 0 {
		t.Errorf("%d reads, %d scripts, want at most %d", reads.Load(), scripts, most)
	}
}

package embedded

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// One process exports the metrics of an API and a worker, including the queues in the Redis in memory.
func TestMetricsEmbedded(t *testing.T) {
	at := make(chan Place, 1)
	p := servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.API([]string{"-listen", "127.0.0.1:0", "-internal-listen", "127.0.0.1:0", "-tidegate-data", t.TempDir(), "-log-format", "json"},
			func(string) string { return "" }, stderr)
		if err != nil {
			return err
		}
		return Run(ctx, cfg, cfg.Logger(stderr), func(p Place) { at <- p })
	})
	place := <-at
	if a := servetest.Call("POST", place.Public+"/v1/sales/"+place.Sale+"/orders", `{"item":"`+sampleItem+`"}`, "X-User-ID", "ann"); a.Status != http.StatusAccepted {
		t.Fatal(a)
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		a := servetest.Call("GET", p.URL("internal")+"/metrics", "")
		for _, want := range []string{
			"\ntidegate_commit_orders_sum 1\n", "\ntidegate_confirmation_duration_seconds_count 1\n", "\ntidegate_outbox_orders 0\n", "\ntidegate_dead_letters 0\n",
			`tidegate_queue_tasks{queue="accepted-0",state="pending"} 0`, `tidegate_free_units{`, "\ntidegate_ban_script_breaker_open 0\n",
			"\ntidegate_memory_subjects{shard=\"0\"} ", "\ntidegate_memory_reclaimed_total{shard=\"0\"} ", "\ntidegate_memory_evicted_total{shard=\"0\"} ", "\ntidegate_memory_cleaned_seconds{shard=\"0\"} ",
			`tidegate_http_request_duration_seconds_count{code="202",listener="public",method="POST",route="/v1/sales/:sale/orders"} 1`,
		} {
			if !strings.Contains(string(a.Body), want) {
				a.Status = 0
			}
		}
		return a
	})
}

package serve

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// BenchmarkRedisDistance places orders for five seconds from one caller and from 64, with Redis at various distances, and logs rows of
// the table in docs/operations.md: go test ./internal/serve -run '^$' -bench RedisDistance -benchtime 1x.
func BenchmarkRedisDistance(b *testing.B) {
	for _, roundTrip := range []time.Duration{1, 10, 30, 50, 100, 150, 300} {
		for _, timeout := range []string{"100ms", "1s"} {
			roundTrip := roundTrip * time.Millisecond
			b.Run(fmt.Sprintf("%v of %s", roundTrip, timeout), func(b *testing.B) {
				for b.Loop() {
					row := measureDistance(b, roundTrip, timeout)
					b.Logf("| %v | %s | %s |", roundTrip, timeout, row)
				}
			})
		}
	}
}

func measureDistance(b *testing.B, roundTrip time.Duration, timeout string) string {
	_, env := away(b, roundTrip, timeout)
	api := startAPI(b, env)
	if err := api.Refused(); err != nil {
		return fmt.Sprintf("does not start: %v | | | |", err)
	}
	s := openShop(b, api, 1_000_000)
	startWorker(b, env)
	s.bought("first")
	var row []string
	for _, callers := range []int{1, 64} {
		var mu sync.Mutex
		var took []time.Duration
		errors := 0
		var load sync.WaitGroup
		const lasts = 5 * time.Second
		for i := range callers {
			load.Go(func() {
				for n, end := 0, time.Now().Add(lasts); time.Now().Before(end); n++ {
					began := time.Now()
					a := s.place(fmt.Sprintf("%d-%d-%d", callers, i, n))
					mu.Lock()
					if a.Status == http.StatusAccepted {
						took = append(took, time.Since(began))
					} else {
						errors++
					}
					mu.Unlock()
				}
			})
		}
		load.Wait()
		slices.Sort(took)
		at := func(share float64) time.Duration {
			if len(took) == 0 {
				return 0
			}
			return took[int(share*float64(len(took)-1))].Round(time.Millisecond)
		}
		row = append(row, fmt.Sprintf("%.0f/s, p50 %v, p99 %v, %.1f%% errors", float64(len(took))/lasts.Seconds(), at(0.5), at(0.99),
			100*float64(errors)/float64(len(took)+errors)))
	}
	if err := servetest.Once("GET", s.URL("internal")+"/readyz", ""); err.Status != http.StatusOK {
		row = append(row, "not ready")
	}
	return strings.Join(row, " | ")
}

package livepage_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// BenchmarkPages measures what fifty open pages cost an API, at rest and while it answers orders: more-cpu-% is what it uses of a core above
// what it uses without any. The API is a process of its own over Redis and Postgres, so that who reads and who orders is not counted.
// On two shared and busy cores it was 0.3 at rest (0.4 with pages, 0.1 without), and not to be told from nothing beside 17 % under load.
func BenchmarkPages(b *testing.B) {
	at := startProcess(b)
	for _, load := range []struct {
		name      string
		perSecond int
	}{{"rest", 0}, {"load", 500}} {
		b.Run(load.name, func(b *testing.B) {
			ctx, stop := context.WithCancel(b.Context())
			var ordering sync.WaitGroup
			ordering.Go(func() { at.orders(ctx, load.perSecond) })
			var without, with float64
			rounds := 0
			for b.Loop() {
				without += at.cpu(b, 5*time.Second)
				closePages := at.openPages(b, 50)
				with += at.cpu(b, 5*time.Second)
				closePages()
				rounds++
			}
			stop()
			ordering.Wait()
			b.ReportMetric(100*without/float64(rounds), "without-cpu-%")
			b.ReportMetric(100*with/float64(rounds), "with-cpu-%")
			b.ReportMetric(100*(with-without)/float64(rounds), "more-cpu-%")
		})
	}
}

func startProcess(b *testing.B) process {
	b.Helper()
	at := process{servetest.StartProcess(b)}
	for _, sale := range []string{"flash", "next"} {
		servetest.OpenSale(b, at.Internal, sale, servetest.Sale("shoe", 5000))
	}
	return at
}

// A process has a sale that sells.
type process struct{ *servetest.Process }

// orders orders so often a second until ctx ends.
func (at process) orders(ctx context.Context, perSecond int) {
	if perSecond == 0 {
		return
	}
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	var open sync.WaitGroup
	defer open.Wait()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		open.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "POST", at.Public+"/v1/sales/flash/orders", strings.NewReader(`{"item":"shoe"}`))
			if err != nil {
				return
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-User-ID", "user-"+strconv.Itoa(i))
			if resp, err := client.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
}

// openPages reads the stream as so many pages do, until it is told to stop.
func (at process) openPages(b *testing.B, n int) (closePages func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	transport := &http.Transport{}
	var reading sync.WaitGroup
	for range n {
		req, err := http.NewRequestWithContext(ctx, "GET", at.Internal+"/events", nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp, err)
		}
		reading.Go(func() {
			_, _ = io.Copy(io.Discard, resp.Body) // it ends with ctx
			_ = resp.Body.Close()
		})
	}
	return func() {
		cancel()
		reading.Wait()
		transport.CloseIdleConnections()
	}
}

// cpu is the share of a core that the process uses for a while.
func (at process) cpu(b *testing.B, during time.Duration) float64 {
	b.Helper()
	before, start := at.CPU(b), time.Now()
	time.Sleep(during)
	return (at.CPU(b) - before).Seconds() / time.Since(start).Seconds()
}

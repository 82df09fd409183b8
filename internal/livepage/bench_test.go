package livepage_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
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

// A process is an API that runs by itself, with a sale that sells.
type process struct {
	pid              int
	public, internal string
}

func startProcess(b *testing.B) *process {
	b.Helper()
	program := filepath.Join(b.TempDir(), "api")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "github.com/tidegate/tidegate/cmd/api").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	at := &process{public: testenv.FreeAddr(), internal: testenv.FreeAddr()}
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), program)
	cmd.Env = []string{
		"REDIS_URL=" + testenv.Redis(b), "DATABASE_URL=" + testenv.Postgres(b), "MIGRATE=true", "NAMESPACE=bench-" + strings.ToLower(rand.Text()[:10]),
		"IDENTITY=header", "SECRET=" + testenv.Secret, "LISTEN=" + at.public, "INTERNAL_LISTEN=" + at.internal,
	}
	if err := testenv.StartChild(cmd); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it has nothing to keep
		_ = cmd.Wait()
	})
	at.pid, at.public, at.internal = cmd.Process.Pid, "http://"+at.public, "http://"+at.internal
	servetest.Until(b, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", at.internal+"/readyz", "") })
	for _, sale := range []string{"flash", "next"} {
		servetest.OpenSale(b, at.internal, sale, servetest.Sale("shoe", 5000))
	}
	return at
}

// orders orders so often a second until ctx ends.
func (at *process) orders(ctx context.Context, perSecond int) {
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
			req, err := http.NewRequestWithContext(ctx, "POST", at.public+"/v1/sales/flash/orders", strings.NewReader(`{"item":"shoe"}`))
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
func (at *process) openPages(b *testing.B, n int) (closePages func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	transport := &http.Transport{}
	var reading sync.WaitGroup
	for range n {
		req, err := http.NewRequestWithContext(ctx, "GET", at.internal+"/events", nil)
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
func (at *process) cpu(b *testing.B, during time.Duration) float64 {
	b.Helper()
	used := func() float64 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", at.pid))
		if err != nil {
			b.Fatal(err)
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // the name before may hold anything
		ticks := 0
		for _, field := range fields[11:13] { // in user mode, and in the kernel
			n, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			ticks += n
		}
		return float64(ticks) / 100 // USER_HZ
	}
	before, start := used(), time.Now()
	time.Sleep(during)
	return (used() - before) / time.Since(start).Seconds()
}

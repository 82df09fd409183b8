package serve

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// order is sent as raw bytes: the client must cost as little as possible, since it shares the machine.
const order = "POST /v1/sales/concert/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
	"X-User-Id: ada\r\nX-Request-Id: 01HTJ4VZ8Q2YB6R4M0ZK3N7D5C\r\nContent-Length: 30\r\n\r\n" + `{"item":"ticket","quantity":1}`

// BenchmarkSoldOutLoopback compares the response that most of a crowd gets, from the whole API process, with the same bytes
// from a bare Echo handler, over keep-alive connections.
func BenchmarkSoldOutLoopback(b *testing.B) {
	api := startAPI(b, environment(testenv.Redis(b), databases.Postgres(b)))
	openShop(b, api, 0)
	refusal, body := fromMemory(b, api)

	bare := echo.New()
	bare.POST("/v1/sales/:sale/orders", func(c echo.Context) error {
		_, _ = io.Copy(io.Discard, c.Request().Body)
		for name, values := range refusal.Header {
			if name != "Date" && name != "Content-Length" { // the server's own
				c.Response().Header()[name] = values
			}
		}
		return c.Blob(http.StatusConflict, "application/problem+json", body)
	})
	server := httptest.NewUnstartedServer(nil)
	server.Config = httpapi.Server(bare, 0)
	server.Start()
	defer server.Close()

	for _, s := range []struct{ name, addr string }{{"bare", server.Listener.Addr().String()}, {"tidegate", api.Addr("public")}} {
		b.Run(s.name, func(b *testing.B) {
			fromMemory(b, api) // its glance at an unused sale soon expires
			if resp, got := exchange(b, s.addr); resp.StatusCode != http.StatusConflict || !bytes.Equal(got, body) {
				b.Fatalf("%s answers %d %s", s.name, resp.StatusCode, got)
			}
			b.SetParallelism(16)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				request := []byte(order)
				if err := send(s.addr, pb.Next, func() []byte { return request }, "409"); err != nil {
					b.Error(err)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
		})
	}
}

// fromMemory orders until the refusal comes from the API's memory: it is not charged, so it has no header fields of the rules.
func fromMemory(b *testing.B, api *servetest.Program) (refusal *http.Response, body []byte) {
	b.Helper()
	servetest.Until(b, http.StatusConflict, func() servetest.Answer {
		if refusal, body = exchange(b, api.Addr("public")); refusal.Header.Get("RateLimit") != "" {
			return servetest.Answer{}
		}
		return servetest.Answer{Status: refusal.StatusCode}
	})
	return refusal, body
}

// exchange sends one order.
func exchange(b *testing.B, addr string) (*http.Response, []byte) {
	b.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, order); err != nil {
		b.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	return resp, body
}

// send sends orders over one connection, one after the other, while more returns true. Each must be answered with status.
func send(addr string, more func() bool, request func() []byte, status string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	buffer := make([]byte, 4096)
	for more() {
		if _, err := conn.Write(request()); err != nil {
			return err
		}
		n := 0
		for !bytes.HasSuffix(bytes.TrimSuffix(buffer[:n], []byte("\n")), []byte("}")) { // the end of the JSON, not of a header field
			m, err := conn.Read(buffer[n:])
			if err != nil {
				return err
			}
			n += m
		}
		if string(buffer[len("HTTP/1.1 "):][:len(status)]) != status {
			return fmt.Errorf("answered with %s", buffer[:n])
		}
	}
	return nil
}

// mostAllocations is how many allocations of an API an accepted order may have, with its shares of tasks and notifications, and with what the
// process does besides.
const mostAllocations = 115

// BenchmarkAcceptedLoopback measures new orders of new buyers over keep-alive connections, up to their 202, and what the whole API process
// allocates for one, while a worker, another process, commits them. It fails if that is more than mostAllocations.
func BenchmarkAcceptedLoopback(b *testing.B) {
	env := environment(testenv.Redis(b), databases.Postgres(b))
	api := startAPI(b, env)
	var vars []string
	for _, name := range []string{"REDIS_URL", "DATABASE_URL", "NAMESPACE", "SECRET", "WORKER_LISTEN"} {
		vars = append(vars, name+"="+env(name))
	}
	servetest.Exec(b, filepath.Join(testenv.Programs(b), "worker"), vars...)
	openShop(b, api, 10_000_000)
	var buyer atomic.Uint64
	b.ReportAllocs()
	b.SetParallelism(16)
	b.ResetTimer()
	before := allocations()
	b.RunParallel(func(pb *testing.PB) {
		request := []byte(strings.Replace(order, "ada", "0000000000000000", 1))
		user := request[bytes.Index(request, []byte("0000000000000000")):][:16]
		if err := send(api.Addr("public"), pb.Next, func() []byte {
			var id [8]byte
			binary.BigEndian.PutUint64(id[:], buyer.Add(1))
			hex.Encode(user, id[:])
			return request
		}, "202"); err != nil {
			b.Error(err)
		}
	})
	if each := float64(allocations()-before) / float64(b.N); b.N > 1000 && each > mostAllocations {
		b.Errorf("%.1f allocations an order, want %d at most", each, mostAllocations)
	}
}

// allocations returns how often this process has allocated memory.
func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

package serve

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
				if err := refused(s.addr, pb.Next); err != nil {
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

// refused sends orders over one connection, one after the other, while more returns true. Each must be answered with 409.
func refused(addr string, more func() bool) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	request, buffer := []byte(order), make([]byte, 4096)
	for more() {
		if _, err := conn.Write(request); err != nil {
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
		if !bytes.HasPrefix(buffer[:n], []byte("HTTP/1.1 409 ")) {
			return fmt.Errorf("refused with %s", buffer[:n])
		}
	}
	return nil
}

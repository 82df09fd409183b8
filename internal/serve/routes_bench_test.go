package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// mostTimes is how much more CPU than a GET of /livez a request may cost.
const mostTimes = 30

// BenchmarkPublicRoutes measures what a caller without an identity costs an API by each operation of the public listener, each request from
// another address, so that no rule refuses it: CPU of the process, which is one of its own over Redis and Postgres, and bytes in and out. It fails if
// a route costs more than 30 times as much as GET /livez, or if a Range makes an answer larger. docs/security.md has a table.
func BenchmarkPublicRoutes(b *testing.B) {
	p := servetest.StartProcess(b, "TRUSTED_PROXIES=127.0.0.1", "CORS_ORIGINS=https://shop.example")
	servetest.OpenSale(b, p.Internal, "flash", strings.Replace(servetest.Sale("shoe", 5000), "{", `{"requires_user":false,`, 1))
	room := `{"mode":"draw","requires_user":false,"gather_at":"2026-01-01T00:00:00Z","starts_at":"2035-01-01T00:00:00Z","rate_per_min":1}`
	if a := servetest.Call("PUT", p.Internal+"/v1/rooms/door", room); a.Status != http.StatusCreated {
		b.Fatal(a)
	}
	var described struct {
		Paths map[string]map[string]any
	}
	servetest.Call("GET", p.Public+"/openapi.json", "").Into(b, &described)
	ranges := "Range: bytes=0-0" + strings.Repeat(",0-0", 2700) + "\r\n"
	names := strings.NewReplacer("{sale}", "flash", "{room}", "door", "{id}", "0193509c-2c00-8001-8000-1234567890ab", "{path}", "room.js", "{name}", "unavailable")

	livez := costs{}
	run := func(method, path, fields string) {
		b.Run(strings.TrimSpace(method+" "+path+" "+strings.SplitN(fields, ":", 2)[0]), func(b *testing.B) {
			c := ask(b, p, method, names.Replace(path), fields)
			if path == "/livez" && fields == "" {
				livez = c
			}
			times := float64(c.cpu) / float64(livez.cpu)
			b.ReportMetric(float64(c.cpu.Microseconds()), "cpu-µs/op")
			b.ReportMetric(times, "times-livez")
			b.ReportMetric(c.in, "B-in/op")
			b.ReportMetric(c.out, "B-out/op")
			if b.N > 1000 && times > mostTimes {
				b.Errorf("costs %.0f times as much as GET /livez, and may cost %d times as much", times, mostTimes)
			}
		})
	}
	run(http.MethodGet, "/livez", "") // the measure of the others
	delete(described.Paths, "/livez")
	for _, path := range slices.Sorted(maps.Keys(described.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(described.Paths[path])) {
			method = strings.ToUpper(method)
			if strings.HasSuffix(path, "/events") { // a stream, which is bounded by its number
				continue
			}
			run(method, path, "")
			if method == http.MethodGet {
				run(method, path, "Accept-Encoding: gzip\r\n")
				run(method, path, ranges)
			}
		}
	}
}

type costs struct {
	cpu     time.Duration // of the process, per request
	in, out float64       // bytes per request
}

// ask sends a request b.N times over one connection, as small as it can be.
func ask(b *testing.B, p *servetest.Process, method, path, fields string) costs {
	b.Helper()
	at, err := url.Parse(p.Public)
	if err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { conn.Close() }()
	body := ""
	if method != http.MethodGet && method != http.MethodDelete {
		body = `{}`
		if strings.HasSuffix(path, "/orders") {
			body = `{"item":"shoe"}`
		}
		fields += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	count := &counter{Reader: conn}
	reader, n, sent := bufio.NewReader(count), 0, 0
	before := p.CPU(b)
	for b.Loop() {
		n++
		request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.%d.%d.%d\r\nIdempotency-Key: a-key-of-23-letters-%d\r\n%s\r\n%s",
			method, path, n>>16&255, n>>8&255, n&255, n, fields, body)
		sent += len(request)
		if _, err := io.WriteString(conn, request); err != nil {
			b.Fatal(err)
		}
		resp, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		if resp.Close {
			if conn, err = net.Dial("tcp", at.Host); err != nil {
				b.Fatal(err)
			}
			count.Reader = conn
			reader.Reset(count)
		}
	}
	return costs{(p.CPU(b) - before) / time.Duration(n), float64(sent) / float64(n), float64(count.n) / float64(n)}
}

type counter struct {
	io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

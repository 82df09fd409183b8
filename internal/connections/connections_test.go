package connections

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"

// from is a connection from an address.
type from struct {
	net.Conn

	addr netip.AddrPort
}

func (c from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.addr) }

// A scripted listener returns what is sent to it.
type scripted chan any

func (l scripted) Accept() (net.Conn, error) {
	switch next := (<-l).(type) {
	case net.Conn:
		return next, nil
	case error:
		return nil, next
	}
	return nil, net.ErrClosed
}
func (l scripted) Close() error   { return nil }
func (l scripted) Addr() net.Addr { return &net.TCPAddr{} }

// clients connect to a server with a bound.
type clients struct {
	t *testing.T
	l scripted
	b *Bound
}

func serve(t *testing.T, opts Options) clients {
	t.Helper()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	opts.Refusal = []byte(refusal)
	c := clients{t, make(scripted), New(opts)}
	server := &http.Server{ConnState: c.b.State, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			<-r.Context().Done()
		case "/pause":
			time.Sleep(3 * time.Second)
		}
	})}
	go func() { _ = server.Serve(c.b.Listener(c.l)) }()
	t.Cleanup(func() {
		close(c.l)
		_ = server.Close()
	})
	return c
}

// connect connects from an address.
func (c clients) connect(addr string) net.Conn {
	client, server := net.Pipe()
	c.l <- from{server, netip.AddrPortFrom(netip.MustParseAddr(addr), 1)}
	synctest.Wait()
	return client
}

// ask sends a request and returns the status line, or "" if the connection is closed.
func ask(c net.Conn, path string) string {
	send(c, path)
	return answer(c)
}

// send sends a request.
func send(c net.Conn, path string) {
	go func() { _, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n") }()
	synctest.Wait()
}

// answer returns the status line of an answer, or "" if the connection is closed.
func answer(c net.Conn) string {
	text := make([]byte, 4096)
	n, _ := c.Read(text)
	line, _, _ := strings.Cut(string(text[:n]), "\r\n")
	return line
}

// wantClosed requires that the server has closed a connection.
func wantClosed(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection that was idle for longest: %v, want it closed", err)
	}
}

const (
	ok      = "HTTP/1.1 200 OK"
	refused = "HTTP/1.1 503 Service Unavailable"
)

// TestTheLongestIdleMakesRoom, and nothing is closed that is in use.
func TestTheLongestIdleMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, Options{Most: 3})
		working := c.connect("192.0.2.1")
		send(working, "/long")
		first, silent := c.connect("192.0.2.2"), c.connect("192.0.2.3")
		if got := ask(first, "/"); got != ok {
			t.Fatal(got)
		}
		time.Sleep(2 * time.Second)
		if got := ask(first, "/"); got != ok { // so the silent one is idle for longest
			t.Fatal(got)
		}
		next := c.connect("192.0.2.4")
		if got := ask(next, "/"); got != ok {
			t.Errorf("a new connection while one is idle: %q", got)
		}
		wantClosed(t, silent)
		if got := ask(first, "/"); got != ok {
			t.Errorf("another idle connection: %q", got)
		}
		if got := ask(c.connect("192.0.2.5"), "/"); got != refused {
			t.Errorf("a new connection while none has been idle for a second: %q", got)
		}
		if got, want := c.b.Stats(), (Stats{Open: 3, Most: 3, RefusedFull: 1, Reclaimed: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		_ = next.Close()
		synctest.Wait()
		if got := ask(c.connect("192.0.2.5"), "/"); got != ok {
			t.Errorf("after one has ended: %q", got)
		}
		_ = working.Close()
	})
}

// TestIdleAgain: a connection that was in use when another made room makes room later, when it has been idle for longest.
func TestIdleAgain(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{"all": {Most: 2}, "of an address": {Most: 9, PerAddress: 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, opts)
				working, silent := c.connect("192.0.2.1"), c.connect("192.0.2.1")
				send(working, "/pause")
				time.Sleep(2 * time.Second)
				next := c.connect("192.0.2.1")
				wantClosed(t, silent)
				if got := answer(working); got != ok { // at 3 s
					t.Errorf("a connection in use while another made room: %q", got)
				}
				time.Sleep(time.Second)
				if got := ask(next, "/"); got != ok {
					t.Errorf("the connection that got the room: %q", got)
				}
				time.Sleep(2 * time.Second)
				if got := ask(c.connect("192.0.2.1"), "/"); got != ok {
					t.Errorf("a new connection: %q", got)
				}
				wantClosed(t, working)
			})
		})
	}
}

// TestOneAddressHoldsItsShare: it takes no room from others, unless it is exempt.
func TestOneAddressHoldsItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proxy := netip.MustParseAddr("192.0.2.9")
		c := serve(t, Options{Most: 6, PerAddress: 2, Exempt: func(a netip.Addr) bool { return a == proxy }})
		var held []net.Conn
		for _, addr := range []string{"2001:db8::1", "2001:db8::2"} { // one /64
			conn := c.connect(addr)
			send(conn, "/long")
			held = append(held, conn)
		}
		if got := ask(c.connect("2001:db8::3"), "/"); got != refused {
			t.Errorf("a third connection of an address: %q", got)
		}
		for range 4 {
			held = append(held, c.connect("192.0.2.9"))
			if got := ask(held[len(held)-1], "/"); got != ok {
				t.Errorf("a connection of a proxy: %q", got)
			}
		}
		if got, want := c.b.Stats(), (Stats{Open: 6, Most: 6, RefusedAddress: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		for _, conn := range held {
			_ = conn.Close()
		}
		synctest.Wait()
		if len(c.b.addresses) > 0 || c.b.idle.Len() > 0 || c.b.Stats().Open > 0 {
			t.Errorf("closed connections are remembered: %v", c.b.addresses)
		}
	})
}

// TestFailedAcceptsAreLogged once a second, with their number.
func TestFailedAcceptsAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := serve(t, Options{Name: "public", Most: 3, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 20 {
			c.l <- &net.OpError{Op: "accept", Err: syscall.EMFILE}
		}
		time.Sleep(5 * time.Second)
		if got := c.b.Stats().AcceptErrors; got != 20 {
			t.Errorf("%d errors are counted", got)
		}
		if n := strings.Count(log.String(), `level=ERROR msg="connections cannot be accepted" listener=public error="accept: too many open files"`); n < 2 || n > 15 {
			t.Errorf("%d records:\n%s", n, &log)
		}
		if got := ask(c.connect("192.0.2.1"), "/"); got != ok {
			t.Errorf("afterwards: %q", got)
		}
	})
}

func TestDivide(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		descriptors, servers int
		memory               int64
		want                 Shares
	}{
		{1 << 20, 209, math.MaxInt64, Shares{917266, 131037}},
		{math.MaxInt32, 209, math.MaxInt64, Shares{917504, 131072}},
		{4096, 209, math.MaxInt64, Shares{3346, 477}},
		{1024, 209, math.MaxInt64, Shares{658, 93}},
		{256, 209, math.MaxInt64, Shares{56, 8}},
		{4, 209, math.MaxInt64, Shares{1, 1}},
		{65536, 209, 9 * 1 << 30 / 10, Shares{5734, 819}}, // a container of 1 GiB
		{65536, 209, 64 << 20, Shares{399, 56}},
		{1024, 209, 9 * 1 << 30 / 10, Shares{658, 93}},
		{1024, 209, 1, Shares{1, 1}},
	} {
		if got := divide(tt.descriptors, tt.servers, tt.memory); got != tt.want {
			t.Errorf("%d descriptors, %d bytes: %+v, want %+v", tt.descriptors, tt.memory, got, tt.want)
		}
	}
}

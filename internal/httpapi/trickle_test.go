package httpapi

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
)

// TestABodyThatTrickles: whatever a request asks for, its connection ends if its body has not arrived in time.
func TestABodyThatTrickles(t *testing.T) {
	t.Parallel()
	b := setup(t, withSemaphores(t), withRooms(t), withPage)
	for name, routes := range map[string]*echo.Echo{"public": b.public, "internal": b.internal} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := Server(routes, 0)
			go func() { _ = server.Serve(Listener(l)) }()
			defer server.Close()
			var wg sync.WaitGroup
			for _, r := range routes.Routes() {
				operation := r.Method + " " + regexp.MustCompile(`:\w+|\*`).ReplaceAllString(r.Path, "a")
				for _, framing := range []string{"Content-Length: 1000000", "Content-Length: 1000", "Transfer-Encoding: chunked"} {
					wg.Go(func() {
						took, err := trickle(l.Addr().String(), operation, framing)
						if most := bodyWithin + 3*time.Second; err != nil || took > most { // on a busy machine
							t.Errorf("%s with %s: %v %v, want at most %v", operation, framing, took, err, most)
						}
					})
				}
			}
			wg.Wait()
		})
	}
}

// trickle sends a body, a byte at a time, until the server closes the connection, and returns how long that took.
func trickle(addr, operation, framing string) (time.Duration, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	began := time.Now()
	_ = conn.SetDeadline(began.Add(time.Minute))
	if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-User-ID: ann\r\n%s\r\n\r\n", operation, framing); err != nil {
		return 0, err
	}
	piece := " "
	if strings.HasPrefix(framing, "Transfer") {
		piece = "1\r\n \r\n"
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, conn)
	}()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-ended:
			return time.Since(began), nil
		case <-again.C:
			_, _ = io.WriteString(conn, piece) // fails when the server has closed it
		}
	}
}

// TestAHeaderThatIsLate: a request of which only a part has arrived in time gets no response, as it is unknown whether it is one.
func TestAHeaderThatIsLate(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := Server(setup(t).public, 0)
	server.ReadHeaderTimeout = 200 * time.Millisecond
	go func() { _ = server.Serve(Listener(l)) }()
	defer server.Close()
	for _, part := range []string{"", "GET", "GET /v1/rooms/", "GET /livez HTTP/1.1\r\n", "GET /livez HTTP/1.1\r\nHost: x\r\n"} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); len(answer) > 0 || err != nil {
			t.Errorf("%q: %q, %v", part, answer, err)
		}
		_ = conn.Close()
	}
}

package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/loadshed"
	"github.com/tidegate/tidegate/orders"
)

// A pipeListener accepts connections of this process. They have no buffers: a write waits until the other end reads.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial connects, and sends a text as long as the server reads.
func (l *pipeListener) dial(text string) net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	go func() { _, _ = io.WriteString(client, text) }()
	return client
}

// orderOnWire returns an order as sent on the wire, with a header field and the text after the header.
func orderOnWire(field, rest string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", placePath, field, rest)
}

// TestSlowClientsHoldNoSlot: a client that does not send or does not read holds no slot, however long that takes.
func TestSlowClientsHoldNoSlot(t *testing.T) {
	var unknown []string // properties whose names a response repeats, escaped
	for i := range 16 {
		unknown = append(unknown, fmt.Sprintf(`"%c%s":1`, 'a'+i, strings.Repeat("<", 200)))
	}
	wrong := "{" + strings.Join(unknown, ",") + "}"
	for name, sent := range map[string]string{
		"half a body":                orderOnWire("Content-Length: 40", `{"item"`),
		"half a chunk":               orderOnWire("Transfer-Encoding: chunked", "28\r\n{"),
		"as much as an order may":    orderOnWire("Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", sales.MaxOrder, strings.Repeat(" ", sales.MaxOrder))),
		"more than an order may":     orderOnWire("Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", 2*sales.MaxOrder, strings.Repeat(" ", 2*sales.MaxOrder))),
		"an answer that is not read": orderOnWire(fmt.Sprintf("Content-Length: %d", len(wrong)), wrong),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t)
				l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
				server := Server(b.Public(), 0)
				go func() { _ = server.Serve(l) }()
				defer server.Close()
				for range 2 * runtime.GOMAXPROCS(0) {
					defer l.dial(sent).Close()
				}
				for range 30 {
					synctest.Wait()
					before := time.Now()
					conn := l.dial(orderOnWire(fmt.Sprintf("Content-Length: %d", len(orderBody)), orderBody))
					resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil || resp.StatusCode != http.StatusAccepted || time.Since(before) > 0 {
						t.Fatalf("%v %v after %v", resp, err, time.Since(before))
					}
					conn.Close()
					time.Sleep(500 * time.Millisecond)
				}
			})
		})
	}
}

// waitingOrders delays all responses.
type waitingOrders struct{ *fakeOrders }

func (w waitingOrders) Wait(_ context.Context, _ orders.ID, _ orders.Viewer, _ orders.Status, wait time.Duration) (orders.Order, error) {
	time.Sleep(wait)
	return confirmed, nil
}

func (w waitingOrders) Order(context.Context, orders.ID, orders.Viewer) (orders.Order, error) {
	time.Sleep(decideTime)
	return confirmed, nil
}

func (w waitingOrders) Sale(context.Context, string) (orders.SaleStatus, error) {
	time.Sleep(decideTime)
	return flash, nil
}

// slowSessions answers Ended late.
type slowSessions struct{ memorySessions }

func (*slowSessions) Ended(context.Context, string) (bool, error) {
	time.Sleep(decideTime)
	return false, nil
}

// TestInternalReadsWaitWithoutASlot: a read on the internal listener, which asks no rules, also holds no slot while it waits.
func TestInternalReadsWaitWithoutASlot(t *testing.T) {
	for _, path := range []string{"/v1/orders/" + orderID.String() + "?wait_ms=30000", "/v1/orders/" + orderID.String(), "/v1/sales/flash"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, withPage, withTokens(t), func(c *Config) { c.Orders, c.Sessions = waitingOrders{c.Orders.(*fakeOrders)}, &slowSessions{} })
				internal := b.Internal()
				cookie := signIn(t, internal, "operator-token-of-tests")
				for _, fields := range [][]string{by(cookie), {"X-Tidegate-Token", "operator-token-of-tests"}} {
					var wg sync.WaitGroup
					for range 2 * runtime.GOMAXPROCS(0) {
						wg.Go(func() {
							if w := call(internal, "GET", path, "", fields...); w.Code != http.StatusOK {
								t.Errorf("%d %s", w.Code, w.Body)
							}
						})
					}
					for range 2 { // the session is checked first
						synctest.Wait()
						before := time.Now()
						slots := make([]loadshed.Slot, runtime.GOMAXPROCS(0))
						for i := range slots {
							slots[i], _ = b.reads.Enter()
						}
						if time.Since(before) > 0 {
							t.Errorf("a request with %q holds a slot while it waits", fields)
						}
						for i := range slots {
							slots[i].Leave()
						}
						time.Sleep(decideTime + time.Millisecond)
					}
					wg.Wait()
				}
			})
		})
	}
}

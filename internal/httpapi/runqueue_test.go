package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/internal/loadshed"
	"github.com/tidegate/tidegate/orders"
)

// TestQueuedForTooLong: a request that was queued for too long is refused with a Retry-After, before any query or charge.
func TestQueuedForTooLong(t *testing.T) {
	for _, request := range [][3]string{{"POST", placePath, orderBody}, {"GET", "/v1/sales/spring", ""}, {"GET", "/v1/orders/" + orders.ID{}.String(), ""}} {
		t.Run(request[0]+" "+request[1], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t)
				var held []loadshed.Slot
				for _, q := range []*loadshed.RunQueue{b.newOrders, b.reads} {
					for range runtime.GOMAXPROCS(0) {
						slot, _ := q.Enter()
						held = append(held, slot)
					}
				}
				answer := make(chan *httptest.ResponseRecorder, 1)
				go func() { answer <- call(b.Public(), request[0], request[1], request[2]) }()
				time.Sleep(loadshed.QueueTimeout + time.Millisecond)
				for i := range held {
					held[i].Leave()
				}
				w := <-answer
				if p := problemIn(t, w); p.Reason != string(orders.ReasonAtCapacity) || w.Header().Get("Retry-After") != "1" || w.Header().Get("X-Request-Id") == "" {
					t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
				}
				if len(b.gate.asked) != 0 || len(b.orders.calls) != 0 {
					t.Errorf("charged %v, asked %v", b.gate.asked, b.orders.calls)
				}
			})
		})
	}
}

// TestWhoWaitsHoldsNoSlot: requests that are sent slowly, or wait for Redis, block no others.
func TestWhoWaitsHoldsNoSlot(t *testing.T) {
	b := setup(t)
	server := httptest.NewServer(b.Public())
	defer server.Close()
	for range 2 * runtime.GOMAXPROCS(0) {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nX-User-ID: ann\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", placePath, len(orderBody))
	}
	client := &http.Client{Timeout: loadshed.QueueTimeout / 2}
	for range 20 {
		resp, err := client.Get(server.URL + "/v1/sales/spring")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(loadshed.QueueTimeout / 2))
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nX-User-ID: ann\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", placePath, len(orderBody), orderBody)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
}

package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// TestRunQueueIsFair: at most slots requests run at once, first come, first served.
func TestRunQueueIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newRunQueue()
		var mu sync.Mutex
		var order []int
		running, most := 0, 0
		for i := range 10 * q.slots {
			go func() {
				slot, ok := q.enter()
				if !ok {
					t.Error("refused")
				}
				mu.Lock()
				order = append(order, i/q.slots) // those that begin together run in any order
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				running--
				mu.Unlock()
				slot.leave()
				slot.leave() // changes nothing
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if most != q.slots || len(order) != 10*q.slots || !slices.IsSorted(order) {
			t.Errorf("%d at once, want %d; in the order %v", most, q.slots, order)
		}
	})
}

// TestRunQueueRefusesWhoWaitedTooLong: requests that waited too long are refused, one at a time, and block no others.
func TestRunQueueRefusesWhoWaitedTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newRunQueue()
		held := make([]runSlot, q.slots)
		for i := range held {
			held[i], _ = q.enter()
		}
		const late = 20 // and as many that are not late
		var mu sync.Mutex
		running, refusing, refused, ran := 0, 0, 0, 0
		wait := func() {
			slot, ok := q.enter()
			defer slot.leave()
			now, done, most, took := &refusing, &refused, 1, time.Millisecond
			if ok {
				now, done, most, took = &running, &ran, q.slots, 10*time.Millisecond
			}
			mu.Lock()
			if *now++; *now > most {
				t.Errorf("%d at once, want %d (run: %t)", *now, most, ok)
			}
			mu.Unlock()
			time.Sleep(took)
			mu.Lock()
			*now--
			*done++
			mu.Unlock()
		}
		for range late {
			go wait()
		}
		time.Sleep(queuePatience + time.Millisecond)
		for range late {
			go wait()
		}
		synctest.Wait()
		for i := range held {
			held[i].leave()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if ran != late || refused != late {
			t.Errorf("%d ran and %d were refused, want %d of each", ran, refused, late)
		}
		if q.running != 0 || q.refusing || q.waiting.Len()+q.late.Len() != 0 {
			t.Errorf("%d still run, %t, %d and %d wait", q.running, q.refusing, q.waiting.Len(), q.late.Len())
		}
	})
}

// TestQueuedForTooLong: a request that was queued for too long is refused with a Retry-After, before any query or charge.
func TestQueuedForTooLong(t *testing.T) {
	for _, request := range [][3]string{{"POST", placePath, orderBody}, {"GET", "/v1/sales/spring", ""}, {"GET", "/v1/orders/" + orders.ID{}.String(), ""}} {
		t.Run(request[0]+" "+request[1], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t)
				var held []runSlot
				for _, q := range []*runQueue{b.newOrders, b.reads} {
					for range q.slots {
						slot, _ := q.enter()
						held = append(held, slot)
					}
				}
				answer := make(chan *httptest.ResponseRecorder, 1)
				go func() { answer <- call(b.Public(), request[0], request[1], request[2]) }()
				time.Sleep(queuePatience + time.Millisecond)
				for i := range held {
					held[i].leave()
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
	for range 2 * b.newOrders.slots {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nX-User-ID: ann\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", placePath, len(orderBody))
	}
	client := &http.Client{Timeout: queuePatience / 2}
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
	_ = conn.SetDeadline(time.Now().Add(queuePatience / 2))
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nX-User-ID: ann\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", placePath, len(orderBody), orderBody)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
}

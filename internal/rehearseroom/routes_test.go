package rehearseroom_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// W24, P26: no spelling of the path, the method, the item or a header field orders without a turn, on either listener.
func TestNoWayAround(t *testing.T) {
	t.Parallel()
	h := install(t, 2)
	h.startWorker()
	h.sell(50, 1, 0)
	h.room(`"sale":"gala","item":"ticket","capacity":1`)
	h.join("ann", "waits")
	servetest.Until(t, http.StatusForbidden, func() servetest.Answer { return h.order("nobody") })
	items := []string{
		`"ticket"`, `"TICKET"`, `"Ticket"`, `" ticket"`, `"ticket "`, `"tic\u006bet"`, `"ticket\u0000"`, `"tickeţ"`, `"\uff54icket"`, `"ticket\u200b"`,
		`"ticket","item":"other"`, `"other","item":"ticket"`, `"ticket","Item":"other"`, `["ticket"]`, `null`, `"ticket","quantity":0`, `"ticket","quantity":-1`,
		`"ticket","quantity":1e0`, `"ticket","user":"ann"`, `"ticket","room":""`,
	}
	paths := []string{
		"/v1/sales/gala/orders", "/V1/sales/gala/orders", "/v1/Sales/gala/orders", "/v1/sales/GALA/orders", "/v1/sales/gala/Orders", "/v1/sales/gala/orders/",
		"//v1/sales/gala/orders", "/v1//sales/gala/orders", "/v1/sales/gala/./orders", "/v1/sales/other/../gala/orders", "/v1/sales/g%61la/orders",
		"/v1/sales/gala%2Forders", "/v1/sales/gala/%6frders", "/v1/sales/gala/orders%00", "/v1/sales/gala/orders;x=1", "/v1/sales/gala/orders?room=hall&turn=1",
		"/v1/sales/gala%20/orders", "/v1/sales/gala/orders%2F", "/rooms/../v1/sales/gala/orders", "http://shop/v1/sales/gala/orders",
	}
	methods := []string{"POST", "post", "Post", "PUT", "PATCH", "GET", "DELETE", "POST\t", "QUERY"}
	fields := []string{
		"", "X-HTTP-Method-Override: POST", "X-Original-URL: /v1/sales/gala/orders", "X-Place-Token: AAAA", "X-Waiting-Room-Pass: AAAA", "X-Forwarded-For: 127.0.0.1",
		"X-User-ID: ann", "Content-Type: application/json; charset=utf-16",
	}
	reached := 0
	try := func(i int, method, path, item, field string) {
		t.Helper()
		user := []string{"waits", fmt.Sprint("sniper-", i)}[min(i%50, 1)]
		listener := []string{"public", "internal"}[i%2]
		body := `{"item":` + item + `}`
		answer := h.raw(listener, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nX-User-ID: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
			method, path, user, len(body), strings.TrimPrefix(field+"\r\n", "\r\n"), body))
		if strings.Contains(answer, `"turn_required"`) {
			reached++
		}
		if strings.Contains(answer, " 202 ") || strings.Contains(answer, `"order_id"`) {
			t.Errorf("%s %s %s, %s, by %s at the %s listener: %s", method, path, body, field, user, listener, answer)
		}
	}
	n := 0
	for _, method := range methods {
		for _, path := range paths {
			try(n, method, path, items[0], "")
			n++
		}
	}
	for _, item := range items {
		for _, field := range fields {
			for range 2 {
				try(n, "POST", paths[0], item, field)
				n++
			}
		}
	}
	if reached < 10 {
		t.Errorf("only %d of %d requests came as far as the reservation", reached, n)
	}
	if a := h.operate(http.StatusOK, "GET", "/v1/sales/"+sale+"/orders", ""); !strings.Contains(string(a.Body), `"items":[]`) {
		t.Errorf("somebody has ordered: %v", a)
	}
	if a := h.operate(http.StatusOK, "GET", "/v1/sales/"+sale, ""); !strings.Contains(string(a.Body), `"free":50`) {
		t.Errorf("units are gone: %v", a)
	}
	// Who is admitted orders as ever.
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return h.as("ann", 0, "POST", place+"/claim", "") })
	if a := h.order("ann"); a.Status != http.StatusAccepted {
		t.Errorf("ann was admitted: %v", a)
	}
}

// raw sends a request as it is written, and returns the answer.
func (h *house) raw(listener, request string) string {
	h.Helper()
	conn, err := net.Dial("tcp", h.apis[0].Addr(listener))
	if err != nil {
		h.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(request)); err != nil {
		h.Fatal(err)
	}
	answer, _ := io.ReadAll(bufio.NewReader(conn)) // a server that closes early has said what it had to say
	return string(answer)
}

package httpapi

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/orders"
)

// manyOrders is fakeOrders with a list of any length, whose pages are released by the test.
type manyOrders struct {
	*fakeOrders
	pages chan bool // true: another page; false: the database is down
	asked atomic.Int32
}

func (f *manyOrders) Orders(ctx context.Context, q orders.Query) ([]orders.Order, error) {
	f.asked.Add(1)
	if q.Sale != "flash" {
		return nil, orders.ErrUnknownSale
	}
	select {
	case ok := <-f.pages:
		if !ok {
			return nil, orders.ErrUnavailable
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	page := make([]orders.Order, q.Limit)
	last := binary.BigEndian.Uint64(q.After[8:])
	for i := range page {
		page[i] = accepted
		binary.BigEndian.PutUint64(page[i].ID[8:], last+uint64(i)+1) //nolint:gosec // it is small
	}
	return page, nil
}

// officeOf serves an API with such orders.
func officeOf(t *testing.T) (at string, from *manyOrders, b *bed) {
	t.Helper()
	from = &manyOrders{pages: make(chan bool)}
	b = setup(t, withSemaphores(t), func(cfg *Config) {
		from.fakeOrders = cfg.Orders.(*fakeOrders)
		cfg.Orders = from
	})
	server := httptest.NewServer(b.Internal())
	t.Cleanup(server.Close)
	return server.URL, from, b
}

func (b *bed) inUse(t *testing.T) int {
	t.Helper()
	var s struct {
		InUse int `json:"in_use"`
	}
	if err := json.Unmarshal(call(b.Internal(), "GET", "/v1/semaphores/report", "").Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s.InUse
}

// free waits until no report is being written.
func (b *bed) free(t *testing.T) {
	t.Helper()
	for b.inUse(t) > 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("the permit was never given back")
		default:
		}
	}
}

func open(t *testing.T, ctx context.Context, at, sale string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", at+"/v1/sales/"+sale+"/orders.csv", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestReportEndsWithItsClient: a client that disconnects frees the permit, even while the database is being read.
func TestReportEndsWithItsClient(t *testing.T) {
	at, from, b := officeOf(t)
	ctx, hangUp := context.WithCancel(t.Context())
	go func() { from.pages <- true }()
	resp := open(t, ctx, at, "flash")
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/csv") ||
		resp.Header.Get("Content-Disposition") != `attachment; filename="orders-flash.csv"` || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", resp)
	}
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "order_id,") {
		t.Errorf("%q %v", line, err)
	}
	if n := b.inUse(t); n != 1 {
		t.Errorf("%d permits in use", n)
	}
	hangUp()
	b.free(t)
}

// TestReportIsCutOff: a partial report must not look complete: it is cut off whatever ends it.
func TestReportIsCutOff(t *testing.T) {
	for name, end := range map[string]func(*bed, *manyOrders){
		"the database": func(_ *bed, from *manyOrders) { from.pages <- false },
		"the permit": func(b *bed, _ *manyOrders) {
			var s struct {
				Holders []struct {
					ID string `json:"permit_id"`
				}
			}
			_ = json.Unmarshal(call(b.Internal(), "GET", "/v1/semaphores/report", "").Body.Bytes(), &s)
			call(b.Internal(), "DELETE", "/v1/semaphores/report/permits/"+s.Holders[0].ID, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			at, from, b := officeOf(t)
			go func() { from.pages <- true }()
			resp := open(t, t.Context(), at, "flash")
			end(b, from)
			if n, err := io.Copy(io.Discard, resp.Body); err == nil || n == 0 {
				t.Errorf("%d bytes look whole", n)
			}
			b.free(t)
		})
	}
}

// TestReportWithoutItsSemaphore: a route without its semaphore names the missing one in its response, and does not fill the
// log.
func TestReportWithoutItsSemaphore(t *testing.T) {
	_, from, b := officeOf(t)
	b.gate.rules = &rules.Set{}
	for range 3 {
		w := call(b.Internal(), "GET", "/v1/sales/flash/orders.csv", "")
		if p := problemIn(t, w); p.Status != 404 || p.Reason != "unknown_semaphore" || p.Detail != `it is called "report"` {
			t.Errorf("%+v", p)
		}
	}
	if from.asked.Load() != 0 {
		t.Error("a report was written without a permit")
	}
	if log := b.logged.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "semaphore=report") {
		t.Errorf("%s", log)
	}
}

// TestReportProblems: before the first row the response may be a problem.
func TestReportProblems(t *testing.T) {
	at, from, b := officeOf(t)
	for _, tt := range []struct {
		sale, reason string
		status       int
		before       func()
	}{
		{"none", "unknown_sale", 404, func() {}},
		{"flash", "store_unavailable", 503, func() { go func() { from.pages <- false }() }},
	} {
		tt.before()
		resp := open(t, t.Context(), at, tt.sale)
		var p problem.Problem
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || p.Reason != tt.reason || resp.StatusCode != tt.status ||
			resp.Header.Get("Content-Type") != "application/problem+json" || resp.Header.Get("Content-Disposition") != "" {
			t.Errorf("%s: %v %+v", tt.sale, resp, p)
		}
	}
	b.free(t)
}

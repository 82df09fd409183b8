package httpapi

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/orders"
)

// soldOut is a sale whose orders are all refused in process.
type soldOut struct{ fakeOrders }

func (*soldOut) Prepare(orders.Request) (sales.Attempt, error) { return soldOutAttempt{}, nil }

type soldOutAttempt struct{ sales.Attempt } // nothing else is reached

func (soldOutAttempt) Screen() (orders.Outcome, bool) {
	return orders.Outcome{Reason: orders.ReasonSoldOut}, true
}

func soldOutHandlers(b *testing.B) map[string]http.Handler {
	a, err := New(Config{
		Orders: &soldOut{}, Gate: &fakeGate{rules: rules.Default()}, Identity: auth.HeaderIdentity{},
		Logger: slog.New(slog.DiscardHandler), Version: "bench",
	})
	if err != nil {
		b.Fatal(err)
	}
	// The baseline is bare Echo with the same bytes, without any decision.
	w := call(a.Public(), "POST", "/v1/sales/flash/orders", orderBody)
	if w.Code != http.StatusConflict {
		b.Fatal(w.Body)
	}
	answer := w.Body.Bytes()
	bare := echo.New()
	bare.POST("/v1/sales/:sale/orders", func(c echo.Context) error {
		_, _ = io.Copy(io.Discard, c.Request().Body)
		c.Response().Header().Set("Cache-Control", "no-store")
		c.Response().Header().Set("X-Request-Id", "01HTJ4VZ8Q2YB6R4M0ZK3N7D5C")
		return c.Blob(http.StatusConflict, "application/problem+json", answer)
	})
	return map[string]http.Handler{"bare": bare, "tidegate": a.Public()}
}

const orderBody = `{"item":"shoe","quantity":1}`

// BenchmarkSoldOut compares the response that most of a crowd gets with the same bytes from a bare Echo handler, without a
// network.
func BenchmarkSoldOut(b *testing.B) {
	handlers := soldOutHandlers(b)
	for _, name := range []string{"bare", "tidegate"} {
		h := handlers[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				r := httptest.NewRequest("POST", "/v1/sales/flash/orders", nil)
				r.RemoteAddr = "127.0.0.1:40000"
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-User-ID", "ada")
				r.Header.Set("X-Request-Id", "01HTJ4VZ8Q2YB6R4M0ZK3N7D5C")
				body := strings.NewReader("")
				for pb.Next() {
					body.Reset(orderBody)
					r.Body, r.ContentLength = io.NopCloser(body), int64(len(orderBody))
					w := discard{header: http.Header{}}
					h.ServeHTTP(&w, r)
				}
			})
		})
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

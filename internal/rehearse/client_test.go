package rehearse

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

func TestClockSkewIsInEachCall(t *testing.T) {
	for _, skew := range []time.Duration{0, -time.Hour, time.Hour} {
		calls := 0
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			calls++
			at, err := http.ParseTime(r.Header.Get("Date"))
			if off := time.Until(at) - skew; skew == 0 && err == nil || skew != 0 && (err != nil || off.Abs() > time.Minute) {
				t.Errorf("skew %v, %s %s: Date %q", skew, r.Method, r.URL, r.Header.Get("Date"))
			}
		}))
		p := newPublic(s.URL, "demo", s.Client().Transport, time.Second, skew)
		_, first := p.order(t.Context(), "c-1", "k", "a", 1, -1)
		_, second := p.status(t.Context(), "c-1", "x", orders.StatusAccepted, 0)
		_, third := p.cancel(t.Context(), "c-1", "x")
		if first != nil || second != nil || third != nil || calls != 3 {
			t.Errorf("%v, %v, %v, %d calls", first, second, third, calls)
		}
		s.Close()
	}
}

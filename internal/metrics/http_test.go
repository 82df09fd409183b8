package metrics_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi"
	"github.com/tidegate/tidegate/internal/metrics"
)

func TestServed(t *testing.T) {
	m := metrics.New("test")
	m.HTTP()
	m.JWTRefused(auth.JWTSubject)
	if n := scrape(t, m)[`tidegate_jwt_refused_total{cause="subject"}`]; n != "1" {
		t.Errorf("%q refused JWTs", n)
	}
	for i := range 1000 {
		hostile := fmt.Sprintf("M%d\n<script>", i)
		m.Served(httpapi.Served{Listener: "public", Method: "POST", Route: "/v1/sales/:sale/orders", Status: 409, Took: 30 * time.Millisecond})
		m.Served(httpapi.Served{Listener: "public", Method: hostile, Route: "", Status: 404, Took: time.Millisecond})
		m.Served(httpapi.Served{Listener: "public", Method: hostile, Route: "", Status: i * i, Took: time.Millisecond})
	}
	got := scrape(t, m)
	maps.DeleteFunc(got, func(name, _ string) bool {
		return !strings.HasPrefix(name, "tidegate_http_request_duration_seconds_count")
	})
	for series, want := range map[string]string{
		`{code="409",listener="public",method="POST",route="/v1/sales/:sale/orders"}`: "1000",
		`{code="404",listener="public",method="other",route="other"}`:                 "1000",
		`{code="400",listener="public",method="other",route="other"}`:                 "1",
		`{code="other",listener="public",method="other",route="other"}`:               "998", // all but 10² and 20²
	} {
		if n := got["tidegate_http_request_duration_seconds_count"+series]; n != want {
			t.Errorf("%s is %q, want %s", series, n, want)
		}
	}
	if len(got) > 10 {
		t.Errorf("%d series", len(got))
	}
}

// What is measured of every request makes no garbage.
func TestMeasuringAllocatesNothing(t *testing.T) {
	m := metrics.New("test")
	m.HTTP()
	orders := m.Orders()
	s := httpapi.Served{Listener: "public", Method: "POST", Route: "/v1/sales/:sale/orders", Status: 409, Took: time.Millisecond}
	if n := testing.AllocsPerRun(1000, func() {
		m.Served(s)
		orders.Reserved(time.Millisecond)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkServed(b *testing.B) {
	m := metrics.New("bench")
	m.HTTP()
	s := httpapi.Served{Listener: "public", Method: "POST", Route: "/v1/sales/:sale/orders", Status: 409, Took: time.Millisecond}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Served(s)
		}
	})
}

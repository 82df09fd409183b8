package metrics

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi"
)

// HTTP adds the metrics of requests, which are recorded by Served and JWTRefused.
func (m *Metrics) HTTP() {
	// There are many series, so they have few classic buckets.
	requests := prometheus.NewHistogramVec(native("http_request_duration_seconds",
		"Duration of HTTP requests, by listener, method, route pattern and status code.", .005, .025, .1, .5, 2.5,
	), []string{"listener", "method", "route", "code"})
	m.requests = newSeries(func(labels [4]string) prometheus.Observer { return requests.WithLabelValues(labels[:]...) })
	m.jwts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_jwt_refused_total", Help: "JWTs of callers that were refused, by cause. LOG_LEVEL=debug logs each with its request_id.",
	}, []string{"cause"})
	for _, cause := range auth.JWTCauses {
		m.jwts.WithLabelValues(string(cause))
	}
	m.registry.MustRegister(requests, m.jwts)
}

// JWTRefused counts a refused JWT.
func (m *Metrics) JWTRefused(cause auth.JWTCause) { m.jwts.WithLabelValues(string(cause)).Inc() }

// Served counts a request.
func (m *Metrics) Served(s httpapi.Served) {
	method, route := other, s.Route
	if i := slices.Index(methods, s.Method); i >= 0 {
		method = methods[i] // that of the request is a part of its request line, all of which the series would keep
	}
	if route == "" {
		route = other
	}
	code := other
	if s.Status < len(codes) {
		code = codes[s.Status]
	}
	m.requests.with([...]string{s.Listener, method, route, code}).Observe(s.Took.Seconds())
}

// other is the label for all values that clients can invent.
const other = "other"

var methods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodHead, http.MethodPatch,
	http.MethodOptions,
}

// codes are the statuses as text, formatted once to avoid an allocation per request.
var codes = func() (all [600]string) {
	for code := range all {
		if all[code] = other; http.StatusText(code) != "" {
			all[code] = strconv.Itoa(code)
		}
	}
	return all
}()

package livepage

import (
	"cmp"
	"maps"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/netaddr"
)

// A Recorder counts requests and answers of this process, both for pages and for Prometheus. Make it with NewRecorder; it is safe for
// concurrent use.
type Recorder struct {
	answers counters // by answer
	charged counters // by rule
	refused counters
	shadow  counters
	fullest gauges // by rule, since the last frame
	took    latencies

	room   atomic.Int32 // answers to be kept until the next frame
	mu     sync.Mutex
	latest []Answer // guarded by mu
}

// mostLatest is the maximum number of answers in a frame.
const mostLatest = 20

// NewRecorder returns a recorder with all counters 0.
func NewRecorder() *Recorder {
	r := &Recorder{latest: []Answer{}}
	r.room.Store(mostLatest)
	return r
}

// Admitted is the answer for admitted requests; all others are reasons.
const Admitted = "admitted"

// Decided records the decision on a request.
func (r *Recorder) Decided(req *admission.Request, d *admission.Decision) {
	last := ""
	for i := range d.Rules {
		v := &d.Rules[i]
		if v.Limit > 0 {
			r.fullest.raise(v.Rule, gaugeOf(v.Limit-v.Remaining, v.Limit))
		}
		if v.Rule == last { // windows of a rule are adjacent
			continue
		}
		last = v.Rule
		switch {
		case v.Admitted:
			r.charged.add(v.Rule)
		case v.Shadow:
			r.shadow.add(v.Rule)
		default:
			r.refused.add(v.Rule)
		}
	}
}

// Answered records the answer to a request, or the result of an order, and how long it took. It reports whether to Show it.
func (r *Recorder) Answered(answer string, took time.Duration) bool {
	r.answers.add(answer)
	r.took.add(took)
	return r.room.Load() > 0 && r.room.Add(-1) >= 0
}

// Show adds an answer to those that the page shows.
func (r *Recorder) Show(answer, rule string, req *admission.Request) {
	ip := netaddr.Address(req.IP)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest = append(r.latest, Answer{
		At: time.Now(), Who: short(cmp.Or(req.User, ip), mostName), IP: ip,
		What: short(req.Method+" "+ofAnOrder.ReplaceAllString(req.Route, "$1…"), mostName), Answer: answer, Rule: rule,
	})
}

// ofAnOrder matches the path of an order: the id of an anonymous one is the right to it.
var ofAnOrder = regexp.MustCompile(`^(/v1/orders/)[0-9A-Fa-f-]{36}`)

// Maximum lengths of texts in a frame, in bytes.
const (
	mostName   = 80
	mostReason = 300
)

// short truncates texts from clients.
func short(text string, most int) string {
	for i := range text {
		if i > most {
			return text[:i] + "…"
		}
	}
	return text
}

// take returns the answers since the last call.
func (r *Recorder) take() []Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := r.latest
	r.latest = []Answer{}
	r.room.Store(mostLatest)
	return latest
}

// counters are counters by name. The zero value is ready. Names come from operators or are reasons, so there are few.
type counters struct {
	mu sync.Mutex // for adding a name
	of atomic.Pointer[map[string]*atomic.Uint64]
}

func (c *counters) add(name string) {
	all := c.of.Load()
	if all != nil {
		if n, ok := (*all)[name]; ok {
			n.Add(1)
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	grown := map[string]*atomic.Uint64{}
	if all = c.of.Load(); all != nil {
		maps.Copy(grown, *all)
	}
	if grown[name] == nil {
		grown[name] = new(atomic.Uint64)
	}
	grown[name].Add(1)
	c.of.Store(&grown)
}

// totals returns all counters since the start.
func (c *counters) totals() map[string]uint64 {
	totals := map[string]uint64{}
	if all := c.of.Load(); all != nil {
		for name, n := range *all {
			totals[name] = n.Load()
		}
	}
	return totals
}

var (
	answersTotal = prometheus.NewDesc("tidegate_answers_total",
		"Requests that matched a rule, by result: admitted or the reason of the refusal; for orders, the final result.", []string{"answer"}, nil)
	verdictTotal = prometheus.NewDesc("tidegate_rule_verdicts_total", "Requests that matched a rule, by its verdict: charged, refused, or "+
		"shadow (a shadow rule would have refused).", []string{"rule", "verdict"}, nil)
)

// Describe implements prometheus.Collector.
func (r *Recorder) Describe(ch chan<- *prometheus.Desc) { ch <- answersTotal; ch <- verdictTotal }

// Collect implements prometheus.Collector.
func (r *Recorder) Collect(ch chan<- prometheus.Metric) {
	for answer, n := range r.answers.totals() {
		ch <- prometheus.MustNewConstMetric(answersTotal, prometheus.CounterValue, float64(n), answer)
	}
	for verdict, c := range map[string]*counters{"charged": &r.charged, "refused": &r.refused, "shadow": &r.shadow} {
		for rule, n := range c.totals() {
			ch <- prometheus.MustNewConstMetric(verdictTotal, prometheus.CounterValue, float64(n), rule, verdict)
		}
	}
}

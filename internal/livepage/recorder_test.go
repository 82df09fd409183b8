package livepage

import (
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
)

func TestRecorderCountsWhatManyTellIt(t *testing.T) {
	r := NewRecorder()
	const callers, each = 8, 500
	decision := admission.Decision{Rules: []admission.Verdict{
		{Rule: "orders", Admitted: true, Limit: 10, Remaining: 4},
		{Rule: "orders", Admitted: true, Limit: 100, Remaining: 99}, // another window of it
		{Rule: "burst", Limit: 5, Remaining: 0},
		{Rule: "tight", Limit: 1, Remaining: 0, Shadow: true},
		{Rule: "free", Admitted: true, Limit: rules.Unlimited, Remaining: rules.Unlimited},
	}}
	var all sync.WaitGroup
	var taken atomic.Int64
	for range callers {
		all.Go(func() {
			for range each {
				r.Decided(&admission.Request{}, &decision)
				answered(r, "rate_limited", "burst", time.Millisecond, admission.Request{})
				taken.Add(int64(len(r.take())))
			}
		})
	}
	all.Wait()
	if n := r.answers.totals()["rate_limited"]; n != callers*each {
		t.Errorf("%d answers", n)
	}
	if n := taken.Load(); n != callers*each { // never more than one of each caller at a time, for which there is room
		t.Errorf("frames told of %d answers", n)
	}
	for name, want := range map[string][3]uint64{"orders": {callers * each}, "burst": {0, callers * each}, "tight": {0, 0, callers * each}, "free": {callers * each}} {
		if got := [3]uint64{r.charged.totals()[name], r.refused.totals()[name], r.shadow.totals()[name]}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	fullest := r.fullest.take()
	if g := fullest["orders"]; g.used() != 6 || g.limit() != 10 || g.share() != 0.6 {
		t.Errorf("orders: %d of %d", g.used(), g.limit())
	}
	if g := fullest["burst"]; g.share() != 1 || fullest["free"] != 0 || r.fullest.take()["burst"] != 0 {
		t.Errorf("%v", fullest)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r)
	families, err := registry.Gather()
	if err != nil || len(families) != 2 || families[0].GetName() != "tidegate_answers_total" || families[0].GetMetric()[0].GetCounter().GetValue() != callers*each {
		t.Errorf("%v, %v", families, err)
	}
}

// answered records an answer, and shows it if it is one of the sample.
func answered(r *Recorder, answer, rule string, took time.Duration, req admission.Request) (shown bool) {
	if shown = r.Answered(answer, took); shown {
		r.Show(answer, rule, &req)
	}
	return shown
}

func TestAFrameTellsOfSomeAnswersInFew(t *testing.T) {
	r, shown := NewRecorder(), 0
	for range 100 {
		if answered(r, Admitted, "", time.Millisecond, admission.Request{
			User: strings.Repeat("ä", 10<<10), IP: netip.MustParseAddr("2001:db8::7"), Method: "GET", Route: "/x",
		}) {
			shown++
		}
	}
	latest := r.take()
	if shown != mostLatest || len(latest) != mostLatest {
		t.Fatalf("%d are shown, %d are in the frame", shown, len(latest))
	}
	if a := latest[0]; len(a.Who) > mostName+8 || !strings.HasSuffix(a.Who, "ä…") || a.IP != "2001:db8::" || a.What != "GET /x" {
		t.Errorf("%+v", a)
	}
	answered(r, Admitted, "", time.Millisecond, admission.Request{IP: netip.MustParseAddr("192.0.2.1")})
	if latest = r.take(); len(latest) != 1 || latest[0].Who != "192.0.2.1" {
		t.Errorf("%+v", latest)
	}
	answered(r, Admitted, "", time.Millisecond, admission.Request{
		Method: "POST", Route: "/v1/orders/0193509c-2c00-8001-8000-1234567890ab/cancel",
	})
	if latest = r.take(); len(latest) != 1 || latest[0].What != "POST /v1/orders/…/cancel" {
		t.Errorf("whoever sees the page can act for the buyer: %+v", latest)
	}
	if latest = r.take(); latest == nil || len(latest) != 0 {
		t.Errorf("%+v", latest)
	}
}

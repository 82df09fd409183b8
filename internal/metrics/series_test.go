package metrics

import (
	"strconv"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestSeries: concurrent callers with the same labels count in one series, also when it is new.
func TestSeries(t *testing.T) {
	t.Parallel()
	const callers, labels = 8, 50
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls"}, []string{"label"})
	s := newSeries(func(label [1]string) prometheus.Counter { return vector.WithLabelValues(label[:]...) })
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := range labels {
				s.with([1]string{strconv.Itoa(i)}).Inc()
			}
		})
	}
	wg.Wait()
	registry := prometheus.NewRegistry()
	registry.MustRegister(vector)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != labels {
		t.Fatalf("%v, %v; want %d series", families, err, labels)
	}
	for _, one := range families[0].GetMetric() {
		if n := one.GetCounter().GetValue(); n != callers {
			t.Errorf("%v was counted %v times, want %d", one.GetLabel(), n, callers)
		}
	}
}

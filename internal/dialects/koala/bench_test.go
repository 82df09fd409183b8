package koala_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

// manyRulesFile is a rule file with so many rules and a dict of so many values.
func manyRulesFile(b testing.TB, rules, values int) string {
	b.Helper()
	dict := ""
	for i := range values {
		dict += strconv.Itoa(1_000_000+i) + "\n"
	}
	return writeFiles(b, map[string]string{
		"bad.dat":    dict,
		"koala.conf": "[dicts]\nbad : bad.dat\n[rules]\nrule : [direct] [uid @ bad] [] [result=2; return=100000]\n" + manyRules(rules-1) + shippedResults,
	})
}

// BenchmarkLoad200Rules reads a file of 200 rules and a dict of 1,000 values, as a start and each reload do.
func BenchmarkLoad200Rules(b *testing.B) {
	path := manyRulesFile(b, 200, 1000)
	store := memorystore.New(memorystore.Options{})
	for b.Loop() {
		s, err := koala.New(store, koala.Options{Path: path, Secret: fileSecret})
		if err != nil {
			b.Fatal(err)
		}
		if got := len(s.Policy().Rules); got != 200 {
			b.Fatalf("%d rules", got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/file")
}

// BenchmarkKoalaBesideYAML takes turns: the same requests are decided by a rule file, written through, and by the rules file that it is
// converted to. The ratio is the median of the turns: how much longer the rule file takes.
func BenchmarkKoalaBesideYAML(b *testing.B) {
	opts, err := redisclient.ParseURL(testenv.Redis(b))
	if err != nil {
		b.Fatal(err)
	}
	rdb := redis.NewUniversalClient(opts)
	defer rdb.Close()
	for _, over := range []struct {
		name    string
		callers int
		open    func() store.Store
	}{
		{"memory", 1, func() store.Store { return memorystore.New(memorystore.Options{MaxSubjects: 1 << 22}) }},
		{"redis", 1, func() store.Store { return redisstore.New(rdb) }},
		{"redis", 16, func() store.Store { return redisstore.New(rdb) }},
	} {
		for _, rules := range []int{6, 200} {
			b.Run(fmt.Sprintf("%s/callers=%d/rules=%d", over.name, over.callers, rules), func(b *testing.B) {
				path := manyRulesFile(b, rules, 1000)
				service, gate := besideYAML(b, path, over.open)
				var alone atomic.Int64
				turnAbout(b, over.callers,
					func(ctx context.Context, act, uid string) error {
						_, err := service.Browse(ctx, koala.Params{"act": act, "uid": uid, "uip": "10.0.24.7", "qid": "3"}, true)
						return err
					},
					func(ctx context.Context, act, uid string) error {
						d, err := gate.Charge(ctx, admission.Request{Attributes: map[string]string{"act": act, "uid": uid, "uip": "10.0.24.7", "qid": "3"}})
						if d.Degraded { // a busy machine is slower than Options.Timeout: such turns say nothing
							alone.Add(1)
						}
						return err
					}, rules)
				b.ReportMetric(float64(alone.Load()), "without-store")
			})
		}
	}
}

// besideYAML opens the file both ways.
func besideYAML(b *testing.B, path string, open func() store.Store) (*koala.Service, *admission.Gate) {
	b.Helper()
	space := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	service, err := koala.New(open(), koala.Options{Path: path, Secret: fileSecret, Namespace: space})
	if err != nil {
		b.Fatal(err)
	}
	converted := filepath.Join(filepath.Dir(path), "converted.yaml")
	if err := os.WriteFile(converted, convert(b, path), 0o600); err != nil {
		b.Fatal(err)
	}
	set, err := rules.Load(converted)
	if err != nil {
		b.Fatal(err)
	}
	gate, err := admission.NewWithStore(open(), set, admission.Options{Secret: fileSecret, Namespace: space + "-yaml"})
	if err != nil {
		b.Fatal(err)
	}
	return service, gate
}

// turnAbout lets both decide the same requests, each for a while, and reports how much longer the first one takes. Who begins changes.
func turnAbout(b *testing.B, callers int, first, second func(ctx context.Context, act, uid string) error, rules int) {
	const each = 256
	var ratios []float64
	var spent [2]time.Duration
	var next [2]atomic.Int64
	turn := func(i int, decide func(ctx context.Context, act, uid string) error) time.Duration {
		began := time.Now()
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range each {
					n := int(next[i].Add(1))
					if err := decide(b.Context(), "act"+strconv.Itoa(n%rules), strconv.Itoa(n)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(began)
	}
	turn(0, first)
	turn(1, second)
	for b.Loop() {
		var took [2]time.Duration
		if len(ratios)%2 == 0 {
			took[0] = turn(0, first)
			took[1] = turn(1, second)
		} else {
			took[1] = turn(1, second)
			took[0] = turn(0, first)
		}
		spent[0], spent[1] = spent[0]+took[0], spent[1]+took[1]
		ratios = append(ratios, float64(took[0])/float64(took[1]))
	}
	slices.Sort(ratios)
	total := float64(len(ratios) * callers * each)
	b.ReportMetric(total/spent[0].Seconds(), "koala/s")
	b.ReportMetric(total/spent[1].Seconds(), "yaml/s")
	b.ReportMetric(ratios[len(ratios)/2], "koala/yaml")
	b.ReportMetric(ratios[len(ratios)/4], "lower-quarter")
	b.ReportMetric(ratios[len(ratios)*3/4], "upper-quarter")
	b.ReportMetric(0, "ns/op")
}

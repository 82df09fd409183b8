package admission_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/admission/store/storetest"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

var secret = []byte("a secret of the tests, 32 bytes.")

type clock = storetest.Clock

var epoch = storetest.Epoch

func newClock() *clock { return storetest.NewClock() }

// opener opens a store that is empty for a gate with a unique namespace. A nil clock means the store's own.
type opener func(clk *clock) store.Store

// kinds are the stores that the tests of a Gate run over. Package storetest tests the stores alone.
var kinds = []struct {
	name string
	open func(t testing.TB) opener
}{
	{"memory", func(testing.TB) opener {
		return func(clk *clock) store.Store {
			if clk == nil {
				return memorystore.New(memorystore.Options{})
			}
			return memorystore.New(memorystore.Options{Now: clk.Now})
		}
	}},
	{"redis", func(t testing.TB) opener { return overRedis(dial(t, testenv.Redis(t))) }},
	{"cluster", func(t testing.TB) opener { return overRedis(dial(t, cluster(t))) }},
	{"cluster auto-pipelined", func(t testing.TB) opener { return overRedis(pipelined(t, dial(t, cluster(t)))) }},
}

func cluster(t testing.TB) string { return "redis://" + strings.Join(testenv.RedisCluster(t), ",") }

func overRedis(rdb redisscript.Client) opener {
	return func(clk *clock) store.Store {
		s := redisstore.New(rdb)
		if clk != nil {
			s.SetClock(clk.Now)
		}
		return s
	}
}

// dial opens a client that waits longer than production's, so that a busy machine is no outage.
func dial(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	opts, err := redisclient.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = patience, patience, patience, patience
	rdb := redis.NewUniversalClient(opts)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// dialKind opens a client of a "redis", or of a "cluster".
func dialKind(t testing.TB, kind string) redis.UniversalClient {
	t.Helper()
	if kind == "cluster" {
		return dial(t, cluster(t))
	}
	return dial(t, testenv.Redis(t))
}

func pipelined(t testing.TB, rdb redis.UniversalClient) redisscript.Client {
	t.Helper()
	p, err := redisclient.AutoPipeline(rdb)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// eachStore runs test over every store.
func eachStore(t *testing.T, test func(t *testing.T, open opener)) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			test(t, kind.open(t))
		})
	}
}

const patience = 10 * time.Second

// namespace returns one that no other test has, so that tests share a server.
func namespace() string { return storetest.Namespace() }

func gate(t testing.TB, st store.Store, ns, rules string) *admission.Gate {
	t.Helper()
	g, err := admission.NewWithStore(st, parse(t, rules), admission.Options{
		Secret: secret, Namespace: ns, Timeout: patience, DenyCache: -1, // the clock of these tests stands still
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// parse parses the rules of a test, which leaves out what all files begin with.
func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	r, err := rules.Parse("test.yaml", []byte("version: 1\nrules:\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func charge(t testing.TB, g *admission.Gate, req admission.Request) admission.Decision {
	t.Helper()
	d, err := g.Charge(t.Context(), req)
	if err != nil || d.Degraded {
		t.Fatalf("Charge(%+v) = %+v, %v", req, d, err)
	}
	return d
}

func check(t testing.TB, g *admission.Gate, req admission.Request) admission.Decision {
	t.Helper()
	d, err := g.Check(t.Context(), req)
	if err != nil || d.Degraded {
		t.Fatalf("Check(%+v) = %+v, %v", req, d, err)
	}
	return d
}

var ann = bans.Target{Kind: bans.User, Value: "ann"}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func setRules(t testing.TB, g *admission.Gate, set *rules.Set) {
	t.Helper()
	if err := g.SetRules(set); err != nil {
		t.Fatal(err)
	}
}

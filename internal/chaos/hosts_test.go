package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/rehearse"
	"github.com/tidegate/tidegate/internal/testenv"
)

// hostWave is the duration of a crowd's wave on several hosts: a failover takes seconds.
const hostWave = 3 * wave

// lastOctets are the addresses of deploy/hosts/compose.yaml.
var lastOctets = map[string]string{
	"caddy": "10", "api-1": "11", "api-2": "12", "worker-1": "21", "worker-2": "22", "redis-1": "31", "redis-2": "32", "redis-3": "33", "redis-4": "34",
	"redis-5": "35", "redis-6": "36", "redis-7": "37", "sentinel-1": "41", "sentinel-2": "42", "sentinel-3": "43", "postgres-1": "51", "postgres-2": "52",
}

// hosts is deploy/hosts in the machine's Docker engine: each container is a host. Safe for concurrent use.
type hosts struct {
	t               testing.TB
	logs            string // folder
	project         string
	net             string   // first three octets of the addresses
	files           []string // of the compose configuration
	env             []string
	password        string // of Redis and Postgres
	sentinel        bool
	ids             sync.Map   // of containers, by host
	redis, postgres sync.Mutex // held while a fault changes who is master or primary

	mu    sync.Mutex
	cuts  map[string][][]string // rules of iptables by host; guarded by mu
	down  map[string]bool       // killed or paused hosts; guarded by mu
	ended time.Time             // when an API last ended; guarded by mu
}

// hostSettings are what differs between installations.
type hostSettings struct {
	image      string
	durability string // DURABILITY; with replicated, a Redis without its replica takes no writes
}

// newHosts starts deploy/hosts, which is removed when the test ends, and waits until it is ready.
func newHosts(t testing.TB, dir string, want needs, o hostSettings) *cluster {
	t.Helper()
	c := &cluster{t: t, ctx: context.WithoutCancel(t.Context()), dir: dir, token: rand.Text(), wave: hostWave}
	c.steps.reached = make(map[string]int)
	c.must(os.Mkdir(filepath.Join(dir, "rules"), 0o755)) //nolint:gosec // the programs run as another user
	c.must(os.WriteFile(filepath.Join(dir, "rules", "rules.yaml"), []byte(rehearse.OpenRules), 0o644))
	removeHosts(c.ctx, leftBehind(c.ctx)...)
	h := &hosts{
		t: t, logs: dir, project: fmt.Sprintf("%s%d-%s", hostsPrefix, os.Getpid(), strings.ToLower(rand.Text()[:6])),
		files:    []string{"-f", "../../deploy/hosts/compose.yaml"},
		password: rand.Text(), sentinel: want&sentinels != 0, cuts: make(map[string][][]string), down: make(map[string]bool),
	}
	if h.sentinel {
		h.files = append(h.files, "-f", "../../deploy/hosts/sentinel.yaml")
	}
	replicas := "0"
	if o.durability == "replicated" {
		replicas = "1"
	}
	h.env = append(os.Environ(), "COMPOSE_PROJECT_NAME="+h.project, "TIDEGATE_IMAGE="+o.image, "SECRET="+rand.Text()+rand.Text(),
		"INTERNAL_TOKEN="+c.token, "REDIS_PASSWORD="+h.password, "POSTGRES_PASSWORD="+h.password, "IDENTITY=header", "CLUSTER_NODE_TIMEOUT=2000",
		"MIN_REPLICAS_TO_WRITE="+replicas, "DURABILITY="+o.durability, "RULES_FOLDER_OF_HOSTS="+filepath.Join(dir, "rules"), "RULES_FILE=/rules/rules.yaml",
		fmt.Sprintf("PUBLIC_PORT=%d", testenv.FreePort()), fmt.Sprintf("INTERNAL_PORT=%d", testenv.FreePort()))
	t.Cleanup(func() { h.close(c.ctx) })
	c.hosts = h
	c.must(h.begin(c.ctx))
	c.public, c.internal = []string{"http://" + h.addr("caddy") + ":8080"}, []string{"http://" + h.addr("caddy") + ":8081"}
	var err error
	c.pool, err = pgxpool.New(c.ctx, h.databaseURL(h.addr("postgres-1")+":5432,"+h.addr("postgres-2")+":5432")+"&target_session_attrs=read-write")
	c.must(err)
	t.Cleanup(c.pool.Close)
	ctx, cancel := context.WithTimeout(c.ctx, 4*time.Minute)
	defer cancel()
	c.must(h.whole(ctx))
	c.must(h.ready(ctx))
	c.watchLeaders()
	return c
}

// begin starts all hosts, on other addresses if those drawn are in use.
func (h *hosts) begin(ctx context.Context) error {
	settings := h.env
	for tries := 1; ; tries++ {
		h.net = fmt.Sprintf("10.83.%d", 64+mathrand.IntN(190))
		h.env = append(slices.Clone(settings), "HOSTS_NET="+h.net, "INITIALIZE=postgres-1")
		_, err := h.compose(ctx, "up", "-d", "--no-build")
		h.env = h.env[:len(h.env)-1] // a host that loses its disk must not make another database
		if err == nil || tries == 5 || !strings.Contains(err.Error(), "overlap") {
			return err
		}
		removeHosts(ctx, h.project)
	}
}

// runHostsRound is runRound on several hosts.
func runHostsRound(t testing.TB, dir string, p plan, size roundSize, o hostSettings) *result {
	t.Helper()
	began := time.Now()
	c := newHosts(t, dir, p.needs, o)
	c.rate, c.drainTime, c.visitors = size.Rate, size.Drain, size.Visitors
	res := c.run(p)
	res.Took = time.Since(began).Round(time.Second).Seconds()
	return res
}

func (h *hosts) addr(host string) string { return h.net + "." + lastOctets[host] }

// databaseURL is the URL of one or several servers, for the harness.
func (h *hosts) databaseURL(servers string) string {
	return "postgres://tidegate:" + h.password + "@" + servers + "/tidegate?sslmode=disable&connect_timeout=5&pool_max_conns=6"
}

// all returns the hosts of the installation whose names have one of the prefixes.
func (h *hosts) all(prefixes ...string) (names []string) {
	for name := range lastOctets {
		role, number, _ := strings.Cut(name, "-")
		switch {
		case !slices.Contains(prefixes, role):
		case role == "sentinel" && !h.sentinel, role == "redis" && h.sentinel && number > "2":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// lastEnd returns when an API last ended; the zero time: never. h may be nil.
func (h *hosts) lastEnd() time.Time {
	if h == nil {
		return time.Time{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

// ready waits until all programs are ready, by their own addresses, and the balancer sends requests to them.
func (h *hosts) ready(ctx context.Context) error {
	urls := []string{"http://" + h.addr("caddy") + ":8081/readyz"}
	for _, host := range h.all("api") {
		urls = append(urls, "http://"+h.addr(host)+":8081/readyz")
	}
	for _, host := range h.all("worker") {
		urls = append(urls, "http://"+h.addr(host)+":8082/readyz")
	}
	for _, url := range urls {
		last := "no answer"
		for {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
			if err != nil {
				return err
			}
			if resp, err := quick.Do(req); err == nil {
				resp.Body.Close()
				if last = resp.Status; resp.StatusCode == http.StatusOK {
					break
				}
			}
			if !periodic.Pause(ctx, 100*time.Millisecond) {
				return fmt.Errorf("%s: %s", url, last)
			}
		}
	}
	return nil
}

// heal ends all faults: every host runs, is reachable and has its role.
func (h *hosts) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	names := h.all("api", "worker", "redis", "sentinel", "postgres")
	for _, host := range names {
		if host == "redis-7" {
			continue // its fault removes it
		}
		if err := errors.Join(h.mendAll(ctx, host), h.start(ctx, host)); err != nil {
			return err
		}
	}
	return h.whole(ctx)
}

// whole waits until Redis has all masters with their replicas, and Postgres a primary with its standby.
func (h *hosts) whole(ctx context.Context) error {
	for _, is := range []func(context.Context) error{h.redisWhole, h.postgresWhole} {
		for {
			attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
			err := is(attempt)
			cancel()
			if err == nil {
				break
			}
			if !periodic.Pause(ctx, 300*time.Millisecond) {
				return fmt.Errorf("the hosts are not whole: %w", err)
			}
		}
	}
	return nil
}

// How make chaos HOSTS=1 runs TestHosts:
//
//	go test ./internal/chaos -run TestHosts -v -hosts -rounds 30 -seed 1 -rate 60
var (
	onHosts    = flag.Bool("hosts", false, "rounds of TestHosts, on several hosts; needs Docker and root")
	measure    = flag.String("measure", "", "measure what one of the costly faults loses: split-brain, split-brain-and-api, lost-standby or lost-standby-and-api")
	underThree = flag.Bool("sentinel", false, "a Redis under sentinels in place of a cluster, for -faults")
	durability = flag.String("durability", "everysec", "DURABILITY on several hosts")
)

// TestHosts runs rounds on several hosts, one after the other. Without -hosts it only draws their plans, which needs neither Docker nor root.
func TestHosts(t *testing.T) {
	if !*onHosts {
		drawHostPlans(t)
		return
	}
	first := *seed
	if first == 0 {
		first = mathrand.Uint64N(1 << 32)
	}
	t.Logf("seed %d", first)
	plans := make([]plan, max(1, *rounds))
	for i := range plans {
		plans[i] = drawnOnHosts(t, first+uint64(i))
	}
	o := hostSettings{image: buildHosts(t), durability: *durability}
	runAll(t, plans, func(t testing.TB, dir string, p plan) *result {
		return runHostsRound(t, dir, p, roundSize{Rate: *rate, Drain: *drain, Visitors: *people}, o)
	})
}

// drawnOnHosts returns the plan that the flags define. -faults none is a round without any.
func drawnOnHosts(t *testing.T, seed uint64) plan {
	r := mathrand.New(mathrand.NewPCG(seed, 0))
	var p plan
	var err error
	switch {
	case *measure != "":
		p, err = planNamed(costly, seed, r, *measure)
	case *named == "none":
		p = plan{Seed: seed}
	case *named != "":
		p, err = planNamed(hostFaults, seed, r, *named)
	default:
		p = newHostPlan(seed)
	}
	if err != nil {
		t.Fatal(err)
	}
	if *underThree {
		p.needs |= sentinels
	}
	return chosenOf(t, p)
}

// drawHostPlans checks that every seed draws the same plan again, and that every fault leads in its turn.
func drawHostPlans(t *testing.T) {
	for seed := range uint64(20 * len(hostFaults)) {
		p := newHostPlan(seed)
		if again := newHostPlan(seed); again.String() != p.String() || again.needs != p.needs {
			t.Fatalf("seed %d draws\n%sand then\n%s", seed, p, again)
		}
		lead := hostFaults[seed%uint64(len(hostFaults))].name
		if !slices.ContainsFunc(p.Steps, func(s step) bool { return s.Fault == lead }) || len(p.Steps) > 4 {
			t.Errorf("seed %d has no %s, or too much:\n%s", seed, lead, p)
		}
		for _, s := range p.Steps {
			if s.At < 0 || s.At > hostWave {
				t.Errorf("seed %d: %s", seed, s)
			}
		}
	}
}

// TestSlots: the examples of the specification of Redis Cluster.
func TestSlots(t *testing.T) {
	if slot := slotOf("123456789"); slot != 0x31C3 {
		t.Errorf("slot %d, want %d", slot, 0x31C3)
	}
}

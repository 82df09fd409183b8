package serve

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// startShop starts an API and a worker, confirms an order, and returns both. The worker takes the order from the queue: the sweeper would do so
// only after five seconds.
func startShop(t *testing.T, env func(string) string) (api saleAPI, worker *servetest.Program) {
	t.Helper()
	program := startAPI(t, env)
	worker = startWorker(t, env)
	s := openShop(t, program, 1000)
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", worker.URL("worker")+"/readyz", "") })
	s.confirmed(s.bought("alice"), "alice")
	for _, url := range []string{s.URL("internal"), worker.URL("worker")} {
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			a := servetest.Once("GET", url+"/readyz", "")
			if strings.Contains(string(a.Body), "degraded") { // for a moment, when a busy machine answers a query late
				a.Status = 0
			}
			return a
		})
	}
	return s, worker
}

// TestAClusterBehindOneAddress, which is also that of the queue's cluster.
func TestAClusterBehindOneAddress(t *testing.T) {
	t.Parallel()
	nodes := testenv.RedisCluster(t)
	for name, queue := range map[string]string{"one": "", "two": "redis://" + nodes[1]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := environment("redis://"+nodes[0], databases.Postgres(t))
			api, _ := startShop(t, with(env, "QUEUE_REDIS_URL", queue))
			api.verified()
		})
	}
}

// TestSentinelsWithAPassword, which is not the master's.
func TestSentinelsWithAPassword(t *testing.T) {
	t.Parallel()
	redis := testenv.StartSentinel(t)
	redis.RequirePassword("guard", "p@ss,word")
	url := "redis+sentinel://" + strings.Join(redis.Sentinels, ",") + "/" + redis.Master + "?sentinel_username=guard&sentinel_password=p%40ss%2Cword"
	startShop(t, environment(url, databases.Postgres(t)))
}

// TestRedisThatRequiresCertificates, for decisions and for the queue. Replaced files apply to the next connection.
func TestRedisThatRequiresCertificates(t *testing.T) {
	t.Parallel()
	authority, dir := testenv.NewAuthority(t), t.TempDir()
	server, url := testenv.StartTLSRedis(t, authority)
	_, queue := testenv.StartTLSRedis(t, authority)
	cert, key := filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	authority.Issue(cert, key)
	env := with(environment(url, databases.Postgres(t)), "QUEUE_REDIS_URL", queue)
	for name, file := range map[string]string{"REDIS_CA_FILE": authority.CAFile, "REDIS_CERT_FILE": cert, "REDIS_KEY_FILE": key} {
		env = with(env, name, file)
	}
	api, worker := startShop(t, env)

	for _, file := range []string{cert, key} {
		if err := os.WriteFile(file, []byte("not a certificate"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Open connections go on, but operators see it.
	for _, readyz := range []string{api.URL("internal"), worker.URL("worker")} {
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			a := servetest.Once("GET", readyz+"/readyz", "")
			if !strings.Contains(string(a.Body), `"reload"`) {
				a.Status = 0
			}
			return a
		})
	}
	server.Restart()
	servetest.Until(t, http.StatusServiceUnavailable, func() servetest.Answer { return servetest.Once("GET", api.URL("internal")+"/readyz", "") })
	authority.Issue(cert, key)
	api.confirmed(api.bought("bob"), "bob")
}

// documented returns the rights of the user in docs/operations.md.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(text), "\nACL SETUSER tidegate on >PASSWORD ")
	if line, _, _ = strings.Cut(line, "\n"); !found {
		t.Fatal("docs/operations.md has no user")
	}
	return strings.Fields(line)
}

// limited starts a Redis with a user for one namespace, and returns an environment for it.
func limited(t *testing.T, rights ...string) (server *testenv.RedisServer, env func(string) string) {
	t.Helper()
	server = testenv.StartRedis(t)
	env = environment("", databases.Postgres(t))
	for i := range rights {
		rights[i] = strings.Replace(rights[i], "tidegate", env("NAMESPACE"), 1)
	}
	return server, with(env, "REDIS_URL", server.User("tidegate", "word", rights...))
}

// TestTheUserOfTheDocs: programs with its permissions are denied nothing.
func TestTheUserOfTheDocs(t *testing.T) {
	t.Parallel()
	server, env := limited(t, documented(t)...)
	api, worker := startShop(t, env)
	api.verified()
	if denied := server.Denied(); len(denied) > 0 {
		t.Errorf("the user lacks %v", denied)
	}
	for _, p := range []*servetest.Program{api.Program, worker} {
		if out := p.Output(); strings.Contains(out, "NOPERM") {
			t.Errorf("%s", out)
		}
	}
}

// TestAUserWithoutACommand: the start names the command at once, because waiting for the server would not help.
func TestAUserWithoutACommand(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"info", "ping"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			_, env := limited(t, append(documented(t), "-"+command)...)
			p := startAPI(t, env)
			if err := p.Refused(); err == nil || !strings.Contains(err.Error(), "NOPERM") || !strings.Contains(err.Error(), "'"+command+"'") ||
				!strings.Contains(err.Error(), "docs/operations.md") {
				t.Error(err)
			}
			if log := p.Output(); strings.Contains(log, "waiting for a server") {
				t.Errorf("it waits:\n%s", log)
			}
		})
	}
}

// TestAQueueWithoutPermission: orders are committed by the sweeper, and the processes name the queue.
func TestAQueueWithoutPermission(t *testing.T) {
	t.Parallel()
	_, env := limited(t, "~tidegate*", "&tidegate*", "+@all", "-@dangerous", "+info")
	program, worker := startAPI(t, env), startWorker(t, env)
	s := openShop(t, program, 1000)
	s.confirmed(s.bought("alice"), "alice")
	for name, p := range map[string]*servetest.Program{"internal": program, "worker": worker} {
		p.Logged("the task queue cannot be used; the sweeper commits orders")
		if a := servetest.Call("GET", p.URL(name)+"/readyz", ""); a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"degraded":["queue"]`) {
			t.Errorf("%s: readyz: %v", name, a)
		}
	}
	a := servetest.Once("GET", s.URL("internal")+"/v1/sales/concert/verify", "")
	if a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "task queue") || strings.Contains(string(a.Body), "asynq:") {
		t.Errorf("verify: %v", a)
	}
}

package serve

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// with adds a variable to an environment.
func with(env func(string) string, name, value string) func(string) string {
	return func(asked string) string {
		if asked == name {
			return value
		}
		return env(asked)
	}
}

func TestAWeakRedisStopsTheStart(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--appendonly", "no")
	env := environment(server.URL(), databases.Postgres(t))
	for durability, want := range map[string]string{
		"everysec": "set appendonly yes there", "fsync": "set appendonly yes there", "replicated": "has no replica online",
	} {
		err := startAPI(t, with(env, "DURABILITY", durability)).Refused()
		if err == nil || !strings.HasPrefix(err.Error(), "DURABILITY: ") || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), server.Addr()) {
			t.Errorf("api, %s: %v", durability, err)
		}
	}
	startAPI(t, env).Logged("durability of reservations in Redis")
}

func TestAnOrderIsSoldReplicated(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	replica := server.StartReplica()
	env := with(environment(server.URL(), databases.Postgres(t)), "DURABILITY", "replicated")
	startWorker(t, env)
	shop := openShop(t, startAPI(t, env), 5)
	shop.bought("first")
	replica.Stop()
	if a := shop.place("second"); a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "unavailable") {
		t.Errorf("while the replica is frozen: %v", a)
	}
	replica.Continue()
	servetest.Until(t, http.StatusAccepted, func() servetest.Answer { return shop.place("second") })
}

// TestAWorkerCommitsOverAWeakRedis: the order was placed before Redis lost its durability.
func TestAWorkerCommitsOverAWeakRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--appendonly", "no")
	env := environment(server.URL(), databases.Postgres(t))
	shop := openShop(t, startAPI(t, env), 5)
	worker := startWorker(t, with(env, "DURABILITY", "replicated"))
	worker.Logged("Redis provides less durability than required; orders are still committed")
	shop.bought("first")
}

// TestAnAsynchronousStandbyIsWarnedOf connects to Postgres as a standby does.
func TestAnAsynchronousStandbyIsWarnedOf(t *testing.T) {
	t.Parallel()
	postgres := testenv.StartPostgres(t)
	env := environment(testenv.Redis(t), postgres.URL())
	log := startAPI(t, env).Output()
	if strings.Contains(log, "synchronous standby") {
		t.Error("a server without a standby is warned of")
	}
	postgres.Follow()
	startAPI(t, env).Logged("Postgres has no synchronous standby: a failover may lose the last commits; set synchronous_standby_names")
}

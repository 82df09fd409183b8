package main

import (
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

func TestAdopt(t *testing.T) {
	redis := testenv.StartRedis(t).URL()
	does := func(ok bool, want, database string, args ...string) {
		t.Helper()
		env := func(name string) string { return map[string]string{"DATABASE_URL": database, "REDIS_URL": redis}[name] }
		out, err := call(t, env, append([]string{"adopt"}, args...)...)
		if err != nil {
			out += err.Error()
		}
		if (err == nil) != ok || !strings.Contains(out, want) {
			t.Errorf("%v: %v, want %q\n%s", args, err, want, out)
		}
	}
	first, second := databases.Postgres(t), databases.Postgres(t)
	does(false, "are required", "")
	does(false, "pass --yes", first)
	does(true, "belongs to database none", first, "--yes")
	does(true, "nothing was changed", first)
	does(false, "pass --yes", second)
	does(true, "They belong together now", second, "--yes")
	does(false, "pass --yes", first)
}

// TestCommandsReachEveryRedis: one that requires certificates, and a cluster behind one address.
func TestCommandsReachEveryRedis(t *testing.T) {
	authority, dir := testenv.NewAuthority(t), t.TempDir()
	_, secure := testenv.StartTLSRedis(t, authority)
	cert, key := filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	authority.Issue(cert, key)
	for _, url := range []string{secure, "redis://" + testenv.RedisCluster(t)[0]} {
		env := map[string]string{
			"REDIS_URL": url, "DATABASE_URL": databases.Postgres(t), "NAMESPACE": "every-" + strings.ToLower(rand.Text()[:10]),
			"REDIS_CA_FILE": authority.CAFile, "REDIS_CERT_FILE": cert, "REDIS_KEY_FILE": key,
		}
		for _, args := range [][]string{{"adopt", "--yes"}, {"report", "concert"}} {
			if out, err := call(t, func(name string) string { return env[name] }, args...); err != nil {
				t.Errorf("%s: %v: %v %s", url, args, err, out)
			}
		}
	}
}

package main

import (
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

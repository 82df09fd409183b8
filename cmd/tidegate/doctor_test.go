package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/serve"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

func TestDoctor(t *testing.T) {
	server := testenv.StartRedis(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer admin.Close()
	do := func(args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// finds returns the checks that found an error.
	finds := func(database, redisURL string) []string {
		t.Helper()
		env := map[string]string{"DATABASE_URL": database, "REDIS_URL": redisURL}
		out, err := call(t, func(name string) string { return env[name] }, "doctor", "--json")
		var report struct {
			OK       bool
			Findings []serve.Finding
		}
		if decoded := json.Unmarshal([]byte(out), &report); decoded != nil || report.OK != (err == nil) {
			t.Fatalf("%v, and %v:\n%s", decoded, err, out)
		}
		var wrong []string
		for _, f := range report.Findings {
			t.Log(f)
			if f.State == serve.StateError {
				wrong = append(wrong, f.Check)
			}
		}
		return wrong
	}
	want := func(what string, got []string, checks ...string) {
		t.Helper()
		if !slices.Equal(got, checks) {
			t.Errorf("%s: errors in %v, want %v", what, got, checks)
		}
	}
	migrated := databases.Postgres(t)
	want("all is well", finds(migrated, server.URL()))
	want("no schema", finds(testenv.Postgres(t), server.URL()), "schema")
	want("no Postgres", finds("postgres://postgres@127.0.0.1:1/postgres", server.URL()), "postgres")
	want("no Redis", finds(migrated, "redis://127.0.0.1:1"), "redis", "queue")
	do("ACL", "SETUSER", "shop", "on", ">secret", "~tidegate*", "&*", "+@all", "-zadd")
	want("rights", finds(migrated, "redis://shop:secret@"+server.Addr()), "permissions", "queue")
	do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	want("a policy that drops keys", finds(migrated, server.URL()), "durability")
	do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	do("SET", "tidegate:database", "other 1/1 since 2026-01-01T00:00:00.000000Z")
	want("another installation", finds(migrated, server.URL()), "identity")
}

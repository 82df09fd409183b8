package httpapi

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders/sqlite"
)

// withSemaphores gives an API the semaphores of the default rules, with the store of the embedded server.
func withSemaphores(t *testing.T) func(*Config) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "semaphores.db")+"?"+sqlite.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := migrations.SQLite(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return func(cfg *Config) {
		semaphores, err := semregistry.New(rdb, semregistry.SQLite(db), semregistry.Options{Rules: cfg.Gate.Rules})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = semaphores.Close() })
		cfg.Semaphores, cfg.Secret = semaphores, []byte("secret")
	}
}

// TestSemaphoresMatchTheDocument: responses about semaphores are as documented, also with an in-memory Redis.
func TestSemaphoresMatchTheDocument(t *testing.T) {
	b := setup(t, withSemaphores(t))
	const one, permits, permit = "/v1/semaphores/{name}", "/v1/semaphores/{name}/permits", "/v1/semaphores/{name}/permits/{id}"
	h := b.Internal()
	matchesDocument(t, h, "GET", "/v1/semaphores/report", "", one, 200)
	w := matchesDocument(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"a","weight":2}`, permits, 201)
	var got struct {
		ID string `json:"permit_id"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.ID == "" {
		t.Fatalf("%s %v", w.Body, err)
	}
	matchesDocument(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"a"}`, permits, 503)
	matchesDocument(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"a","wait_ms":1}`, permits, 503)
	matchesDocument(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"a","weight":3}`, permits, 422)
	matchesDocument(t, h, "GET", "/v1/semaphores/report", "", one, 200)
	matchesDocument(t, h, "GET", "/v1/semaphores", "", "/v1/semaphores", 200)
	matchesDocument(t, h, "PUT", "/v1/semaphores/report/permits/"+got.ID, "", permit, 200)
	matchesDocument(t, h, "DELETE", "/v1/semaphores/report/permits/"+got.ID, "", permit, 204)
	matchesDocument(t, h, "PUT", "/v1/semaphores/report/permits/"+got.ID, "", permit, 410)
	matchesDocument(t, h, "PUT", "/v1/semaphores/report", `{"limit":1}`, one, 200)
	if w := matchesDocument(t, h, "GET", "/v1/semaphores/report", "", one, 200); !strings.Contains(w.Body.String(), `"declared":{"limit":2,"lease_ms":15000}`) {
		t.Errorf("%s", w.Body)
	}
	matchesDocument(t, h, "PUT", "/v1/semaphores/own", `{"limit":1}`, one, 200)
	matchesDocument(t, h, "PUT", "/v1/semaphores/roomy", `{"limit":2}`, one, 200)
	w = matchesDocument(t, h, "POST", "/v1/semaphores/roomy/permits", `{"holder":"a","weight":2,"also":["own"]}`, permits, 422)
	if !strings.Contains(w.Body.String(), "must be at most the limit of own, got 2") {
		t.Errorf("%s", w.Body)
	}
	matchesDocument(t, h, "DELETE", "/v1/semaphores/own", "", one, 200)
	matchesDocument(t, h, "DELETE", "/v1/semaphores/own", "", one, 404)
	matchesDocument(t, h, "POST", "/v1/semaphores/own/permits", `{"holder":"a"}`, permits, 404)

	b.Drain() // requests that need not wait are served until the end
	matchesDocument(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"a","wait_ms":30000}`, permits, 201)
	matchesDocument(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"b","wait_ms":30000}`, permits, 503)
}

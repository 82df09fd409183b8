package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// withSemaphores gives an API the semaphores of the default rules, with the store of the embedded server.
func withSemaphores(t *testing.T) func(*Config) {
	t.Helper()
	db := databases.OpenSQLite(t)
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return func(cfg *Config) {
		semaphores, err := semregistry.New(rdb, semregistry.SQLite(db), semregistry.Options{Rules: cfg.Gate.Rules})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Semaphores, cfg.Secret = semaphores, []byte("secret")
	}
}

// TestSemaphoresMatchTheDocument: responses about semaphores are as documented, also with an in-memory Redis.
func TestSemaphoresMatchTheDocument(t *testing.T) {
	b := setup(t, withSemaphores(t))
	h := b.Internal()
	answers(t, h, "GET", "/v1/semaphores/report", "", 200)
	w := answers(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"a","weight":2}`, 201)
	var got struct {
		ID string `json:"permit_id"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.ID == "" {
		t.Fatalf("%s %v", w.Body, err)
	}
	answers(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"a"}`, 503)
	answers(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"a","wait_ms":1}`, 503)
	answers(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"a","weight":3}`, 422)
	answers(t, h, "GET", "/v1/semaphores/report", "", 200)
	answers(t, h, "GET", "/v1/semaphores", "", 200)
	answers(t, h, "PUT", "/v1/semaphores/report/permits/"+got.ID, "", 200)
	answers(t, h, "DELETE", "/v1/semaphores/report/permits/"+got.ID, "", 204)
	answers(t, h, "PUT", "/v1/semaphores/report/permits/"+got.ID, "", 410)
	answers(t, h, "PUT", "/v1/semaphores/report", `{"limit":1}`, 200)
	if w := answers(t, h, "GET", "/v1/semaphores/report", "", 200); !strings.Contains(w.Body.String(), `"declared":{"limit":2,"lease_ms":15000}`) {
		t.Errorf("%s", w.Body)
	}
	answers(t, h, "PUT", "/v1/semaphores/own", `{"limit":1}`, 200)
	answers(t, h, "PUT", "/v1/semaphores/roomy", `{"limit":2}`, 200)
	w = answers(t, h, "POST", "/v1/semaphores/roomy/permits", `{"holder":"a","weight":2,"also":["own"]}`, 422)
	if !strings.Contains(w.Body.String(), "must be at most the limit of own, got 2") {
		t.Errorf("%s", w.Body)
	}
	answers(t, h, "DELETE", "/v1/semaphores/own", "", 200)
	answers(t, h, "DELETE", "/v1/semaphores/own", "", 404)
	answers(t, h, "POST", "/v1/semaphores/own/permits", `{"holder":"a"}`, 404)

	b.Drain() // requests that need not wait are served until the end
	answers(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"a","wait_ms":30000}`, 201)
	answers(t, h, "POST", "/v1/semaphores/report/permits", `{"holder":"b","wait_ms":30000}`, 503)
}

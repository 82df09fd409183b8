package serve

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// changed returns an order id XORed with a mask in hex.
func changed(t *testing.T, id, mask string) string {
	t.Helper()
	bits, err := hex.DecodeString(mask)
	u, idErr := uuid.Parse(id)
	if err != nil || idErr != nil {
		t.Fatal(err, idErr)
	}
	for i := range bits {
		u[i] ^= bits[i]
	}
	return u.String()
}

// TestMadeUpOrderIDsAskNobody: made-up ids are refused without a query to Redis or Postgres, and so also while neither answers.
// One of 16,384 passes.
func TestMadeUpOrderIDsAskNobody(t *testing.T) {
	t.Parallel()
	redis, postgres := testenv.StartRedis(t), testenv.StartPostgres(t)
	env := environment(redis.URL(), postgres.URL())
	startWorker(t, env)
	s := openShop(t, startAPI(t, env), 10)
	id := s.bought("alice")
	s.confirmed(id, "alice")
	forged := []string{
		changed(t, id, "00000000000000000000000000000001"), // another order of that time
		changed(t, id, "00000000000000000040000000000000"), // of another item
		changed(t, id, "00000000000000ff0000000000000000"), // of an unknown item
		changed(t, id, "40000000000000000000000000000000"), // of a future time
		changed(t, id, "00000010000000000000000000000000"),
		"019f0000-0000-8000-8004-000000000001", // as ids were made in 2026
		"7fff0000-0000-8000-8004-000000000001", // and will have been in the year 6429
	}
	for i := range 50 {
		forged = append(forged, changed(t, id, fmt.Sprintf("%032x", i+2)))
	}
	redis.Stop()
	postgres.Stop()
	defer redis.Continue()
	defer postgres.Continue()

	if a := s.get(id, "alice"); a.Status != http.StatusServiceUnavailable {
		t.Errorf("an order that there is: %v", a)
	}
	lucky := 0
	for _, f := range forged {
		for _, a := range []servetest.Answer{
			s.get(f, "alice"), s.get(f+"?wait_ms=30000", "alice"),
			servetest.Once("POST", s.URL("public")+"/v1/orders/"+f+"/cancel", "", "X-User-ID", "alice"),
			servetest.Once("GET", s.URL("internal")+"/v1/orders/"+f, ""),
			servetest.Once("POST", s.URL("internal")+"/v1/orders/"+f+"/payment", `{"reference":"r","outcome":"captured"}`),
		} {
			if a.Status == http.StatusServiceUnavailable {
				lucky++
			} else if a.Status != http.StatusNotFound || !strings.Contains(string(a.Body), "unknown_order") {
				t.Errorf("%s: %v", f, a)
			}
		}
	}
	if lucky > 2*5 {
		t.Errorf("%d calls asked somebody", lucky)
	}
}

package serve

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
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

// TestOrdersOfBeforeAreFound: orders placed before ids had a MAC are found, and made-up ids like them are not.
func TestOrdersOfBeforeAreFound(t *testing.T) {
	t.Parallel()
	database := databases.Postgres(t)
	env := environment(testenv.Redis(t), database)
	startWorker(t, env)
	api := startAPI(t, env)
	s := openShop(t, api, 10)
	id := s.bought("alice")
	s.confirmed(id, "alice")
	const plain = "019f0000-0000-8000-8004-000000000001" // of June 2026
	db, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	if _, err := db.Exec(t.Context(), `UPDATE orders SET order_id = $2 WHERE order_id = $1`, id, plain); err != nil {
		t.Fatal(err)
	}
	if a := s.get(plain, "alice"); a.Status != http.StatusNotFound {
		t.Errorf("where there is no such order: %v", a)
	}
	if err := api.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `UPDATE order_id_key SET plain_until = '2026-09-01'`); err != nil { // as the migration does if there are sales
		t.Fatal(err)
	}
	s.Program = startAPI(t, env)
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", s.URL("internal")+"/readyz", "") })
	if a := s.get(plain, "alice"); a.Status != http.StatusOK {
		t.Errorf("an order of before: %v", a)
	}
	if a := s.get("01b00000-0000-8000-8004-000000000001", "alice"); a.Status != http.StatusNotFound { // of a later time
		t.Errorf("made up: %v", a)
	}
	if a := s.place("bob"); a.Status != http.StatusAccepted || !strings.Contains(string(a.Body), `"order_id":"`) {
		t.Errorf("%v", a)
	}
}

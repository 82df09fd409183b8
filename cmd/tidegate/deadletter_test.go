package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// TestADeadLetterIsReplayed has the database refuse a buyer for a while.
func TestADeadLetterIsReplayed(t *testing.T) {
	t.Parallel()
	in := install(t)
	public, internal := in.apis[0].URL("public"), in.apis[1].URL("internal")
	env := func(name string) string {
		return map[string]string{"TIDEGATE_TOKEN": token, "TIDEGATE_INTERNAL_URL": internal}[name]
	}
	db, err := pgx.Connect(t.Context(), in.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	servetest.OpenSale(t, internal, "flash", servetest.Sale("shoe", 10), "X-Tidegate-Token", token)
	exec(`ALTER TABLE orders ADD CONSTRAINT no_ada CHECK (buyer <> 'ada')`)

	ids := map[string]string{}
	for _, user := range []string{"ada", "bob"} {
		var placed struct {
			OrderID string `json:"order_id"`
		}
		servetest.Until(t, http.StatusAccepted, func() servetest.Answer {
			return servetest.Call("POST", public+"/v1/sales/flash/orders", `{"item":"shoe"}`, "X-User-ID", user)
		}).Into(t, &placed)
		ids[user] = placed.OrderID
	}
	sees := func(user, status string) {
		t.Helper()
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			a := servetest.Call("GET", public+"/v1/orders/"+ids[user], "", "X-User-ID", user)
			if !strings.Contains(string(a.Body), `"status":"`+status+`"`) {
				a.Status = 0
			}
			return a
		})
	}
	// says runs the program, whose output or error must contain the wanted text.
	says := func(ok bool, want string, args ...string) {
		t.Helper()
		out, err := call(t, env, args...)
		if err != nil {
			out = err.Error()
		}
		if (err == nil) != ok || !strings.Contains(out, want) {
			t.Errorf("%v: %v\n%s, want %s", args, err, out, want)
		}
	}
	sees("bob", "confirmed")
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		a := servetest.Call("GET", internal+"/v1/orders/dead", "", "X-Tidegate-Token", token)
		if !strings.Contains(string(a.Body), ids["ada"]) || !strings.Contains(string(a.Body), "no_ada") {
			a.Status = 0
		}
		return a
	})
	sees("ada", "accepted")
	says(true, "no_ada", "orders", "dead")
	says(true, "1 dead letters", "verify", "flash")
	says(false, "no_ada", "orders", "replay", ids["ada"])
	sees("ada", "accepted")
	says(true, "I6     ok", "verify", "flash")

	exec(`ALTER TABLE orders DROP CONSTRAINT no_ada`)
	says(true, "status        confirmed", "orders", "replay", ids["ada"])
	sees("ada", "confirmed")
	says(true, "status        confirmed", "orders", "show", ids["ada"])
	says(true, "none", "orders", "dead")
	says(true, "status        confirmed", "orders", "replay", ids["ada"])
	says(false, "404", "orders", "replay", "01890a5d-ac96-774b-bcce-b302099a8057")
	says(true, "2 sold of 10", "verify", "flash")
	says(true, "/replay  still_refused", "audit") // with a reference: a refusal does not name the buyer

	exec(`DELETE FROM order_units WHERE order_id = '` + ids["bob"] + `'`)
	says(false, "an invariant is broken", "verify", "flash")
}

package serve

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestTwoAPIsShareEveryLimit: two API processes with one Redis share limits, answers, refunds and bans.
func TestTwoAPIsShareEveryLimit(t *testing.T) {
	t.Parallel()
	env := environment(testenv.Redis(t), databases.Postgres(t))
	apis := []*servetest.Program{startAPI(t, env), startAPI(t, env)}
	for _, api := range apis {
		servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", api.URL("internal")+"/readyz", "") })
	}
	type decision struct {
		Admitted bool
		Action   string
	}
	ask := func(api int, ip, more string) (d decision) {
		t.Helper()
		body := fmt.Sprintf(`{"subject":{"ip":%q},"attributes":{"route":"/v1/sales/x/orders","method":"POST"}%s}`, ip, more)
		a := servetest.Call("POST", apis[api].URL("internal")+"/v1/admit", body)
		if a.Status != http.StatusOK {
			t.Fatal(a)
		}
		a.Into(t, &d)
		return d
	}

	admitted := 0
	for i := range 30 {
		if ask(i%2, "192.0.2.1", fmt.Sprintf(`,"request_id":"r%d"`, i/2*2)).Admitted { // each id at both
			admitted++
		}
	}
	if admitted != 20 { // ten ids, each admitted twice and charged once
		t.Errorf("%d answers admit, want those of 10 ids from both processes", admitted)
	}
	if ask(0, "192.0.2.1", "").Admitted || ask(1, "192.0.2.1", "").Admitted {
		t.Error("an eleventh is in")
	}
	ask(1, "192.0.2.1", `,"mode":"refund","request_id":"r0"`)
	servetest.Until(t, http.StatusOK, func() servetest.Answer { // the other process learns of it
		if ask(0, "192.0.2.1", `,"mode":"check"`).Admitted {
			return servetest.Answer{Status: http.StatusOK}
		}
		return servetest.Answer{}
	})

	ban := apis[0].URL("internal") + "/v1/bans/ip/192.0.2.9"
	if a := servetest.Call("PUT", ban, `{"for_ms":60000,"reason":"test"}`); a.Status != http.StatusOK && a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	banned := func(want bool) {
		t.Helper()
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			if (ask(1, "192.0.2.9", `,"mode":"check"`).Action == "ban") == want {
				return servetest.Answer{Status: http.StatusOK}
			}
			return servetest.Answer{}
		})
	}
	banned(true)
	if a := servetest.Call("DELETE", ban, ""); a.Status != http.StatusNoContent {
		t.Fatal(a)
	}
	banned(false)
}

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
		Admitted, Degraded bool
		Action             string
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

	// While Redis answers too late, as on a busy machine, each process counts alone and admits more: then another address is tried.
	ip, admitted, degraded := "", 0, true
	for try := 1; degraded && try < 10; try++ {
		ip, admitted, degraded = fmt.Sprint("192.0.2.", try), 0, false
		for i := range 30 {
			d := ask(i%2, ip, fmt.Sprintf(`,"request_id":"r%d"`, i/2*2)) // each id at both
			if degraded = degraded || d.Degraded; d.Admitted {
				admitted++
			}
		}
	}
	if admitted != 20 || degraded { // ten ids, each admitted twice and charged once
		t.Errorf("%d answers admit, want those of 10 ids from both processes; degraded: %t", admitted, degraded)
	}
	if ask(0, ip, "").Admitted || ask(1, ip, "").Admitted {
		t.Error("an eleventh is in")
	}
	ask(1, ip, `,"mode":"refund","request_id":"r0"`)
	servetest.Until(t, http.StatusOK, func() servetest.Answer { // the other process learns of it
		if ask(0, ip, `,"mode":"check"`).Admitted {
			return servetest.Answer{Status: http.StatusOK}
		}
		return servetest.Answer{}
	})

	ban := apis[0].URL("internal") + "/v1/bans/ip/192.0.2.99"
	if a := servetest.Call("PUT", ban, `{"for_ms":60000,"reason":"test"}`); a.Status != http.StatusOK && a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	banned := func(want bool) {
		t.Helper()
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			if (ask(1, "192.0.2.99", `,"mode":"check"`).Action == "ban") == want {
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

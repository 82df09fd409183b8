package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve/servetest"
)

const shownOrder = `{"order_id":"01","status":"rejected","reason":"duplicate","sale":"flash","item":"shoe","quantity":2,"units":[7,8],` +
	`"accepted_at":"2026-11-21T11:00:00.1Z","confirmed_at":null,"pay_before":"2026-11-21T11:15:00Z"}`

func TestOrders(t *testing.T) {
	env, _ := internalFake(t, map[string]string{
		"GET /v1/orders/01":              shownOrder,
		"POST /v1/orders/dead/01/replay": shownOrder,
		"POST /v1/orders/dead/02/replay": `{"title":"The change contradicts the present state","detail":"the database still refuses order 02"}`,
	})
	for _, verb := range []string{"show", "replay"} {
		out, err := call(t, env, "orders", verb, "01")
		want := `order id     01
status       rejected
reason       duplicate
sale         flash
item         shoe
quantity     2
units        7, 8
accepted at  2026-11-21T11:00:00.1Z
pay before   2026-11-21T11:15:00Z
`
		if err != nil || out != want {
			t.Errorf("%s: %v\n%s", verb, err, out)
		}
		if out, err := call(t, env, "orders", verb, "01", "--json"); err != nil || out != shownOrder+"\n" {
			t.Errorf("%s: %v\n%s", verb, err, out)
		}
		if _, err := call(t, env, "orders", verb, "none"); err == nil || !strings.Contains(err.Error(), "404 There is no such order") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if _, err := call(t, env, "orders", "replay", "02"); err == nil || !strings.Contains(err.Error(), "still refuses order 02") {
		t.Errorf("%v", err)
	}
}

func TestOrdersOfASale(t *testing.T) {
	const list = `{"items":[{"order_id":"01","status":"paid","item":"shoe","user":"ann","quantity":2,"units":[7,8],"accepted_at":"2026-11-21T11:00:00Z"}],"next_cursor":null}`
	env, _ := internalFake(t, map[string]string{
		"GET /v1/sales/flash/orders?limit=100":                       list,
		"GET /v1/sales/flash/orders?limit=5&status=paid&user=a+n%26": list,
	})
	want := `ORDER ID  STATUS  ITEM  USER  QUANTITY  UNITS  ACCEPTED AT
01        paid    shoe  ann   2         7, 8   2026-11-21T11:00:00Z
`
	if out, err := call(t, env, "orders", "list", "flash"); err != nil || out != want {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := call(t, env, "orders", "list", "flash", "--user", "a n&", "--status", "paid", "--limit", "5"); err != nil || out != want {
		t.Errorf("%v\n%s", err, out)
	}
}

// The payments of a sale that are to be refunded are listed until there are no more events: those of one order, of one user, or all.
func TestOrdersToBeRefunded(t *testing.T) {
	err := withEmbedded(t.Context(), t.TempDir(), nil, io.Discard, func(_ context.Context, place embedded.Place) error {
		env := at(place.Internal)
		for _, sale := range []string{"spring", "autumn", "quiet"} {
			for _, args := range [][]string{{"create", sale, "--item", "shoe=10", "--lasts", "1h"}, {"open", sale}} {
				if _, err := call(t, env, append([]string{"sales"}, args...)...); err != nil {
					t.Fatal(err)
				}
			}
		}
		order := func(sale, user string) string {
			t.Helper()
			var o struct {
				ID string `json:"order_id"`
			}
			servetest.Until(t, http.StatusAccepted, func() servetest.Answer {
				return servetest.Call("POST", place.Public+"/v1/sales/"+sale+"/orders", `{"item":"shoe"}`, "X-User-ID", user)
			}).Into(t, &o)
			return o.ID
		}
		pay := func(id, reference string) {
			t.Helper()
			servetest.Until(t, http.StatusOK, func() servetest.Answer {
				return servetest.Call("POST", place.Internal+"/v1/orders/"+id+"/payment", `{"outcome":"captured","reference":"`+reference+`"}`)
			})
		}
		cancelled, twice, other := order("spring", "ann"), order("spring", "bob"), order("autumn", "ann")
		for _, id := range []string{cancelled, other} {
			if _, err := call(t, env, "orders", "cancel", id, "--yes"); err != nil {
				t.Fatal(err)
			}
		}
		pay(cancelled, "late")
		pay(twice, "first")
		pay(twice, "second")
		pay(other, "elsewhere")
		lists := func(want [][]string, args ...string) {
			t.Helper()
			out, err := call(t, env, append([]string{"orders", "list", "--refunds"}, args...)...)
			var got [][]string
			for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
				words := strings.Fields(line)
				got = append(got, []string{words[0], words[1], words[3], words[5]})
			}
			if err != nil || !cmp.Equal(got, want) || len(want) == 0 && out != "none\n" {
				t.Errorf("%q: %v\n%s", args, err, out)
			}
		}
		ann, bob := []string{cancelled, "cancelled", "ann", "late"}, []string{twice, "paid", "bob", "second"}
		lists([][]string{ann, bob}, "spring")
		lists([][]string{bob}, "spring", "--user", "bob")
		lists([][]string{ann}, "spring", "--status", "cancelled")
		lists([][]string{ann}, "spring", "--limit", "1")
		lists(nil, "quiet")
		if out, err := call(t, env, "orders", "list", "autumn", "--refunds", "--json"); err != nil || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"reference":"elsewhere"`) {
			t.Errorf("%v\n%s", err, out)
		}
		if _, err := call(t, env, "orders", "list", "summer", "--refunds"); err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), "; existing: autumn, demo, quiet, spring") {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A feed longer than one answer is read to its end.
func TestRefundsOfALongFeed(t *testing.T) {
	other, due := `{"sale":"flash","action":"none"}`, `{"order_id":"01","sale":"flash","status":"expired","action":"refund","reference":"pay-1"}`
	part := strings.Repeat(other+",", 999) + other
	env, asked := internalFake(t, map[string]string{
		"GET /v1/order-events?after=0&limit=1000":    `{"items":[` + part + `],"next_cursor":"5000"}`,
		"GET /v1/order-events?after=5000&limit=1000": `{"items":[` + due + `],"next_cursor":"5001"}`,
	})
	if out, err := call(t, env, "orders", "list", "flash", "--refunds"); err != nil || !strings.Contains(out, "pay-1") || len(*asked) != 2 {
		t.Errorf("%v: asked %q\n%s", err, *asked, out)
	}
}

// What is cancelled cannot be taken back, so it is asked for; whether it may be is the server's matter.
func TestCancelAnOrder(t *testing.T) {
	env, asked := internalFake(t, map[string]string{
		"GET /v1/orders/01":         `{"order_id":"01","status":"confirmed","sale":"flash","item":"shoe","user":"ann","quantity":2}`,
		"POST /v1/orders/01/cancel": strings.Replace(shownOrder, "rejected", "cancelled", 1),
		"GET /v1/orders/02":         `{"order_id":"02","status":"paid"}`,
		"POST /v1/orders/02/cancel": `{"title":"The order cannot be cancelled any more","detail":"order 02 is paid"}`,
	})
	if _, err := call(t, env, "orders", "cancel", "01"); err == nil || !strings.Contains(err.Error(), "Cancel the order of ann for 2 shoe in flash, which is confirmed?") {
		t.Errorf("%v", err)
	}
	if len(*asked) != 1 {
		t.Errorf("asked %q", *asked)
	}
	if out, err := call(t, env, "orders", "cancel", "01", "--yes"); err != nil || !strings.Contains(out, "status       cancelled\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := call(t, env, "orders", "cancel", "02"); err == nil || !strings.Contains(err.Error(), "order 02 is paid") {
		t.Errorf("%v", err)
	}
	if _, err := call(t, env, "orders", "cancel", "03"); err == nil || !strings.Contains(err.Error(), "404 There is no such order") {
		t.Errorf("%v", err)
	}
}

func TestDeadOrders(t *testing.T) {
	letter := func(id int) string {
		return fmt.Sprintf(`{"order_id":"%02d","sale":"flash","item":"shoe","refused_at":"2026-11-21T11:00:00Z","reason":"violates no_ada"}`, id)
	}
	env, asked := internalFake(t, map[string]string{
		"GET /v1/orders/dead?limit=1000":            `{"items":[` + letter(1) + `,` + letter(2) + `],"next_cursor":"a-_"}`,
		"GET /v1/orders/dead?cursor=a-_&limit=1000": `{"items":[` + letter(3) + `],"next_cursor":null}`,
	})
	out, err := call(t, env, "orders", "dead")
	want := `ORDER ID  REFUSED AT            SALE   ITEM  REASON
01        2026-11-21T11:00:00Z  flash  shoe  violates no_ada
`
	if err != nil || !strings.HasPrefix(out, want) || strings.Count(out, "\n") != 4 || len(*asked) != 2 {
		t.Errorf("%v: %s after %v", err, out, *asked)
	}
	if out, err := call(t, env, "orders", "dead", "--json"); err != nil || out != letter(1)+"\n"+letter(2)+"\n"+letter(3)+"\n" {
		t.Errorf("%v: %s", err, out)
	}
	none, _ := internalFake(t, map[string]string{"GET /v1/orders/dead?limit=1000": `{"items":[],"next_cursor":null}`})
	if out, err := call(t, none, "orders", "dead"); err != nil || out != "none\n" {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := call(t, none, "orders", "dead", "--json"); err != nil || out != "" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestVerifySaysWhatToDo(t *testing.T) {
	env, _ := internalFake(t, map[string]string{
		"GET /v1/sales/flash/verify": `{"ok":false,"checks":[{"invariant":"I3","ok":true,"detail":"fine"},{"invariant":"I14","ok":false,"detail":"late","advice":"start a worker"}]}`,
		"GET /v1/sales/quiet/verify": `{"ok":true,"checks":[{"invariant":"I3","ok":true,"detail":"fine"}]}`,
	})
	out, err := call(t, env, "verify", "flash")
	if err == nil || out != "I3   ok      fine\nI14  BREACH  late\n     do:     start a worker\n" {
		t.Errorf("%v: %q", err, out)
	}
	if out, err := call(t, env, "verify", "quiet"); err != nil || out != "I3   ok      fine\n" {
		t.Errorf("%v: %q", err, out)
	}
	if out, err := call(t, env, "verify", "flash", "--json"); err == nil || !strings.HasPrefix(out, `{"ok":false,"checks":[`) {
		t.Errorf("%v: %q", err, out)
	}
}

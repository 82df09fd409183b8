package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidegate/tidegate/internal/httpapi/sales"
)

// The operator's list of two sales, and the buyers' view of one, which has fewer fields.
const (
	operatorsView = `{"sale":"flash","state":"open","switch":"open","now":"2030-01-01T12:30:00Z","starts_at":"2030-01-01T12:00:00Z","ends_at":"2030-01-01T13:00:00Z",` +
		`"requires_user":false,"hold_ms":90000,"revision":7,"items":[{"item":"shoe","stock":100,"free":40,"quota_per_buyer":3,"in_flight_max":7},` +
		`{"item":"hat","stock":5,"free":5,"quota_per_buyer":1,"in_flight_max":10000}]}`
	twoSales   = `{"items":[{"sale":"flush","items":[{"item":"shoe","stock":1}]},` + operatorsView + `],"next_cursor":null}`
	buyersView = `{"sale":"flash","state":"open","items":[{"item":"shoe","stock":100,"free":40}]}`
)

func TestSalesShow(t *testing.T) {
	env, asked := internalFake(t, map[string]string{"GET /v1/sales?limit=1000": twoSales, "GET /v1/sales/flash": buyersView})
	out, err := call(t, env, "sales", "show", "flash")
	want := `sale           flash
state          open
switch         open
starts at      2030-01-01T12:00:00Z
ends at        2030-01-01T13:00:00Z
requires user  false
hold           1m30s
items          item=shoe free=40 in_flight_max=7 quota_per_buyer=3 stock=100
               item=hat free=5 in_flight_max=10000 quota_per_buyer=1 stock=5
`
	if err != nil || out != want {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := call(t, env, "sales", "show", "flash", "--json"); err != nil || out != operatorsView+"\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if slices.Contains(*asked, "GET /v1/sales/flash") {
		t.Error("it has looked at what buyers see")
	}
}

// The state and the switch of a draft are those of the API, in a list, by itself and when it is made.
func TestDrafts(t *testing.T) {
	const draft = `{"sale":"next","state":"scheduled","switch":"draft","items":[{"item":"shoe","stock":1}]}`
	env, _ := internalFake(t, map[string]string{
		"GET /v1/sales?limit=1000": `{"items":[` + draft + `],"next_cursor":null}`, "PUT /v1/sales/next": draft, "POST /v1/sales/next/pause": draft,
	})
	for _, args := range [][]string{
		{"sales", "list"},
		{"sales", "show", "next"},
		{"sales", "create", "next", "--item", "shoe=1", "--lasts", "1h", "--yes"},
		{"sales", "stock", "next", "shoe=+1"},
		{"sales", "pause", "next"},
	} {
		if out, err := call(t, env, args...); err != nil || !strings.Contains(out, "draft") || !strings.Contains(out, "scheduled") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	if out, err := call(t, env, "sales", "show", "next", "--json"); err != nil || out != draft+"\n" {
		t.Errorf("--json: %v\n%s", err, out)
	}
}

func TestSalesList(t *testing.T) {
	env, _ := internalFake(t, map[string]string{"GET /v1/sales?limit=1000": `{"items":[` + operatorsView + `,{"sale":"next","state":"scheduled","switch":"draft"}],"next_cursor":null}`})
	out, err := call(t, env, "sales", "list")
	want := `SALE   STATE      SWITCH  STARTS AT             ENDS AT               ITEMS, FREE/STOCK
flash  open       open    2030-01-01T12:00:00Z  2030-01-01T13:00:00Z  shoe 40/100, hat 5/5
next   scheduled  draft   -                     -                     -
`
	if err != nil || out != want {
		t.Errorf("%v\n%s", err, out)
	}
}

// Text output shortens a list of a thousand items; JSON output does not.
func TestLongListsAreCut(t *testing.T) {
	items := strings.TrimSuffix(strings.Repeat(`{"item":"i","stock":1,"free":1},`, 1000), ",")
	sale := `{"sale":"s","switch":"open","state":"open","items":[` + items + `]}`
	env, _ := internalFake(t, map[string]string{"GET /v1/sales?limit=1000": `{"items":[` + sale + `],"next_cursor":null}`, "POST /v1/sales/s/open": sale})
	for args, want := range map[string]string{
		"sales list":   "open    -          -        " + strings.Repeat("i 1/1, ", 10) + "and 990 more\n",
		"sales open s": strings.Repeat("        item=i free=1 stock=1\n", 9) + "        and 990 more\n",
	} {
		if out, err := call(t, env, strings.Fields(args)...); err != nil || !strings.HasSuffix(out, want) {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
		if out, err := call(t, env, append(strings.Fields(args), "--json")...); err != nil || out != sale+"\n" {
			t.Errorf("%s: %v, %d characters", args, err, len(out))
		}
	}
}

// Two columns with the same name would be ambiguous.
func TestSemaphoresShow(t *testing.T) {
	env, _ := internalFake(t, map[string]string{"GET /v1/semaphores/r": `{"name":"r","totals":{"acquired":5,"waited":3,"waited_ms":1500}}`})
	if out, err := call(t, env, "semaphores", "show", "r"); err != nil || !strings.HasSuffix(out, "totals  acquired=5 waited=3 waited_for=1.5s\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// PUT sets missing fields to their defaults, so adding stock sends the complete sale.
func TestMoreStockLeavesTheRest(t *testing.T) {
	env, asked := internalFake(t, map[string]string{
		"GET /v1/sales?limit=1000": twoSales, "GET /v1/sales/flash": buyersView, "PUT /v1/sales/flash": operatorsView,
	})
	if out, err := call(t, env, "sales", "stock", "flash", "shoe=+20"); err != nil || !strings.Contains(out, "flash") {
		t.Fatalf("%v\n%s", err, out)
	}
	want := `PUT /v1/sales/flash {"starts_at":"2030-01-01T12:00:00Z","ends_at":"2030-01-01T13:00:00Z","requires_user":false,"hold_ms":90000,` +
		`"items":[{"item":"shoe","stock":120,"quota_per_buyer":3,"in_flight_max":7},{"item":"hat","stock":5,"quota_per_buyer":1,"in_flight_max":10000}],"revision":7}`
	if len(*asked) != 2 || (*asked)[1] != want {
		t.Errorf("%q", *asked)
	}
	if _, err := call(t, env, "sales", "stock", "flash", "sock=+20"); err == nil || !strings.Contains(err.Error(), `no item "sock"; existing: shoe, hat`) || len(*asked) != 3 {
		t.Errorf("%v after %q", err, *asked)
	}
}

// Concurrent additions of stock are not lost: the server only accepts changes based on the current revision.
func TestMoreStockOfManyAtOnce(t *testing.T) {
	var (
		mu              sync.Mutex
		stock, revision = 500, 1 // guarded by mu
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPut {
			var put sales.SaleDefinition
			if err := json.NewDecoder(r.Body).Decode(&put); err != nil || put.Revision != int64(revision) {
				w.WriteHeader(http.StatusConflict)
				return
			}
			stock, revision = put.Items[0].Stock, revision+1
		}
		now := fmt.Sprintf(`{"sale":"s","revision":%d,"items":[{"item":"ticket","stock":%d}]}`, revision, stock)
		if revision == 1 { // before both of them have looked
			revision, stock = 2, stock+1
		}
		if r.Method == http.MethodGet {
			now = `{"items":[` + now + `]}`
		}
		_, _ = io.WriteString(w, now)
	}))
	defer server.Close()
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := call(t, at(server.URL), "sales", "stock", "s", "ticket=+100"); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if stock != 701 || revision != 4 {
		t.Errorf("%d units in revision %d", stock, revision)
	}
}

func TestSalesCreate(t *testing.T) {
	for args, want := range map[string]string{
		"--item a=5 --item b=2:3 --starts 2030-01-01T12:00:00+01:00 --lasts 1h": `{"starts_at":"2030-01-01T11:00:00Z","ends_at":"2030-01-01T12:00:00Z",` +
			`"requires_user":true,"hold_ms":900000,"items":[{"item":"a","stock":5},{"item":"b","stock":2,"quota_per_buyer":3}]}`,
		"--item a=0 --starts 2030-01-01T12:00:00Z --ends 2030-01-02T12:00:00Z --hold 0 --anonymous": `{"starts_at":"2030-01-01T12:00:00Z","ends_at":"2030-01-02T12:00:00Z",` +
			`"requires_user":false,"hold_ms":0,"items":[{"item":"a","stock":0}]}`,
	} {
		env, asked := internalFake(t, map[string]string{"PUT /v1/sales/s": operatorsView})
		_, err := call(t, env, append([]string{"sales", "create", "s"}, strings.Fields(args)...)...)
		if err != nil || len(*asked) != 2 || (*asked)[1] != "PUT /v1/sales/s "+want { // the first asked whether there is one
			t.Errorf("%s: %v, %q", args, err, *asked)
		}
	}
}

func TestASaleIsNotDefinedAnewByMistake(t *testing.T) {
	env, asked := internalFake(t, map[string]string{"GET /v1/sales/flash": buyersView, "PUT /v1/sales/flash": operatorsView})
	args := strings.Fields("sales create flash --item shoe=200 --lasts 1h")
	if _, err := call(t, env, args...); err == nil || !strings.Contains(err.Error(), "Sale flash exists") || len(*asked) != 1 {
		t.Errorf("%v after %q", err, *asked)
	}
	if _, err := call(t, env, append(args, "--yes")...); err != nil || len(*asked) != 2 || !strings.HasPrefix((*asked)[1], "PUT ") {
		t.Errorf("%v after %q", err, *asked)
	}
	if _, err := call(t, answering(t, 503, ""), args...); err == nil || !strings.Contains(err.Error(), "GET ") {
		t.Errorf("it does not know whether there is one: %v", err)
	}
}

// A resized semaphore keeps its lease, which PUT would reset.
func TestResizingKeepsTheLease(t *testing.T) {
	env, asked := internalFake(t, map[string]string{
		"GET /v1/semaphores/slow": `{"name":"slow","limit":2,"lease_ms":120000}`, "PUT /v1/semaphores/slow": `{"name":"slow"}`, "PUT /v1/semaphores/new": `{"name":"new"}`,
	})
	for name, want := range map[string]string{"slow": `PUT /v1/semaphores/slow {"limit":5,"lease_ms":120000}`, "new": `PUT /v1/semaphores/new {"limit":5}`} {
		*asked = nil
		if _, err := call(t, env, "semaphores", "set", name, "--limit", "5"); err != nil || len(*asked) != 2 || (*asked)[1] != want {
			t.Errorf("%v, %q", err, *asked)
		}
	}
	if _, err := call(t, answering(t, 503, ""), "semaphores", "set", "slow", "--limit", "5"); err == nil || !strings.Contains(err.Error(), "GET ") {
		t.Errorf("the lease is not known: %v", err)
	}
}

// Every verb makes one call, and an irreversible one requires --yes.
func TestVerbs(t *testing.T) {
	env, asked := internalFake(t, map[string]string{
		"POST /v1/sales/s/open": operatorsView, "POST /v1/sales/s/pause": operatorsView, "POST /v1/sales/s/close": operatorsView,
		"PUT /v1/bans/network/192.0.2.0%2F24": `{"kind":"network"}`, "DELETE /v1/bans/network/192.0.2.0%2F24": "",
		"PUT /v1/bans/user/%2E%2E": `{"kind":"user"}`, "DELETE /v1/semaphores/r/permits/%2E%2E": "",
		"PUT /v1/semaphores/r": `{"name":"r"}`, "DELETE /v1/semaphores/r": `{"name":"r"}`, "DELETE /v1/semaphores/r/permits/p": "",
		"DELETE /v1/login/subjects?factor=otp&ip=192.0.2.1&name=ann": "", "POST /v1/rules/reload": `{"version":"v"}`,
	})
	for _, step := range [][2]string{
		{"sales open s", "POST /v1/sales/s/open"},
		{"sales pause s", "POST /v1/sales/s/pause"},
		{"sales close s --yes", "POST /v1/sales/s/close"},
		{"bans add network 192.0.2.0/24 --for 2h --reason x", `PUT /v1/bans/network/192.0.2.0%2F24 {"for_ms":7200000,"reason":"x"}`},
		{"bans lift network 192.0.2.0/24", "DELETE /v1/bans/network/192.0.2.0%2F24"},
		{"bans add user ..", `PUT /v1/bans/user/%2E%2E {"for_ms":3600000}`},
		{"semaphores release r .. -y", "DELETE /v1/semaphores/r/permits/%2E%2E"}, // and not the semaphore itself
		{"semaphores set r --limit 0 --lease 1m", `PUT /v1/semaphores/r {"limit":0,"lease_ms":60000}`},
		{"semaphores revert r", "DELETE /v1/semaphores/r"},
		{"semaphores release r p -y", "DELETE /v1/semaphores/r/permits/p"},
		{"logins lift --name ann --ip 192.0.2.1 --factor otp", "DELETE /v1/login/subjects?factor=otp&ip=192.0.2.1&name=ann"},
		{"rules reload", "POST /v1/rules/reload"},
	} {
		*asked = nil
		out, err := call(t, env, strings.Fields(step[0])...)
		if err != nil || out == "" || len(*asked) != 1 || (*asked)[0] != step[1] {
			t.Errorf("%s: %v %q, asked %q", step[0], err, out, *asked)
		}
	}
	for _, args := range []string{"sales close s", "semaphores release r p"} {
		*asked = nil
		if _, err := call(t, env, strings.Fields(args)...); err == nil || len(*asked) != 0 {
			t.Errorf("%s without anybody to ask: %v, asked %q", args, err, *asked)
		}
	}
}

// The newest come first, and only as many as are wanted.
func TestHistoriesAreLimited(t *testing.T) {
	env, asked := internalFake(t, map[string]string{
		"GET /v1/audit?limit=100":                               `{"items":[{"actor":"ann"}],"next_cursor":null}`,
		"GET /v1/audit?limit=2":                                 `{"items":[{"actor":"ann"},{"actor":"bob"}],"next_cursor":"x"}`,
		"GET /v1/audit?limit=1000":                              `{"items":[{"actor":"ann"},{"actor":"bob"}],"next_cursor":"x"}`,
		"GET /v1/audit?cursor=x&limit=1000":                     `{"items":[{"actor":"carl"}],"next_cursor":null}`,
		"GET /v1/login/history?limit=2&reference=I7S3":          `{"items":[{"rule":"a"}],"next_cursor":"y"}`,
		"GET /v1/login/history?cursor=y&limit=2&reference=I7S3": `{"items":[{"rule":"b"}],"next_cursor":null}`,
	})
	for args, want := range map[string]int{"audit": 1, "audit --limit 2": 2, "audit --limit 0": 3, "logins history --reference I7S3 --limit 2": 2} {
		*asked = nil
		out, err := call(t, env, append(strings.Fields(args), "--json")...)
		lines := strings.Fields(out)
		if err != nil || len(lines) != want || !json.Valid([]byte(lines[0])) {
			t.Errorf("%s: %v %q after %q", args, err, out, *asked)
		}
	}
}

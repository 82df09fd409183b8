package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/serve"
	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// deadPage is a page of dead letters, each given as id, sale and reason.
func deadPage(letters ...[3]string) string {
	var items []string
	for _, l := range letters {
		items = append(items, fmt.Sprintf(`{"order_id":%q,"sale":%q,"reason":%q}`, l[0], l[1], l[2]))
	}
	return `{"items":[` + strings.Join(items, ",") + `],"next_cursor":null}`
}

func TestReplayAll(t *testing.T) {
	const (
		confirmed = `{"status":"confirmed"}`
		rejected  = `{"status":"rejected"}`
		refused   = `{"title":"The database still refuses the order","reason":"still_refused","detail":"violates a"}`
		taken     = `{"title":"The change contradicts the present state","reason":"conflict","detail":"units [1] are another order's"}`
	)
	answers := map[string]string{
		"GET /v1/sales?limit=1000":       twoSales,
		"GET /v1/orders/dead?limit=1000": deadPage([3]string{"01", "flash", "a"}, [3]string{"02", "flash", "b"}, [3]string{"03", "other", "a"}, [3]string{"04", "flash", "b"}, [3]string{"05", "flash", "b"}),
		"POST /v1/orders/dead/01/replay": refused,
		"POST /v1/orders/dead/02/replay": taken,
		"POST /v1/orders/dead/03/replay": confirmed,
		"POST /v1/orders/dead/04/replay": confirmed,
		"POST /v1/orders/dead/05/replay": rejected,
	}
	env, asked := internalFake(t, answers)
	for _, c := range []struct {
		args, out, progress, err string
		calls                    int // of replay
	}{
		{
			"--all", "5 dead letters: 1 committed, 1 rejected, 2 refused again, 1 not tried\n",
			"violates a\n1 more dead letters with the same reason are not tried: a\n", "the database still refuses orders: remove the cause, and repeat the command", 4,
		},
		{"--all --sale other", "1 dead letters: 1 committed, 0 rejected, 0 refused again, 0 not tried\n", "", "", 1},
		{"--all --sale flush", "0 dead letters: 0 committed, 0 rejected, 0 refused again, 0 not tried\n", "", "", 0},
		{"--all --sale other --json", `{"dead_letters":1,"committed":1,"rejected":0,"refused":0,"not_tried":0}` + "\n", "", "", 1},
		{"--all --sale none", "", "", `sale "none" does not exist; existing: flush, flash`, 0},
		{"--all 01", "", "", `--all replays all dead letters: leave out --all or "01"`, 0},
		{"--sale flash", "", "", "--sale requires --all", 0},
		{"01 --sale flash", "", "", "--sale requires --all", 0},
		{"", "", "", "ID is required; usage: tidegate orders replay ID", 0},
	} {
		*asked = nil
		var stdout, stderr output
		err := run(t.Context(), append([]string{"orders", "replay"}, strings.Fields(c.args)...), env, &stdout, &stderr)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if stdout.String() != c.out || !strings.Contains(stderr.String(), c.progress) || text != c.err || strings.Count(strings.Join(*asked, " "), "/replay") != c.calls {
			t.Errorf("%s: %v, asked %q\n%s\n%s", c.args, err, *asked, &stdout, &stderr)
		}
	}
	delete(answers, "POST /v1/orders/dead/03/replay") // 404
	var stdout, stderr output
	if err := run(t.Context(), []string{"orders", "replay", "--all", "--sale", "other"}, env, &stdout, &stderr); err == nil ||
		!strings.Contains(err.Error(), "repeat the command to continue") || !strings.Contains(stdout.String(), "0 committed, 0 rejected, 0 refused again, 1 not tried") {
		t.Errorf("%v %s", err, &stdout)
	}
}

// TestReplayAllIsInterrupted in its second call.
func TestReplayAllIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/orders/dead":
			_, _ = w.Write([]byte(deadPage([3]string{"01", "flash", "a"}, [3]string{"02", "flash", "a"}, [3]string{"03", "flash", "a"})))
		case "/v1/orders/dead/02/replay":
			cancel(serve.Interrupted{Signal: syscall.SIGINT})
			<-r.Context().Done()
		default:
			_, _ = w.Write([]byte(`{"status":"confirmed"}`))
		}
	}))
	defer server.Close()
	var stdout, stderr output
	err := run(ctx, []string{"orders", "replay", "--all"}, at(server.URL), &stdout, &stderr)
	if statusOf(err) != 130 || err.Error() != "interrupted; "+unsure+"; repeat the command to continue: no order is committed twice" {
		t.Errorf("status %d: %v", statusOf(err), err)
	}
	if want := "3 dead letters: 1 committed, 0 rejected, 0 refused again, 2 not tried\n"; stdout.String() != want {
		t.Errorf("%q", &stdout)
	}
}

// TestAllDeadLettersAreReplayed has the database refuse 300 orders of one sale and one of another.
func TestAllDeadLettersAreReplayed(t *testing.T) {
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
	count := func(sql string) (n int) {
		t.Helper()
		if err := db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const many = 300
	servetest.OpenSale(t, internal, "flash", servetest.Sale("shoe", many), "X-Tidegate-Token", token)
	servetest.OpenSale(t, internal, "quiet", servetest.Sale("shoe", 1), "X-Tidegate-Token", token)
	exec(`ALTER TABLE orders ADD CONSTRAINT wrong CHECK (quantity > 1)`)
	order := func(sale, user string) {
		servetest.Until(t, http.StatusAccepted, func() servetest.Answer {
			return servetest.Call("POST", public+"/v1/sales/"+sale+"/orders", `{"item":"shoe"}`, "X-User-ID", user, "Idempotency-Key", user)
		})
	}
	for i := range many {
		order("flash", fmt.Sprint("buyer", i))
	}
	order("quiet", "ann")
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		a := servetest.Call("GET", internal+"/v1/orders/dead?limit=1000", "", "X-Tidegate-Token", token)
		if strings.Count(string(a.Body), `"order_id"`) < many+1 {
			a.Status = 0
		}
		return a
	})

	var stdout, stderr output
	err = run(t.Context(), []string{"orders", "replay", "--all"}, env, &stdout, &stderr)
	if err == nil || stdout.String() != "301 dead letters: 0 committed, 0 rejected, 1 refused again, 300 not tried\n" ||
		!strings.Contains(stderr.String(), `violates check constraint "wrong"`) || !strings.Contains(stderr.String(), "300 more dead letters with the same reason are not tried: ") {
		t.Errorf("while the constraint is there: %v\n%s\n%s", err, &stdout, &stderr)
	}
	exec(`ALTER TABLE orders DROP CONSTRAINT wrong`)
	out, err := call(t, env, "orders", "replay", "--all", "--sale", "flash")
	if err != nil || out != "300 dead letters: 300 committed, 0 rejected, 0 refused again, 0 not tried\n" {
		t.Errorf("%v %s", err, out)
	}
	if dead, sold := count(`SELECT count(*) FROM dead_letters`), count(`SELECT count(*) FROM orders WHERE status = 'confirmed' AND sale = 'flash'`); dead != 1 || sold != many {
		t.Errorf("%d dead letters, %d orders", dead, sold)
	}
	for _, left := range []string{"1 dead letters: 1 committed", "0 dead letters: 0 committed"} {
		if out, err := call(t, env, "orders", "replay", "--all"); err != nil || !strings.HasPrefix(out, left) {
			t.Errorf("%v %s", err, out)
		}
	}
	if out, err := call(t, env, "verify", "flash"); err != nil || !strings.Contains(out, "300 sold of 300") {
		t.Errorf("%v %s", err, out)
	}
}

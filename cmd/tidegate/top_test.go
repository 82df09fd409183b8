package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/internal/livepage"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func part[T any](value T) *livepage.Part[T] { return &livepage.Part[T]{Value: &value} }

// busy is a frame in which everything happens.
func busy() *livepage.Frame {
	f := &livepage.Frame{
		At: noon, WindowMS: 1003, Process: livepage.Process{Version: "v1", Rules: "abc", Processes: 2, Workers: new(1), Degraded: []string{"Redis does not answer decisions", "these secrets are published: SECRET"}, Warnings: []string{"these secrets are published: SECRET"}, Invariants: &livepage.Invariants{Sales: 3, VerifiedAt: noon.Add(-12 * time.Second)}},
		Answers: map[string]uint64{livepage.Admitted: 200, "sold_out": 1200, "rate_limited": 37}, Latency: &livepage.Latency{P50US: 812, P99US: 48_400},
		Rules: []livepage.Rule{{Name: "orders", Charged: 300, Refused: 37, Shadow: 4, Fullest: 0.5}}, MoreRules: 2,
		Latest: []livepage.Answer{{At: noon, Who: "ada", What: "POST /v1/sales/flash/orders", Answer: livepage.Admitted}, {At: noon, Who: "東京の買い手", What: "POST /v1/sales/flash/orders", Answer: "rate_limited"}},
		Sales: part([]livepage.Sale{
			{Sale: "flash", State: "open", Items: []livepage.Item{{Item: "ticket", Stock: 500, Free: new(125), PerSecond: 12.5, SoldOutIn: 10_000}, {Item: "poster", Stock: 10, Free: new(0), Cancelled: 2, Expired: 3, SoldOutAt: new(noon.Add(-time.Minute))}}, MoreItems: 14, Orders: &livepage.Orders{Paid: 300, Confirmed: 75, Cancelled: 2, Expired: 3, Refunds: 1}},
			{Sale: "a-sale-whose-name-is-very-long-indeed", State: "scheduled", StartsAt: noon.Add(90 * time.Minute), Items: []livepage.Item{{Item: "hat", Stock: 7, Free: new(7)}}},
			{Sale: "next", State: "scheduled", Draft: true, StartsAt: noon.Add(time.Hour), Items: []livepage.Item{{Item: "cap", Stock: 1, Free: new(1)}}},
		}), MoreSales: 9, MoreSemaphores: 1, MoreRooms: 1,
		Rooms: part([]livepage.Room{
			{Room: "hall", Phase: "serving", Waiting: 120, Served: 40, Admitted: 12, StartsAt: noon.Add(-time.Hour)},
			{Room: "later", Phase: "gathering", Waiting: 7, StartsAt: noon.Add(time.Hour)},
			{Room: "old", Phase: "exhausted", Waiting: 3, Served: 9, StartsAt: noon.Add(-time.Hour)},
		}),
		Queue:      part(livepage.Queue{Waiting: 42, InProgress: 7, OldestMS: 1234, Committed: 180, Dead: []livepage.Dead{{OrderID: "01"}}, MoreDead: true}),
		Semaphores: part([]livepage.Semaphore{{Name: "report", Limit: 2, InUse: 1, Waiting: 3}}),
		Bans:       part(livepage.Bans{Count: 1, Bans: []livepage.Ban{{Kind: "network", Value: "203.0.113.0/24", Rule: "flood", Until: noon.Add(time.Hour)}}}),
	}
	f.Queue.AgeMS, f.Queue.Error = 4000, "no answer"
	return f
}

// What a terminal of each width shows of it.
var shown = map[int]string{
	40: `tidegate v1 · 2 APIs · 1 worker · rules…
! Redis does not answer decisions
! these secrets are published: SECRET

REQUESTS  1433/s  in the last 1.0s
  admitted      199/s ███
  rate limi…     37/s
  sold out     1196/s █████████████████…
  time to a… p50 0.8ms, p99 48ms
  invariants hold in 3 sales, verified …

SALES, free/stock
  flash tic… 125/500 sold out in 10s at…
  flash pos… 0/10 sold out at 11:59:00,…
  and 14 more of flash
  orders     1 refund due, 300 paid, 75…
  a-sale-wh… 7/7 starts in 1h30m0s, sch…
  next cap   1/1, scheduled, draft
  and 9 more

WAITING ROOMS
  hall       serving, 120 waiting, 40 h…
  later      gathering, 7 waiting, 0 ha…
  old        exhausted, 3 waiting, 9 ha…
  and 1 more

PENDING ORDERS  4.0s old  no answer
  42 waiting, oldest 1.2s, since 11:59:…
  1+ dead: tidegate orders dead

SEMAPHORES
  report     1/2 held, 3 wait
  and 1 more

RULES
  orders     299/s passed, 37/s refused…
  and 2 more

BANS 1
  network 2… 1h0m0s left  flood

LAST DECISIONS
  ada        12:00:00 admitted         …
  東京の買…  12:00:00 rate_limited     …`,
	80: `tidegate v1 · 2 APIs · 1 worker · rules abc · 12:00:00
! Redis does not answer decisions
! these secrets are published: SECRET

REQUESTS  1433/s  in the last 1.0s
  admitted                199/s ██████
  rate limited             37/s █
  sold out               1196/s ████████████████████████████████████████
  time to answer       p50 0.8ms, p99 48ms
  invariants           hold in 3 sales, verified 12s ago

SALES, free/stock
  flash ticket         ████░░░░░░░░░░░░░░ 125/500 sold out in 10s at 12.5/s
  flash poster         ░░░░░░░░░░░░░░░░░░ 0/10 sold out at 11:59:00, 5 came back
  and 14 more of flash
  orders               1 refund due, 300 paid, 75 confirmed, 2 cancelled, 3 exp…
  a-sale-whose-name-i… ██████████████████ 7/7 starts in 1h30m0s, scheduled
  next cap             ██████████████████ 1/1, scheduled, draft
  and 9 more

WAITING ROOMS
  hall                 serving, 120 waiting, 40 had their turn, 12 admitted/min
  later                gathering, 7 waiting, 0 had their turn, turns in 1h0m0s
  old                  exhausted, 3 waiting, 9 had their turn
  and 1 more

PENDING ORDERS  4.0s old  no answer
  42 waiting, oldest 1.2s, since 11:59:58, 7 in progress, 179/s committed
  1+ dead: tidegate orders dead

SEMAPHORES
  report               █████████░░░░░░░░░ 1/2 held, 3 wait
  and 1 more

RULES
  orders               █████████░░░░░░░░░ 299/s passed, 37/s refused, 4/s shadow
  and 2 more

BANS 1
  network 203.0.113.0… 1h0m0s left  flood

LAST DECISIONS
  ada                  12:00:00 admitted           POST /v1/sales/flash/orders
  東京の買い手         12:00:00 rate_limited       POST /v1/sales/flash/orders`,
	200: `tidegate v1 · 2 APIs · 1 worker · rules abc · 12:00:00
! Redis does not answer decisions
! these secrets are published: SECRET

REQUESTS  1433/s  in the last 1.0s
  admitted                          199/s ████████████████
  rate limited                       37/s ███
  sold out                         1196/s ████████████████████████████████████████████████████████████████████████████████████████████████████
  time to answer                 p50 0.8ms, p99 48ms
  invariants                     hold in 3 sales, verified 12s ago

SALES, free/stock
  flash ticket                   ████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 125/500 sold out in 10s at 12.5/s
  flash poster                   ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 0/10 sold out at 11:59:00, 5 came back
  and 14 more of flash
  orders                         1 refund due, 300 paid, 75 confirmed, 2 cancelled, 3 expired
  a-sale-whose-name-is-very-lon… ████████████████████████████████████████████████ 7/7 starts in 1h30m0s, scheduled
  next cap                       ████████████████████████████████████████████████ 1/1, scheduled, draft
  and 9 more

WAITING ROOMS
  hall                           serving, 120 waiting, 40 had their turn, 12 admitted/min
  later                          gathering, 7 waiting, 0 had their turn, turns in 1h0m0s
  old                            exhausted, 3 waiting, 9 had their turn
  and 1 more

PENDING ORDERS  4.0s old  no answer
  42 waiting, oldest 1.2s, since 11:59:58, 7 in progress, 179/s committed
  1+ dead: tidegate orders dead

SEMAPHORES
  report                         ████████████████████████░░░░░░░░░░░░░░░░░░░░░░░░ 1/2 held, 3 wait
  and 1 more

RULES
  orders                         ████████████████████████░░░░░░░░░░░░░░░░░░░░░░░░ 299/s passed, 37/s refused, 4/s shadow
  and 2 more

BANS 1
  network 203.0.113.0/24         1h0m0s left  flood

LAST DECISIONS
  ada                            12:00:00 admitted           POST /v1/sales/flash/orders
  東京の買い手                   12:00:00 rate_limited       POST /v1/sales/flash/orders`,
}

func TestScreen(t *testing.T) {
	for width, want := range shown {
		clock := noon.Local().Format(time.TimeOnly)
		want = strings.NewReplacer("12:00:00", clock, "12:0…", clock[:4]+"…", "11:59:00", noon.Add(-time.Minute).Local().Format(time.TimeOnly), "11:59:58", noon.Add(-1234*time.Millisecond).Local().Format(time.TimeOnly), "11:59:…", noon.Add(-time.Minute).Local().Format("15:04:")+"…").Replace(want)
		if got := ansi.Strip(screen{frame: busy(), width: width}.text()); got != want {
			t.Errorf("%d cells:\n%s", width, cmp.Diff(want, got))
		}
	}
}

// Unknown numbers are not shown as 0.
func TestScreenOfWhatIsNotKnown(t *testing.T) {
	f := busy()
	f.Sales = part([]livepage.Sale{{Sale: "flash", State: "recovering", Items: []livepage.Item{{Item: "ticket", Stock: 600}}}})
	f.Queue, f.Bans = &livepage.Part[livepage.Queue]{Error: "away"}, &livepage.Part[livepage.Bans]{Error: "gone\x1b"}
	text := ansi.Strip(screen{frame: f}.text())
	for _, want := range []string{"! pending orders: unknown: away", "! bans: unknown: gone", " –/600, recovering"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	for _, never := range []string{"sold out, recovering", "DATABASE", "\x1b"} {
		if strings.Contains(text, never) {
			t.Errorf("it says %q", never)
		}
	}
}

// No terminal is too small, and no line wraps.
func TestScreenFits(t *testing.T) {
	for _, s := range []screen{{}, {err: errors.New("a long story\nof two lines")}, {frame: busy()}, {frame: busy(), err: io.EOF}, {frame: busy(), help: true}, {frame: &livepage.Frame{}}} {
		for _, s.width = range []int{1, 2, 7, 20, 41, 500} {
			for _, s.height = range []int{1, 2, 3, 24, 100} {
				text := s.View().Content
				if lines := strings.Split(text, "\n"); len(lines) > s.height || lipgloss.Width(text) > s.width {
					t.Errorf("%dx%d: %d lines\n%s", s.width, s.height, len(lines), text)
				}
			}
		}
	}
}

func TestKeys(t *testing.T) {
	press := func(s screen, key tea.Key) (screen, bool) {
		m, cmd := s.Update(tea.KeyPressMsg(key))
		leaves := false
		if cmd != nil {
			_, leaves = cmd().(tea.QuitMsg)
		}
		return m.(screen), leaves
	}
	s := screen{frame: busy(), width: 80, height: 24}
	helped, leaves := press(s, tea.Key{Code: '?', Text: "?"})
	if leaves || !strings.Contains(helped.text(), "quit") || strings.Contains(helped.text(), "flash") {
		t.Errorf("%s", helped.text())
	}
	if back, _ := press(helped, tea.Key{Code: '?', Text: "?"}); back.text() != s.text() {
		t.Errorf("%s", back.text())
	}
	for _, key := range []tea.Key{{Code: 'q', Text: "q"}, {Code: tea.KeyEscape}, {Code: 'c', Mod: tea.ModCtrl}} {
		if _, leaves := press(s, key); !leaves {
			t.Errorf("%s does not leave", key)
		}
	}
	if _, leaves := press(s, tea.Key{Code: 'x', Text: "x"}); leaves {
		t.Error("any key leaves")
	}
}

// The last numbers stay, and are said to be old, until there are new ones.
func TestScreenOfALostServer(t *testing.T) {
	var m tea.Model = screen{width: 80, height: 24}
	for _, msg := range []tea.Msg{busy(), lost{errors.New("connection refused")}} {
		m, _ = m.Update(msg)
	}
	if text := m.(screen).text(); !strings.Contains(text, "flash") || !strings.Contains(text, "retrying: connection refused") {
		t.Errorf("%s", text)
	}
	m, _ = m.Update(busy())
	if text := m.(screen).text(); strings.Contains(text, "refused:") || strings.Contains(text, "retrying") {
		t.Errorf("%s", text)
	}
}

// streams is a server whose streams end after one frame, and which then rejects the token.
func streams(t *testing.T, n int32) (env func(string) string) {
	t.Helper()
	var opened atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/events" || opened.Add(1) > n {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprintf(w, "retry: 1000\nevent: history\ndata: []\n\nevent: frame\ndata: {\"seq\":%d,\"process\":{\"version\":\"v1\"}}\n\n", opened.Load())
	}))
	t.Cleanup(server.Close)
	return at(server.URL)
}

func TestTopOpensItsStreamAgain(t *testing.T) {
	t.Parallel()
	var stdout, stderr output
	err := run(t.Context(), []string{"top", "--json"}, streams(t, 2), &stdout, &stderr)
	want := `{"seq":1,"process":{"version":"v1"}}` + "\n" + `{"seq":2,"process":{"version":"v1"}}` + "\n"
	if stdout.String() != want || stderr.String() != "" {
		t.Errorf("%s\n%s", &stdout, &stderr)
	}
	if err == nil || !strings.Contains(err.Error(), "set TIDEGATE_TOKEN") {
		t.Errorf("nobody would let it in again: %v", err)
	}
}

func TestTopOnce(t *testing.T) {
	out, err := call(t, streams(t, 1), "top", "--once")
	if err != nil || !strings.HasPrefix(out, "tidegate v1 ") || strings.Contains(out, "\x1b") {
		t.Errorf("%v %q", err, out)
	}
	if out, err := call(t, streams(t, 1), "top", "--once", "--json"); err != nil || out != `{"seq":1,"process":{"version":"v1"}}`+"\n" {
		t.Errorf("%v %q", err, out)
	}
}

package livepage_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/internal/testenv"
)

// A stage serves the page, and shows it what a test likes; what the page wants to change is never answered.
type stage struct {
	*httptest.Server
	frames       chan *livepage.Frame
	opened, left chan struct{}
	lifted       atomic.Bool // the ban of whoever is asked about
	closed       atomic.Bool // no token holds any more
}

func newStage(t *testing.T) *stage {
	s := &stage{frames: make(chan *livepage.Frame), opened: make(chan struct{}, 16), left: make(chan struct{}, 16)}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", livepage.Page("test"))
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", livepage.Assets()))
	mux.HandleFunc("GET /v1/explain", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.FormValue("user") == "":
			_, _ = io.WriteString(w, `{"rules":[{"rule":"orders","applies":false,"why":"the request has no user, and the rule counts by it","windows":[]}]}`)
		case s.lifted.Load():
			_, _ = io.WriteString(w, `{"rules":[{"rule":"orders","applies":true,"windows":[]}]}`)
		default:
			_, _ = io.WriteString(w, `{"rules":[],"ban":{"kind":"user","value":"eve","reason":"flood","until":"2100-01-01T00:00:00Z"}}`)
		}
	})
	mux.HandleFunc("GET /session", func(w http.ResponseWriter, _ *http.Request) {
		role := "operator"
		if s.closed.Load() {
			role = ""
		}
		_, _ = fmt.Fprintf(w, `{"name":"ops","role":%q,"expires_at":null}`, role)
	})
	mux.HandleFunc("DELETE /v1/bans/user/eve", func(http.ResponseWriter, *http.Request) { s.lifted.Store(true) })
	mux.HandleFunc("POST /", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or nobody hears of its end
		<-r.Context().Done()
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		if s.closed.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "event: history\ndata: {\"frames\":[],\"stock\":[]}\n\n")
		s.opened <- struct{}{}
		for {
			select {
			case <-r.Context().Done():
				s.left <- struct{}{}
				return
			case frame := <-s.frames:
				encoded, err := json.Marshal(frame)
				if err != nil {
					t.Error(err)
				}
				_, _ = fmt.Fprintf(w, "event: frame\ndata: %s\n\n", encoded)
				_ = http.NewResponseController(w).Flush()
			}
		}
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// show sends a frame once a page is connected. Fields that frame does not set are current and empty.
func (s *stage) show(t *testing.T, frame livepage.Frame) {
	t.Helper()
	if frame.At.IsZero() {
		frame.At = time.Now()
	}
	if frame.Answers == nil {
		frame.Answers = map[string]uint64{}
	}
	frame.WindowMS = 1000
	if frame.Process.Degraded == nil {
		frame.Process.Degraded = []string{}
	}
	frame.Rules = []livepage.Rule{{Name: "orders"}}
	if frame.Latest == nil {
		frame.Latest = []livepage.Answer{}
	}
	select {
	case s.frames <- &frame:
	case <-time.After(30 * time.Second):
		t.Fatal("nobody looks")
	}
}

// A page opened while Redis and Postgres are unavailable marks what is unknown, shows the rest, and shows everything once it is known.
func TestThePageInAnOutage(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := testenv.NewTab(t)
	b.Open(s.URL + "/")
	s.show(t, livepage.Frame{
		Sales: &livepage.Part[[]livepage.Sale]{Error: "no sales"}, Queue: &livepage.Part[livepage.Queue]{Error: "no queue"},
		Semaphores: &livepage.Part[[]livepage.Semaphore]{Error: "no semaphores"}, Bans: &livepage.Part[livepage.Bans]{Error: "no bans"},
	})
	for _, part := range []string{"sales", "queue", "semaphores", "bans"} {
		b.Until(fmt.Sprintf(`document.querySelector('#%s .list').innerText === 'Unknown: no %[1]s'`, part))
	}
	b.Until(`document.querySelector('#rules .label')?.innerText === 'orders' && document.querySelector('#latest').innerText.includes('No requests since this page was opened')`)
	b.Until(`document.querySelector('.tile.k-waiting b').innerText === '–'`)

	s.show(t, livepage.Frame{
		Sales: &livepage.Part[[]livepage.Sale]{Value: &[]livepage.Sale{{
			Sale: "flash", State: "recovering", StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), Items: []livepage.Item{{Item: "shoe", Stock: 600}},
		}, {
			Sale: "quiet", State: "open", StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), Items: []livepage.Item{{Item: "lamp", Stock: 5, Free: new(5)}},
		}}},
		Queue: &livepage.Part[livepage.Queue]{Value: &livepage.Queue{Dead: []livepage.Dead{}}},
	})
	b.Until(`document.querySelector('.sale[data-key=kflash] .left')?.innerText.replace(/\s+/g, ' ') === '– of 600 left'`)
	b.Until(`document.querySelector('#queue .fact .value').innerText === '0' && !document.querySelector('#queue').classList.contains('old')`)

	// An old number is not shown as one of now, however it came to be old.
	for _, part := range []livepage.Part[livepage.Queue]{{Error: "away"}, {}, {AgeMS: 3001}} {
		part.Value = &livepage.Queue{Waiting: 123, Dead: []livepage.Dead{}}
		s.show(t, livepage.Frame{Queue: &part})
		shown, old := "–", true
		if part == (livepage.Part[livepage.Queue]{Value: part.Value}) {
			shown, old = "123", false
		}
		b.Until(fmt.Sprintf(`document.querySelector('.tile.k-waiting b').innerText === '%s' && document.querySelector('.tile.k-waiting').classList.contains('old') === %t`, shown, old))
	}

	// Times are those of the server's clock, whatever the browser's, and data older than five minutes is not plotted.
	at := time.Now().Add(time.Hour)
	s.show(t, livepage.Frame{
		At: at, Answers: map[string]uint64{livepage.Admitted: 5},
		Semaphores: &livepage.Part[[]livepage.Semaphore]{Value: &[]livepage.Semaphore{{Name: "report", Limit: 1, InUse: 1, Holders: []livepage.Holder{{Holder: "nightly", Since: at.Add(-8 * time.Second)}}}}},
	})
	b.Until(`document.querySelector('.holder .value')?.innerText === 'for 8 s'`)
	b.Until(`document.querySelector('[data-reason=admitted]')?.dataset.count === '5'`)
	for range 2 {
		at = at.Add(301 * time.Second)
		s.show(t, livepage.Frame{At: at, Answers: map[string]uint64{livepage.Admitted: 2}})
	}
	b.Until(`document.querySelector('[data-reason=admitted]')?.dataset.count === '2'`)

	// Semaphores change places, and a focused release button keeps the focus.
	held := func(names ...string) *livepage.Part[[]livepage.Semaphore] {
		all := make([]livepage.Semaphore, len(names))
		for i, name := range names {
			all[i] = livepage.Semaphore{Name: name, Limit: 1, InUse: 1, Holders: []livepage.Holder{{Holder: "who holds " + name}}}
		}
		return &livepage.Part[[]livepage.Semaphore]{Value: &all}
	}
	s.show(t, livepage.Frame{Semaphores: held("first", "second")})
	b.Until(`document.querySelector('.block[data-key=ksecond] button')?.focus() || document.activeElement.ariaLabel?.endsWith('who holds second')`)
	s.show(t, livepage.Frame{Semaphores: held("second", "first")})
	b.Until(`document.querySelector('.holder .label').innerText === 'who holds second' && document.activeElement.ariaLabel?.endsWith('who holds second')`)

	// What is not answered is not waited for without end.
	testenv.Eval[bool](b, `(() => { const timeout = AbortSignal.timeout; AbortSignal.timeout = () => timeout.call(AbortSignal, 100); return true; })()`)
	b.Do(chromedp.Click(`.sale[data-key=kquiet] .switch`), chromedp.Click(`dialog .primary`))
	b.Until(`document.querySelector('#toast').innerText.includes('Pause quiet: no answer within 10 s')`)

	// A hidden tab keeps no connection.
	for len(s.opened) > 0 {
		<-s.opened
	}
	for _, hidden := range []bool{true, false} {
		testenv.Eval[bool](b, fmt.Sprintf(`Object.defineProperty(document, 'hidden', {value: %t, configurable: true}) && document.dispatchEvent(new Event('visibilitychange'))`, hidden))
		happened := s.left
		if !hidden {
			happened = s.opened
		}
		select {
		case <-happened:
		case <-time.After(30 * time.Second):
			t.Fatalf("hidden %t: nothing happened", hidden)
		}
	}
	s.show(t, livepage.Frame{Seq: 7})
	b.Until(`document.documentElement.dataset.seq === '7'`)
}

// A screen reader gives each button a name of its own, and a page that the browser translates works, and is not read out every second.
func TestThePageReadAloud(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := testenv.NewTab(t)
	b.Do(chromedp.EmulateViewport(320, 700))
	b.Open(s.URL + "/")
	at := time.Now()
	sale := func(name string) livepage.Sale {
		return livepage.Sale{Sale: name, State: "open", StartsAt: at, EndsAt: at.Add(time.Hour), Items: []livepage.Item{{Item: "shoe", Stock: 5, Free: new(0)}}}
	}
	ban := func(kind, value string) livepage.Ban {
		return livepage.Ban{Kind: kind, Value: value, Until: at.Add(time.Hour)}
	}
	frame := livepage.Frame{
		At:         at,
		Sales:      &livepage.Part[[]livepage.Sale]{Value: &[]livepage.Sale{sale("flash"), sale("quiet")}},
		Rooms:      &livepage.Part[[]livepage.Room]{Value: &[]livepage.Room{{Room: "hall", Phase: "serving"}, {Room: "flash", Phase: "serving"}}},
		Queue:      &livepage.Part[livepage.Queue]{Value: &livepage.Queue{Dead: []livepage.Dead{{OrderID: "o1"}, {OrderID: "o2"}}}},
		Semaphores: &livepage.Part[[]livepage.Semaphore]{Value: &[]livepage.Semaphore{{Name: "report", Limit: 2, InUse: 2, Holders: []livepage.Holder{{Holder: "nightly", PermitID: "p1"}, {Holder: "nightly", PermitID: "p2"}}}}},
		Bans:       &livepage.Part[livepage.Bans]{Value: &livepage.Bans{Count: 2, Bans: []livepage.Ban{ban("user", "10.0.0.1"), ban("ip", "10.0.0.1")}}},
		Latest:     []livepage.Answer{{At: at, Who: "ann", What: "POST /a", Answer: "admitted"}, {At: at, Who: "ann", What: "POST /b", Answer: "admitted"}},
	}
	s.show(t, frame)
	b.Until(`document.querySelectorAll('#latest .answer').length === 2`)
	names := strings.Join(b.Controls(), "|")
	for _, name := range []string{"Show flash", "Pause flash", "Show quiet", "Pause quiet", "Hold room hall", "Hold room flash", "Replay order o2", "Release permit p2 of report, held by nightly", "Lift the ban of ip 10.0.0.1"} {
		if !strings.Contains(names, name) {
			t.Errorf("no control is called %q: %s", name, names)
		}
	}
	b.Fits()

	b.Until(`document.querySelector('#state').innerText === 'live'`)
	b.Translate()
	testenv.Eval[bool](b, `window.read = 0, new MutationObserver(() => window.read++).observe(document.querySelector('#state'), {childList: true, subtree: true, characterData: true}), true`)
	for seq := range int64(3) {
		frame.Seq = seq + 1
		s.show(t, frame)
		b.Until(fmt.Sprintf(`document.documentElement.dataset.seq === '%d'`, seq+1))
	}
	if n := testenv.Eval[int](b, `window.read`); n > 0 {
		t.Errorf("the translated state is read out %d times in three frames", n)
	}
	b.Do(chromedp.Click(`.sale[data-key=kquiet] .switch`))
	b.Until(`document.querySelector('dialog').open && document.querySelector('dialog h2').innerText === '«Pause quiet?»'`)
}

// A page whose address has a password in it can ask as well as any other; a caller that is banned is let in again where it was asked
// about; and a session that is over is not a lost connection.
func TestThePageWithAPasswordInItsAddress(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := testenv.NewTab(t, "status of 401", "net::ERR_")
	b.Open(strings.Replace(s.URL, "//", "//operator:secret@", 1) + "/")
	s.show(t, livepage.Frame{})
	b.Until(live)
	b.Do(chromedp.Click(`#explain button`))
	b.Until(`document.querySelector('#explain .row:not(.good)')?.innerText.trim() === 'No rule applies'`)
	b.Do(chromedp.SendKeys(`#explain [name=user]`, "eve"), chromedp.Click(`#explain button`))
	b.Until(`document.querySelector('#explain .row.bad')?.innerText.includes('banned as user eve: flood')`)
	click(b, `#explain .row button`)
	b.Until(`document.querySelector('#explain .row.good')?.innerText.trim() === 'Would be admitted' && document.activeElement.id === 'explain-title'`)

	s.closed.Store(true)
	s.CloseClientConnections()
	b.Until(`document.querySelector('#state').innerText.startsWith('session ended')`)
}

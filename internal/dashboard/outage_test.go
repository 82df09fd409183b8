package dashboard_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tidegate/tidegate/internal/dashboard"
	"github.com/tidegate/tidegate/internal/testenv"
)

// A stage serves the page, and shows it what a test likes; what the page wants to change is never answered.
type stage struct {
	*httptest.Server
	frames       chan *dashboard.Frame
	opened, left chan struct{}
}

func newStage(t *testing.T) *stage {
	s := &stage{frames: make(chan *dashboard.Frame), opened: make(chan struct{}, 16), left: make(chan struct{}, 16)}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", dashboard.Page("test"))
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", dashboard.Assets()))
	mux.HandleFunc("POST /", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or nobody hears of its end
		<-r.Context().Done()
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
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

// show waits until somebody looks.
func (s *stage) show(t *testing.T, frame dashboard.Frame) {
	t.Helper()
	frame.At, frame.WindowMS, frame.Answers = time.Now(), 1000, map[string]uint64{}
	frame.Process.Degraded, frame.Rules, frame.Latest = []string{}, []dashboard.Rule{{Name: "orders"}}, []dashboard.Answer{}
	select {
	case s.frames <- &frame:
	case <-time.After(30 * time.Second):
		t.Fatal("nobody looks")
	}
}

// A page that is opened while Redis and Postgres are away says what it does not know, shows the rest, and all of it once it is known.
func TestThePageInAnOutage(t *testing.T) {
	s := newStage(t)
	b := testenv.NewTab(t)
	b.Open(s.URL + "/")
	s.show(t, dashboard.Frame{
		Sales: &dashboard.Part[[]dashboard.Sale]{Error: "no sales"}, Queue: &dashboard.Part[dashboard.Queue]{Error: "no queue"},
		Semaphores: &dashboard.Part[[]dashboard.Semaphore]{Error: "no semaphores"}, Bans: &dashboard.Part[dashboard.Bans]{Error: "no bans"},
	})
	for _, part := range []string{"sales", "queue", "semaphores", "bans"} {
		b.Until(fmt.Sprintf(`document.querySelector('#%s .list').innerText === 'Not known: no %[1]s'`, part))
	}
	b.Until(`document.querySelector('#rules .label')?.innerText === 'orders' && document.querySelector('#latest').innerText.includes('Nobody has come yet')`)
	b.Until(`document.querySelector('.tile.k-waiting b').innerText === '–'`)

	s.show(t, dashboard.Frame{
		Sales: &dashboard.Part[[]dashboard.Sale]{Value: &[]dashboard.Sale{{
			Sale: "flash", State: "recovering", StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), Items: []dashboard.Item{{Item: "shoe", Stock: 600}},
		}, {
			Sale: "quiet", State: "open", StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), Items: []dashboard.Item{{Item: "lamp", Stock: 5, Free: new(5)}},
		}}},
		Queue: &dashboard.Part[dashboard.Queue]{Value: &dashboard.Queue{Dead: []dashboard.Dead{}}},
	})
	b.Until(`document.querySelector('.sale[data-key=kflash] .left')?.innerText.replace(/\s+/g, ' ') === '– of 600 left'`)
	b.Until(`document.querySelector('#queue .fact .value').innerText === '0' && !document.querySelector('#queue').classList.contains('old')`)

	// What is not answered is not waited for without end.
	testenv.Eval[bool](b, `(() => { const timeout = AbortSignal.timeout; AbortSignal.timeout = () => timeout.call(AbortSignal, 100); return true; })()`)
	b.Do(chromedp.Click(`.sale[data-key=kquiet] .switch`), chromedp.Click(`dialog .primary`))
	b.Until(`document.querySelector('#toast').innerText.includes('Pause quiet: no answer for 10 s')`)

	// A tab that nobody sees keeps no connection.
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
	s.show(t, dashboard.Frame{Seq: 7})
	b.Until(`document.documentElement.dataset.seq === '7'`)
}

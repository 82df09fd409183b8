package livepage_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tidegate/tidegate/internal/rehearse"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// What a browser puts on the console while the server is not there, and when it refuses what a foreign page asks for.
var expected = []string{"net::ERR_CONNECTION_REFUSED", "net::ERR_INCOMPLETE_CHUNKED_ENCODING", "net::ERR_EMPTY_RESPONSE", "net::ERR_CONNECTION_RESET", "status of 403", "status of 415"}

// live reports that the page shows current data.
const live = `document.querySelector('#state').innerText === 'live'`

// One program and one browser for all that follows, in this order. What a page complains about fails the test: see testenv.Browser.
func TestThePage(t *testing.T) {
	t.Parallel()
	at := install(t)
	b := testenv.NewTab(t, expected...)
	b.Do(chromedp.EmulateViewport(1280, 900))
	b.Open(at.internal + "/")
	b.Until(live)
	for _, step := range []struct {
		name string
		test func(*installation, testenv.Tab)
	}{
		{"at rest", atRest},
		{"a crowd comes", aCrowdComes},
		{"paused by keyboard", pausedByKeyboard},
		{"a room is held", aRoomIsHeld},
		{"a ban is lifted", aBanIsLifted},
		{"a permit is released", aPermitIsReleased},
		{"a dead letter is replayed", aDeadLetterIsReplayed},
		{"hostile names", hostileNames},
		{"an attack", anAttack},
		{"another page may not", anotherPageMayNot},
		{"the server comes back", theServerComesBack},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			here := *at
			here.t = t
			step.test(&here, b.Of(t))
			at.api = here.api
		}) {
			return // the page may be in any state
		}
	}
}

func atRest(at *installation, b testenv.Tab) {
	b.Until(`document.querySelector('#sales').innerText.includes('No sale is defined')`)
	b.Until(`document.querySelector('#rules .label')?.innerText === 'orders'`)
	b.Until(`document.querySelector('.k-workers b').innerText === '1' && document.querySelector('.k-workers .what').innerText === 'worker · 1 API'`)
	b.Picture("live/rest-1280-light.png", 1280, 900, "light")
	b.Picture("live/rest-320-dark.png", 320, 700, "dark")
}

// The numbers are those of /metrics and of the database once all is still.
func aCrowdComes(at *installation, b testenv.Tab) {
	const stock = 240
	crowd := func(seed uint64, buyers, stock, confirmed int) <-chan error {
		ended := make(chan error, 1)
		go func() {
			report, err := rehearse.Run(at.t.Context(), rehearse.Options{
				PublicURLs: []string{at.public}, InternalURL: at.internal, Sale: "flash", Items: []string{"shoe"}, Stock: stock,
				Buyers: buyers, Rate: 120, DuplicateClicks: 0.2, Keyless: 0.1, Seed: seed,
			})
			if err == nil && (report.Confirmed != confirmed || report.Unknown != 0) {
				err = fmt.Errorf("%d of %d confirmed, %d unknown", report.Confirmed, confirmed, report.Unknown)
			}
			ended <- err
		}()
		return ended
	}
	ended := crowd(1, 180, stock, 180) // some units stay, so that a slow browser sees the pace too
	b.Until(`Number(document.querySelector('.item')?.dataset.free ?? 1e9) < 190`)
	b.Until(`document.querySelector('.item .pace').innerText.includes('sold out in')`)
	b.Picture("live/selling-1920-dark.png", 1920, 1080, "dark")
	b.Picture("live/selling-320-light.png", 320, 700, "light")
	b.Picture("live/selling-1280-light.png", 1280, 900, "light")
	if err := <-ended; err != nil {
		at.t.Fatal(err)
	}
	ended = crowd(2, 520, 0, stock-180)
	b.Until(`document.querySelector('.item[data-level=gone]')?.innerText.includes('Sold out')`)
	b.Picture("live/sold-out-1280-dark.png", 1280, 900, "dark")
	if err := <-ended; err != nil {
		at.t.Fatal(err)
	}

	answers := metric(at, `tidegate_answers_total{answer="(\w+)"} (\d+)`)
	if len(answers) < 2 || answers["admitted"] < stock {
		at.t.Fatalf("/metrics says %v", answers)
	}
	for reason, n := range answers {
		b.Until(fmt.Sprintf(`document.querySelector('#legend [data-reason=%q]')?.dataset.count === '%d'`, reason, n))
	}
	if shown := testenv.Eval[int](b, `document.querySelectorAll('#legend [data-reason]').length`); shown != len(answers) {
		at.t.Errorf("%d reasons are shown, want %v", shown, answers)
	}
	sold := at.number(`SELECT count(*) FROM order_units WHERE sale = 'flash'`)
	if free := testenv.Eval[string](b, `document.querySelector('.item').dataset.free`); sold != stock || free != strconv.Itoa(stock-sold) {
		at.t.Errorf("the page says %s left; %d of %d are sold", free, sold, stock)
	}
	b.Until(`document.querySelector('#queue .fact .value').innerText === '0'`) // and it is over
	b.Until(fmt.Sprintf(`document.querySelector('.sale .totals').innerText === 'Orders: %d confirmed'`, stock))
	b.Until(`/^all 240, at \d\d:\d\d:\d\d$/.test(document.querySelector('.item .left span').innerText)`)
}

// metric are the values of a metric by its label; pattern matches both.
func metric(at *installation, pattern string) map[string]int {
	values := map[string]int{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(at.must(http.StatusOK, "GET", "/metrics", "").Body), -1) {
		values[m[1]], _ = strconv.Atoi(m[2]) // the pattern has digits only
	}
	return values
}

const focused = `document.activeElement.innerText`

func pausedByKeyboard(at *installation, b testenv.Tab) {
	at.openSale("quiet", "lamp", 50)
	b.Open(at.internal + "/")
	const sale = `document.querySelector('.sale[data-key=kquiet]')`
	b.Until(sale + `?.dataset.state === 'open'`)
	b.TabTo(focused + ` === 'Pause' && ` + sale + `.contains(document.activeElement)`)
	if outline := testenv.Eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
		at.t.Errorf("the focus is not to be seen: %s", outline)
	}
	b.Do(chromedp.KeyEvent(kb.Enter))
	b.Until(`document.querySelector('dialog').open && ` + focused + ` === 'Cancel'`)
	b.Picture("live/question-1280-light.png", 1280, 900, "light")
	b.Do(chromedp.KeyEvent(kb.Escape))
	b.Until(`!document.querySelector('dialog').open && ` + focused + ` === 'Pause'`)
	b.Do(chromedp.KeyEvent(kb.Enter))
	b.Until(`document.querySelector('dialog').open`)
	b.Do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.Until(sale + `.dataset.state === 'paused' && ` + focused + ` === 'Resume'`) // and the focus is still there
	b.Picture("live/paused-1280-dark.png", 1280, 900, "dark")
	if n := at.number(`SELECT count(*) FROM sales WHERE sale = 'quiet' AND switch = 'paused'`); n != 1 {
		at.t.Error("the database does not say so")
	}
	at.audited("pause-sale", "/v1/sales/quiet/pause")
	if a := at.order("quiet", "lamp", "ada"); !strings.Contains(string(a.Body), `"paused"`) {
		at.t.Errorf("an order: %v", a)
	}
	click(b, `.sale[data-key=kquiet] .switch`)
	b.Until(sale + `.dataset.state === 'open'`)
	at.audited("open-sale", "/v1/sales/quiet/open")
}

// click presses a button and confirms.
func click(b testenv.Tab, selector string) {
	b.Do(chromedp.Click(selector))
	b.Until(`document.querySelector('dialog').open`)
	b.Do(chromedp.Click(`dialog .primary`))
	b.Until(`document.querySelector('#toast').innerText.endsWith(': done')`)
}

func aRoomIsHeld(at *installation, b testenv.Tab) {
	if testenv.Eval[bool](b, `document.querySelector('#rooms').checkVisibility()`) {
		at.t.Error("there is no room, and a part of the page for them")
	}
	now := time.Now().UTC()
	at.must(http.StatusCreated, "PUT", "/v1/rooms/hall", fmt.Sprintf(`{"mode":"fifo","capacity":2,"starts_at":%q}`, now.Add(-time.Minute).Format(time.RFC3339)))
	at.must(http.StatusCreated, "PUT", "/v1/rooms/later", fmt.Sprintf(`{"mode":"draw","gather_at":%q,"starts_at":%q}`, now.Add(-time.Minute).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)))
	visit := func(status int, method, path, user string) {
		at.t.Helper()
		servetest.Until(at.t, status, func() servetest.Answer {
			return servetest.Call(method, at.public+"/v1/rooms/hall/place"+path, "", "X-User-ID", user)
		})
	}
	for _, user := range []string{"ann", "bob", "cem", "dan", "eve"} {
		visit(http.StatusCreated, "POST", "", user)
	}
	visit(http.StatusOK, "POST", "/claim", "ann")
	at.must(http.StatusCreated, "PUT", "/v1/rooms/lounge", fmt.Sprintf(`{"mode":"fifo","capacity":1,"starts_at":%q,"lanes":[{"lane":"members","share":30,"tier":"gold"},{"lane":"all","share":70}]}`, now.Add(-time.Minute).Format(time.RFC3339)))
	for _, user := range []string{"ann", "bob"} {
		servetest.Until(at.t, http.StatusCreated, func() servetest.Answer {
			return servetest.Call("POST", at.public+"/v1/rooms/lounge/place", "", "X-User-ID", user)
		})
	}
	b.Until(`document.querySelector('.room[data-key=klounge] .lanes')?.innerText === 'members: 0 waiting, 0 had their turn, share 30 %\nall: 1 waiting, 1 had their turn, share 70 %'`)
	const room = `document.querySelector('.room[data-key=khall]')`
	says := func(name, text string) {
		b.Until(fmt.Sprintf("%s?.querySelector('.%s dd').innerText === %q", room, name, text))
	}
	says("waiting", "3")
	says("admitted", "1")
	says("served", "2")
	says("outlook", "likely to get a turn")
	b.Until(room + `.dataset.state === 'serving'`)
	b.Do(chromedp.Click(`.room[data-key=khall] .switch`))
	b.Until(`document.querySelector('dialog').open && document.querySelector('dialog input').checkVisibility()`)
	b.Do(chromedp.SendKeys(`dialog input`, "the hall is full"))
	b.Picture("live/hold-1280-light.png", 1280, 900, "light")
	b.Do(chromedp.Click(`dialog .primary`))
	b.Until(room + `.dataset.state === 'held' && ` + room + `.querySelector('button').innerText === 'Resume'`)
	testenv.Eval[bool](b, `document.querySelector('#rooms').scrollIntoView(), true`)
	b.Picture("live/rooms-1280-dark.png", 1280, 900, "dark")
	b.Picture("live/rooms-320-light.png", 320, 700, "light")
	b.Do(chromedp.EmulateViewport(1280, 900))
	at.audited("hold-room", "/v1/rooms/hall/hold")
	if a := at.must(http.StatusOK, "GET", "/v1/audit?limit=1", ""); !strings.Contains(string(a.Body), "the hall is full") {
		at.t.Errorf("the reason is not in the audit log: %v", a)
	}
	click(b, `.room[data-key=khall] .switch`)
	b.Until(room + `.dataset.state === 'serving'`)
	at.audited("resume-room", "/v1/rooms/hall/resume")
	at.must(http.StatusOK, "POST", "/v1/rooms/hall/close", "")
	b.Until(room + `.dataset.state === 'closed' && !` + room + `.querySelector('button').checkVisibility()`)
}

func aBanIsLifted(at *installation, b testenv.Tab) {
	const name = "<img src=x onerror=hacked=1>"
	at.must(http.StatusOK, "PUT", "/v1/bans/user/"+url.PathEscape(name), `{"for_ms":600000,"reason":"<script>hacked=1</script> \u202e`+strings.Repeat("x", 150)+`"}`)
	b.Until(`document.querySelector('.ban .label')?.innerText.includes('` + name + `')`)
	b.Until(`/\d+ (min|s) left/.test(document.querySelector('.ban .value').innerText)`)
	left := testenv.Eval[string](b, `document.querySelector('.ban .value').innerText`)
	b.Until(`document.querySelector('.ban .value').innerText !== ` + strconv.Quote(left)) // it counts down
	click(b, `.ban button`)
	b.Until(`document.querySelector('.ban') === null && document.activeElement.id === 'bans-title'`)
	if a := at.must(http.StatusOK, "GET", "/v1/bans", ""); !strings.Contains(string(a.Body), `"items":[]`) {
		at.t.Error(a)
	}
	at.audited("delete-ban", "/v1/bans/user/")
}

func aPermitIsReleased(at *installation, b testenv.Tab) {
	at.must(http.StatusCreated, "POST", "/v1/semaphores/report/permits", `{"holder":"nightly"}`)
	waited := make(chan int, 1)
	go func() {
		resp, err := http.Post(at.internal+"/v1/semaphores/report/permits", "application/json", strings.NewReader(`{"holder":"next","wait_ms":30000}`))
		if err != nil {
			waited <- 0
			return
		}
		_ = resp.Body.Close()
		waited <- resp.StatusCode
	}()
	b.Until(`document.querySelector('#semaphores').innerText.includes('1 of 1 held · 1 waiting')`)
	click(b, `.holder button`)
	if status := <-waited; status != http.StatusCreated {
		at.t.Errorf("who waited: %d", status)
	}
	b.Until(`document.querySelector('.holder .label').innerText === 'next'`)
	at.audited("release-permit", "/v1/semaphores/report/permits/")
}

func aDeadLetterIsReplayed(at *installation, b testenv.Tab) {
	at.exec(`ALTER TABLE orders ADD CONSTRAINT no_eve CHECK (buyer <> 'eve')`)
	if a := at.order("quiet", "lamp", "eve"); a.Status != http.StatusAccepted {
		at.t.Fatal(a)
	}
	b.Until(`document.querySelector('.dead .value')?.innerText.includes('no_eve')`)
	b.Picture("live/dead-letter-1280-light.png", 1280, 900, "light")
	at.exec(`ALTER TABLE orders DROP CONSTRAINT no_eve`)
	click(b, `.dead button`)
	b.Until(`document.querySelector('.dead') === null`)
	if n := at.number(`SELECT count(*) FROM orders WHERE buyer = 'eve' AND status = 'confirmed'`); n != 1 {
		at.t.Errorf("%d orders in the database", n)
	}
	at.audited("replay-dead-letter", "/v1/orders/dead/")
}

// What callers send is shown, and does nothing.
func hostileNames(at *installation, b testenv.Tab) {
	at.openSale(strings.Repeat("S", 64), strings.Repeat("i", 64), 10_000_000)
	const script, turned = `<script>hacked=1</script>`, "eve \u202etxt.exe\u2066\u200b"
	at.order("quiet", "lamp", turned)
	at.order("quiet", "lamp", strings.Repeat("x", 10<<10))
	b.Until(`document.querySelector('#latest').innerText.includes('eve ‹202e›txt.exe‹2066›‹200b›')`)
	b.Until(`document.querySelector('#latest').innerText.includes('xxxx…')`)
	for range 22 { // too often at the end
		at.order("quiet", "lamp", script)
	}
	b.Until(`document.querySelector('#latest').innerText.includes('` + script + `')`)
	at.order("quiet", "lamp", script) // those before were too many for one frame
	b.Do(chromedp.SendKeys(`#filter input`, "rate limited"))
	b.Until(`document.querySelector('.answer .by')?.innerText === 'orders'`)
	b.Do(chromedp.Click(`.answer .who`)) // explain
	b.Until(`document.querySelector('#explain .row.bad')?.innerText.includes('rate limited, by the rule orders')`)
	b.Until(`document.querySelector('#explain .list').innerText.includes('20 of 20 in 1 min used, 0 left')`)
	b.Picture("live/explain-1280-light.png", 1280, 900, "light")
	b.Picture("live/explain-320-dark.png", 320, 700, "dark")
	b.Do(chromedp.EmulateViewport(1280, 900))
	if testenv.Eval[bool](b, `'hacked' in window || document.querySelector('main script, main img') !== null`) {
		at.t.Error("a name has become a part of the page")
	}
	if testenv.Eval[bool](b, `/[\u202a-\u202e\u2066-\u2069\u200b]/.test(document.body.innerText)`) {
		at.t.Error("a name turns the page's text around")
	}
}

// Who goes on and on is banned, as is to be seen.
func anAttack(at *installation, b testenv.Tab) {
	over := make(chan struct{})
	var bots sync.WaitGroup
	for i := range 8 {
		bots.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					at.order("quiet", "lamp", fmt.Sprintf("bot-%d", i))
				}
			}
		})
	}
	b.Open(at.internal + "/")
	b.Until(`document.querySelectorAll('.ban').length === 8`)
	b.Until(`Number(document.querySelector('[data-reason=banned]')?.dataset.count) > 300`)
	b.Picture("live/attack-1280-dark.png", 1280, 900, "dark")
	b.Picture("live/attack-320-light.png", 320, 700, "light")
	b.Picture("live/attack-3840-light.png", 3840, 2160, "light")
	close(over)
	bots.Wait()
	b.Do(chromedp.EmulateViewport(1280, 900))
}

// A page of another origin can neither change anything nor read what there is.
func anotherPageMayNot(at *installation, b testenv.Tab) {
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>another</title><link rel=icon href=data:,><p>another page")
	}))
	defer foreign.Close()
	b.Open(foreign.URL)
	pause := at.internal + "/v1/sales/quiet/pause"
	for _, how := range []string{`{method: 'POST', mode: 'no-cors'}`, `{method: 'POST', mode: 'no-cors', body: '{}', headers: {'Content-Type': 'text/plain'}}`, `{mode: 'no-cors'}`} {
		testenv.Eval[string](b, `fetch(`+strconv.Quote(pause)+`, `+how+`).then((a) => a.type)`)
	}
	for _, method := range []string{"GET", "HEAD"} {
		at.must(http.StatusMethodNotAllowed, method, "/v1/sales/quiet/pause", "")
	}
	if n := at.number(`SELECT count(*) FROM sales WHERE sale = 'quiet' AND switch = 'open'`); n != 1 {
		at.t.Error("the sale was paused")
	}
	b.Open(at.internal + "/")
	b.Until(live)
}

// The page finds the server again by itself, and shows what is by then.
func theServerComesBack(at *installation, b testenv.Tab) {
	b.Until(`document.querySelector('.sale[data-key=kquiet]') !== null`)
	testenv.Eval[bool](b, `window.stays = true`)
	if err := at.api.Stop(); err != nil {
		at.t.Fatal(err)
	}
	b.Until(`document.body.classList.contains('stale') && document.querySelector('#state').innerText.startsWith('no ')`)
	b.Picture("live/gone-1280-light.png", 1280, 900, "light")
	at.startAPI()
	b.Until(live + ` && !document.body.classList.contains('stale')`)
	at.openSale("later", "chair", 5)
	b.Until(`document.querySelector('.sale[data-key=klater]')?.dataset.state === 'open'`)
	if !testenv.Eval[bool](b, `window.stays`) {
		at.t.Error("the page was loaded again")
	}
}

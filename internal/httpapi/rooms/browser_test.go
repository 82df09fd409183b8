package rooms_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// start runs an embedded server with variables, such as CORS_ORIGINS=*, and returns the URLs of its listeners.
func start(t *testing.T, variables ...string) (public, internal string) {
	t.Helper()
	p := servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.API([]string{"-listen", "127.0.0.1:0", "-internal-listen", "127.0.0.1:0", "-tidegate-data", t.TempDir(), "-log-format", "json"},
			func(name string) string {
				for _, v := range variables {
					if set, value, _ := strings.Cut(v, "="); set == name {
						return value
					}
				}
				return ""
			}, stderr)
		if err != nil {
			return err
		}
		return embedded.Run(ctx, cfg, cfg.Logger(stderr), func(embedded.Place) {})
	})
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", p.URL("internal")+"/readyz", "") })
	return p.URL("public"), p.URL("internal")
}

// lead waits until the page's first line contains a text.
func lead(b testenv.Tab, text string) {
	b.Until(fmt.Sprintf(`document.querySelector('[data-part=lead]')?.innerText.includes(%q)`, text))
}

// press clicks on a button, which must be shown.
func press(b testenv.Tab, part string) {
	selector := "[data-part=" + part + "]"
	b.Until(fmt.Sprintf(`document.querySelector(%q)?.checkVisibility()`, selector))
	b.Do(chromedp.Click(selector))
}

// A visitor joins, waits, survives a reload, takes the turn and orders, on the page.
func TestAVisitor(t *testing.T) {
	t.Parallel()
	public, internal := start(t)
	must := func(status int, method, url, body string, fields ...string) servetest.Answer {
		t.Helper()
		a := servetest.Call(method, url, body, fields...)
		if a.Status != status {
			t.Fatalf("%s %s: %v", method, url, a)
		}
		return a
	}
	now := time.Now().UTC()
	must(http.StatusCreated, "PUT", internal+"/v1/sales/spring", fmt.Sprintf(`{"starts_at":%q,"ends_at":%q,"hold_ms":0,"items":[{"item":"shoe","stock":1,"final":true}]}`,
		now.Add(-time.Minute).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)))
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>Shop</title><link rel="icon" href="data:,"><h1>%s</h1>`, r.URL.Path)
	}))
	t.Cleanup(shop.Close)
	room := fmt.Sprintf(`{"sale":"spring","item":"shoe","mode":"fifo","gather_at":%q,"starts_at":%q,"claim_ms":60000`,
		now.Add(-time.Minute).Format(time.RFC3339), now.Add(-time.Second).Format(time.RFC3339))
	must(http.StatusCreated, "PUT", internal+"/v1/rooms/queue", room+"}")
	if a := must(http.StatusNotFound, "GET", public+"/rooms/queue", ""); !strings.Contains(string(a.Body), "continue_url") {
		t.Errorf("a room that leads nowhere: %v", a)
	}
	must(http.StatusOK, "PUT", internal+"/v1/rooms/queue", room+fmt.Sprintf(`,"title":"The red shoe","shop":"Shoes & Co","continue_url":"%s/buy","sign_in_url":"%[1]s/login"}`, shop.URL))
	must(http.StatusOK, "POST", internal+"/v1/sales/spring/open", "")
	must(http.StatusCreated, "POST", public+"/v1/rooms/queue/place", "{}", "X-User-ID", "bob")

	b := testenv.NewTab(t, "status of 404", "status of 401") // who has no place yet asks for it; who is not signed in
	b.Do(chromedp.EmulateViewport(320, 700))
	b.Open(public + "/rooms/queue/")
	lead(b, "Sign in first.")
	if testenv.Eval[bool](b, `document.querySelector('[data-part=join]').checkVisibility()`) {
		t.Error("who is not signed in is shown a way to join")
	}
	press(b, "sign-in")
	b.Until(`document.querySelector('h1')?.innerText === '/login'`)
	testenv.Command(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"X-User-ID": "ann"}})
	b.Open(public + "/rooms/queue")
	lead(b, "You have no place yet")
	if heads := testenv.Eval[string](b, `[document.querySelector('h1').innerText, document.querySelector('.shop').innerText, document.title].join('|')`); heads != "The red shoe|Shoes & Co|The red shoe" {
		t.Errorf("the page is headed %q", heads)
	}
	press(b, "join")
	lead(b, "You are next")
	b.Until(`document.querySelector('[data-part=detail]').innerText.includes('Your number is 2')`)
	if testenv.Eval[bool](b, `document.querySelector('[data-part=go]').checkVisibility() || document.querySelector('[data-part=claim]').checkVisibility()`) {
		t.Error("who waits is shown a way to claim or to order")
	}
	if wide := testenv.Eval[int](b, `document.documentElement.scrollWidth`); wide > 320 {
		t.Errorf("the page is %d pixels wide on a screen of 320", wide)
	}
	b.Picture("room/waiting-320-light.png", 320, 700, "light")
	b.Open(public + "/rooms/queue")
	lead(b, "You are next")
	if role := testenv.Eval[string](b, `document.querySelector('[data-part=lead]').getAttribute('role')`); role != "status" {
		t.Errorf("the line that changes has the role %q", role)
	}

	must(http.StatusOK, "POST", internal+"/v1/rooms/queue/hold", "")
	b.Until(`document.querySelector('[data-part=detail]').innerText.includes('paused')`)
	must(http.StatusOK, "POST", internal+"/v1/rooms/queue/resume", "")
	must(http.StatusNoContent, "DELETE", public+"/v1/rooms/queue/place", "", "X-User-ID", "bob")
	lead(b, "It is your turn")
	b.Until(`document.title.startsWith('Your turn!')`)
	b.Until(`/Take it within 0:[0-5]\d,/.test(document.querySelector('[data-part=detail]').innerText)`)
	b.Picture("room/turn-320-dark.png", 320, 700, "dark")
	testenv.Eval[bool](b, `document.addEventListener('tidegate:admitted', (e) => { window.pass = e.detail.pass }), true`)
	press(b, "claim")
	lead(b, "You may order now")
	b.Until(`window.pass.split('.').length === 3`)
	b.Picture("room/admitted-1280-light.png", 1280, 700, "light")
	order := must(http.StatusAccepted, "POST", public+"/v1/sales/spring/orders", `{"item":"shoe"}`, "X-User-ID", "ann")
	if !strings.Contains(string(order.Body), "order_id") {
		t.Errorf("%s", order.Body)
	}
	lead(b, "You have ordered")

	must(http.StatusCreated, "PUT", internal+"/v1/rooms/desk", fmt.Sprintf(`{"mode":"fifo","starts_at":%q,"rate_per_min":600,"continue_url":"%s/desk"}`, now.Add(-time.Second).Format(time.RFC3339), shop.URL))
	b.Open(public + "/rooms/desk")
	press(b, "join")
	press(b, "claim")
	press(b, "go")
	b.Until(`document.querySelector('h1')?.innerText === '/desk'`)
}

// Where the server has IDENTITY=jwt, the page takes the visitor's token from its address, and a shop's page from its own function.
func TestTokens(t *testing.T) {
	t.Parallel()
	var page string
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) }))
	t.Cleanup(shop.Close)
	secret := testenv.Secret
	public, internal := start(t, "IDENTITY=jwt", "JWT_SECRET="+secret, "CORS_ORIGINS="+shop.URL)
	began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	if a := servetest.Call("PUT", internal+"/v1/rooms/queue", fmt.Sprintf(`{"mode":"fifo","starts_at":%q,"continue_url":"/"}`, began)); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(secret)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token := func(user string) string {
		text, err := jwt.Signed(signer).Claims(jwt.Claims{Subject: user, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	b := testenv.NewTab(t, "status of 404", "status of 401")
	b.Open(public + "/rooms/queue")
	lead(b, "Sign in first.")
	testenv.Eval[bool](b, fmt.Sprintf(`location.hash = 'token=%s', true`, token("ann"))) // a link to the page that is open
	press(b, "join")
	lead(b, "You are next")
	if at := testenv.Eval[string](b, `location.href`); strings.Contains(at, "token") {
		t.Errorf("the address still has the token: %s", at)
	}
	page = fmt.Sprintf(`<!doctype html><title>Shop</title><link rel="icon" href="data:,"><div data-tidegate-room="queue" data-token="visitorToken"></div>
		<script>window.visitorToken = async () => %q</script><script src="%s/rooms/files/room.js"></script>`, token("bob"), public)
	b.Open(shop.URL + "#token=of-the-shop")
	press(b, "join")
	lead(b, "1 ahead of you")
	if hash := testenv.Eval[string](b, `location.hash`); hash != "#token=of-the-shop" {
		t.Errorf("the script has taken the shop's token out of its address: %q", hash)
	}
	for user, number := range map[string]string{"ann": `"number":1,`, "bob": `"number":2,`} {
		if a := servetest.Call("GET", public+"/v1/rooms/queue/place", "", "Authorization", "Bearer "+token(user)); !strings.Contains(string(a.Body), number) {
			t.Errorf("%s: %v", user, a)
		}
	}
}

// The script fails to reach the server, and says so; the page goes on when it is back.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	public, internal := start(t)
	now := time.Now().UTC()
	if a := servetest.Call("PUT", internal+"/v1/rooms/calls", fmt.Sprintf(`{"mode":"fifo","capacity":1,"requires_user":false,"continue_url":"/","gather_at":%q,"starts_at":%q}`,
		now.Add(-time.Minute).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	b := testenv.NewTab(t, "status of 404")
	b.Open(public + "/rooms/calls")
	press(b, "join")
	b.Until(`document.querySelector('[data-part=detail]').innerText.includes('Your number is 1') || document.querySelector('[data-part=lead]').innerText.includes('next')`)
	testenv.Eval[bool](b, `window.connected = window.fetch, window.fetch = () => Promise.reject(new TypeError('no connection')), window.dispatchEvent(new Event('online'))`)
	b.Until(`document.querySelector('[data-part=note]').innerText.includes('No connection')`)
	testenv.Eval[bool](b, `window.fetch = window.connected, window.dispatchEvent(new Event('online'))`)
	b.Until(`!document.querySelector('[data-part=note]').innerText.includes('No connection')`)
	if n := testenv.Eval[string](b, `document.querySelector('[data-part=detail]').innerText`); !strings.Contains(n, "Your number is 1") {
		t.Errorf("after the outage: %q", n)
	}
}

// The page says so when a connection is dead without a sign, remembers a place where the browser stores nothing, and waits no longer than an hour.
func TestHardBrowsers(t *testing.T) {
	t.Parallel()
	public, internal := start(t)
	began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	if a := servetest.Call("PUT", internal+"/v1/rooms/calls", fmt.Sprintf(`{"mode":"fifo","capacity":1,"requires_user":false,"continue_url":"/","starts_at":%q}`, began)); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	if a := servetest.Call("POST", public+"/v1/rooms/calls/place", ""); a.Status != http.StatusCreated { // somebody in front
		t.Fatal(a)
	}
	b := testenv.NewTab(t, "status of 404")
	testenv.Command(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get() { throw new DOMException('blocked', 'SecurityError') } })
			window.waits = []; const later = window.setTimeout; window.setTimeout = (f, ms) => (window.waits.push(ms), later(f, Math.min(ms, 50)))`})
	b.Open(public + "/rooms/calls")
	press(b, "join")
	lead(b, "You are next")
	testenv.Eval[bool](b, `window.waits = [], true`)
	b.Until(`window.waits.length > 3`) // looks that found the place by its token
	lead(b, "You are next")

	testenv.Eval[bool](b, `window.connected = window.fetch, window.limited = AbortSignal.timeout.bind(AbortSignal), window.fetch = (url, o) => new Promise((_, reject) => o.signal.addEventListener('abort', () => reject(o.signal.reason))),
		AbortSignal.timeout = (ms) => { window.limit = ms; const c = new AbortController(); later(() => c.abort(), 50); return c.signal }, true`)
	b.Until(`window.limit === 15000 && document.querySelector('[data-part=note]').innerText.includes('No connection')`)
	for _, refused := range []string{"true", "url.endsWith('/place')"} {
		testenv.Eval[bool](b, `window.waits = [], window.fetch = async (url, o) => `+refused+` ? new Response('{"title":"Banned"}', { status: 403, headers: { 'Retry-After': '3456000' } }) : connected(url), true`)
		b.Until(`window.waits.filter((ms) => ms >= 3600000).length > 1`)
		if most := testenv.Eval[float64](b, `Math.max(...window.waits)`); most > 3_600_000 {
			t.Errorf("the page waits %.0f ms, which is a storm of requests in a browser", most)
		}
	}
	testenv.Eval[bool](b, `window.fetch = window.connected, AbortSignal.timeout = window.limited, true`)
	lead(b, "You are next")

	// By keyboard: the focus is somewhere after each change, and nothing is given up without a question.
	testenv.Eval[bool](b, `document.querySelector('[data-part=leave]').focus(), true`)
	b.Do(chromedp.KeyEvent(kb.Enter))
	b.Until(`document.activeElement.dataset.part === 'no' && document.querySelector('[data-part=sure]').checkVisibility()`)
	b.Do(chromedp.KeyEvent(kb.Enter))
	b.Until(`document.activeElement.dataset.part === 'leave'`)
	b.Do(chromedp.KeyEvent(kb.Enter))
	press(b, "yes")
	lead(b, "You gave up your place")
	b.Until(`document.activeElement.dataset.part === 'lead'`)
}

// The script works in a page of another origin that the server allows, with the visitor's cookies unless every origin may. In one that it does
// not allow, it claims nothing.
func TestAPageOfAnotherOrigin(t *testing.T) {
	t.Parallel()
	for what, allows := range map[string]struct {
		origins func(shop string) string
		joins   bool
		cookies bool
	}{
		"listed":    {func(shop string) string { return shop }, true, true},
		"every one": {func(string) string { return "*" }, true, false},
		"another":   {func(string) string { return "https://shop.example" }, false, false},
	} {
		t.Run(what, func(t *testing.T) {
			var page string
			shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) }))
			t.Cleanup(shop.Close)
			public, internal := start(t, "CORS_ORIGINS="+allows.origins(shop.URL))
			began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
			if a := servetest.Call("PUT", internal+"/v1/rooms/calls", fmt.Sprintf(`{"mode":"fifo","capacity":1,"requires_user":false,"starts_at":%q}`, began)); a.Status != http.StatusCreated {
				t.Fatal(a)
			}
			page = fmt.Sprintf(`<!doctype html><title>Shop</title><link rel="icon" href="data:,"><div data-tidegate-room="calls"></div><script src="%s/rooms/files/room.js"></script>`, public)
			b := testenv.NewTab(t, "CORS policy", "status of 404", "net::ERR_FAILED")
			b.Open(shop.URL)
			if !allows.joins {
				b.Until(`document.querySelector('[data-part=note]').innerText.includes('No connection')`)
				if note := testenv.Eval[string](b, `document.querySelector('[data-part=note]').innerText`); strings.Contains(note, "kept") {
					t.Errorf("to somebody without a place: %q", note)
				}
				return
			}
			press(b, "join")
			lead(b, "It is your turn")
			press(b, "claim")
			lead(b, "You may go on now")
			read := fmt.Sprintf(`fetch(%q, {credentials: 'include'}).then(() => true, () => false)`, public+"/v1/rooms/calls")
			if testenv.Eval[bool](b, read) != allows.cookies {
				t.Errorf("pages may send cookies: %t", !allows.cookies)
			}
		})
	}
}

// desk returns a tab with the page of a room that has not opened. The visitor is not signed in.
func desk(t *testing.T) testenv.Tab {
	t.Helper()
	public, internal := start(t)
	if a := servetest.Call("PUT", internal+"/v1/rooms/desk", `{"mode":"fifo","starts_at":"2099-05-17T12:00:00Z","continue_url":"/"}`); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	b := testenv.NewTab(t, "status of 401")
	b.Open(public + "/rooms/desk")
	lead(b, "The room has not opened yet.")
	return b
}

// What the page shows at each end of a place, in rooms with and without stock.
func TestWords(t *testing.T) {
	t.Parallel()
	b := desk(t)
	b.Until(`document.querySelector('[data-part=detail]').innerText.includes('May')`)
	// The page looks when it is asked to, and not again by itself.
	testenv.Eval[bool](b, `window.later = window.setTimeout, window.setTimeout = (f, ms) => ms < 1000 ? later(f, ms) : window.looked++, window.answers = [], window.fetch = (url) => Promise.resolve(new Response(...window.answers[url.endsWith('/place') ? 1 : 0])), true`)
	for _, tt := range []struct {
		doc, place string
		status     int
		lead       string
		join       bool
		note       string
	}{
		{`"phase":"recovering"`, `"title":"The store is unavailable"`, 503, "Your place cannot be read at the moment.", false, "The store is unavailable"},
		{`"phase":"serving"`, `"title":"Too many requests","detail":"Ask again later."`, 429, "You have no place yet.", true, "Ask again later."},
		{`"phase":"closed","stock":3`, `"state":"turned_away"`, 200, "The room is closed.", false, ""},
		{`"phase":"exhausted","stock":0`, `"state":"turned_away"`, 200, "Everything is sold.", false, ""},
		{`"phase":"serving","stock":0`, `"state":"turned_away"`, 200, "No more turns are given.", false, ""},
		{`"phase":"closed"`, `"state":"turned_away"`, 200, "The room is closed.", false, ""},
		{`"phase":"serving","stock":3`, `"state":"done"`, 200, "You have ordered.", false, ""},
		{`"phase":"serving"`, `"state":"done"`, 200, "You are done.", true, ""},
		{`"phase":"closed"`, `"state":"done"`, 200, "You are done.", false, ""},
		{`"phase":"serving"`, `"state":"admitted","pass_until":"2099-05-17T12:00:00Z"`, 200, "You may go on now.", false, ""},
		{`"phase":"serving"`, `"state":"barred","reason":"banned"`, 200, "You cannot take part. You are banned.", false, ""},
		{`"phase":"recovering"`, `"title":"The store is unavailable"`, 503, "You cannot take part. You are banned.", false, "The store is unavailable"}, // what was read last
		{`"phase":"serving"`, `"state":"waiting","position":4,"ahead":3`, 200, "3 ahead of you", false, ""},
		{`"phase":"serving","sign_in_url":"/login"`, `"reason":"unauthenticated"`, 401, "3 ahead of you", false, "Sign in again: this page cannot read your place any more, and what it shows is out of date."},
	} {
		testenv.Eval[bool](b, fmt.Sprintf(`window.answers = ['{"room":"desk",%s}', ['{%s}', {status: %d}]].map((a) => [].concat(a)),
			window.looked = 0, dispatchEvent(new Event('online')), true`, tt.doc, tt.place, tt.status))
		b.Until(`window.looked === 1`)
		got := testenv.Eval[string](b, `document.querySelector('[data-part=lead]').innerText`)
		join := testenv.Eval[bool](b, `document.querySelector('[data-part=join]').checkVisibility()`)
		note := testenv.Eval[string](b, `document.querySelector('[data-part=note]').innerText`)
		if got != tt.lead || join != tt.join || note != tt.note {
			t.Errorf("%s, %s: %q, join %t, note %q; want %q, %t, %q", tt.doc, tt.place, got, join, note, tt.lead, tt.join, tt.note)
		}
	}
	if !testenv.Eval[bool](b, `document.querySelector('[data-part=sign-in]').checkVisibility()`) {
		t.Error("who has to sign in again is not shown where")
	}
}

// The countdown follows the room's clock when the device's is set, and another tab's token alone makes a tab ask for nothing.
func TestTheDevice(t *testing.T) {
	t.Parallel()
	b := desk(t)
	testenv.Eval[bool](b, `window.asked = 0, window.fetch = async (url) => (window.asked++, new Response(url.endsWith('/place') ? '{"state":"turn","turn_until":"2030-01-01T00:09:00Z","poll_after_ms":600000}' :
		'{"room":"desk","phase":"serving","now":"2030-01-01T00:00:00Z"}')), dispatchEvent(new Event('online')), true`)
	shown := func() {
		t.Helper()
		b.Until(`/within 8:\d\d,/.test(document.querySelector('[data-part=detail]').innerText)`)
	}
	shown()
	testenv.Eval[bool](b, `window.real = Date.now, Date.now = () => real() + 3600e3, true`)
	shown()
	testenv.Eval[bool](b, `dispatchEvent(new Event('online')), true`)
	b.Until(`asked === 4`)
	shown()

	testenv.Eval[bool](b, `dispatchEvent(new StorageEvent('storage', {key: 'tidegate:' + location.origin + '/v1/rooms/desk'})), true`)
	testenv.Eval[bool](b, `new Promise((done) => setTimeout(done, 300)).then(() => true)`)
	if n := testenv.Eval[int](b, `asked`); n != 4 {
		t.Errorf("a token that another tab got makes this one send %d requests", n-4)
	}
	testenv.Eval[bool](b, `dispatchEvent(new StorageEvent('storage', {key: 'tidegate:' + location.origin + '/v1/rooms/desk state'})), true`)
	b.Until(`asked === 6`)
}

// The page joins the lane that its element names, and without a name the one that is open to everybody.
func TestALane(t *testing.T) {
	t.Parallel()
	public, internal := start(t)
	if a := servetest.Call("PUT", internal+"/v1/rooms/hall", `{"mode":"fifo","starts_at":"2000-01-01T00:00:00Z","continue_url":"/","capacity":1,"lanes":[{"lane":"first","share":30},{"lane":"all","share":70}]}`); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	b := testenv.NewTab(t, "status of 404") // who has no place yet asks for it
	for user, lane := range map[string]string{"ann": "first", "bob": ""} {
		testenv.Command(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"X-User-ID": user}})
		b.Open(public + "/rooms/hall")
		lead(b, "You have no place yet")
		testenv.Eval[string](b, fmt.Sprintf(`document.querySelector('[data-tidegate-room]').dataset.lane = %q`, lane))
		press(b, "join")
		b.Until(`!document.querySelector('[data-part=lead]').innerText.includes('You have no place yet')`)
		var place struct{ Lane string }
		a := servetest.Call("GET", public+"/v1/rooms/hall/place", "", "X-User-ID", user)
		if a.Into(t, &place); place.Lane != cmp.Or(lane, "all") {
			t.Errorf("%s, whose page says %q, is told: %v", user, lane, a)
		}
	}
}

// In a room with challenges the page solves one for a place, on a small screen and within its own policy.
func TestAChallenge(t *testing.T) {
	t.Parallel()
	public, internal := start(t)
	now := time.Now().UTC()
	if a := servetest.Call("PUT", internal+"/v1/rooms/queue", fmt.Sprintf(`{"mode":"draw","captcha":true,"continue_url":"/","gather_at":%q,"starts_at":%q}`,
		now.Add(-time.Minute).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	if a := servetest.Call("POST", public+"/v1/rooms/queue/place", "", "X-User-ID", "bot"); a.Status != http.StatusForbidden {
		t.Fatalf("a join without a solution: %v", a)
	}
	b := testenv.NewTab(t, "status of 404", "status of 403") // no place yet; the challenge
	testenv.Command(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"X-User-ID": "ann"}})
	b.Do(chromedp.EmulateViewport(320, 700))
	b.Open(public + "/rooms/queue")
	lead(b, "You have no place yet")
	// The solution waits for the picture.
	testenv.Eval[bool](b, `window.send = window.fetch, window.fetch = async (url, o) => { if (o?.headers?.['X-Captcha']) await new Promise((go) => { window.go = go }); return send(url, o) }, true`)
	press(b, "join")
	b.Until(`window.go && document.querySelector('altcha-widget [data-state=verified]')?.checkVisibility()`)
	if wide := testenv.Eval[int](b, `document.documentElement.scrollWidth`); wide > 320 {
		t.Errorf("the page is %d pixels wide on a screen of 320", wide)
	}
	if testenv.Eval[bool](b, `document.querySelector('[data-part=join]').checkVisibility()`) {
		t.Error("the button is shown while the challenge is solved")
	}
	b.Picture("room/challenge-320-light.png", 320, 700, "light")
	testenv.Eval[bool](b, `window.go(), true`)
	lead(b, "You are in")
	if testenv.Eval[bool](b, `document.querySelector('altcha-widget') !== null`) {
		t.Error("the challenge is still there")
	}

	// Without a secure context browsers do not compute hashes.
	testenv.Command(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"X-User-ID": "bob"}})
	b.Open(strings.Replace(public, "127.0.0.1", testenv.Insecure, 1) + "/rooms/queue")
	press(b, "join")
	b.Until(`document.querySelector('[data-part=note]').innerText.includes('does not begin with https:')`)
}

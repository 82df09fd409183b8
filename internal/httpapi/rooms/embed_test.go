package rooms_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// aShop serves pages of another origin, by their path, under a policy as strict as docs/waiting-room.md describes.
type aShop struct {
	*httptest.Server
	public string // the server whose script the pages embed
	pages  map[string]string
}

func newShop(t *testing.T) *aShop {
	s := &aShop{pages: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", strings.ReplaceAll("default-src 'none'; script-src SERVER 'nonce-shop'; style-src SERVER; connect-src SERVER; img-src data:; "+
			"require-trusted-types-for 'script'; trusted-types shop", "SERVER", s.public))
		fmt.Fprintf(w, `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>Shop</title><link rel="icon" href="data:,">%s`,
			strings.ReplaceAll(s.pages[r.URL.Path], "SERVER", s.public))
	}))
	t.Cleanup(s.Close)
	return s
}

const (
	script  = `<script src="SERVER/rooms/files/room.js"></script>`
	element = `<tidegate-room room="calls"></tidegate-room>`
	earlier = `<div data-tidegate-room="calls"></div>` // of pages for earlier versions
	inject  = `<script nonce="shop">addEventListener('load', () => {
		const script = document.createElement('script');
		script.src = trustedTypes.createPolicy('shop', { createScriptURL: (url) => url }).createScriptURL('SERVER/rooms/files/room.js');
		document.head.append(script);
	})</script>`
	module = `<script type="module" src="SERVER/rooms/files/room.js"></script>`
	add    = `<script nonce="shop">addEventListener('load', () => setTimeout(() => {
		const room = document.createElement('tidegate-room');
		room.setAttribute('room', 'calls');
		document.body.append(room);
	}, 50))</script>`
)

// The script works wherever it stands in a page of another origin, in the element and in those of earlier pages, once, and under a strict policy with Trusted Types.
// Without an element it warns.
func TestEmbedding(t *testing.T) {
	t.Parallel()
	shop := newShop(t)
	public, internal := start(t, "CORS_ORIGINS="+shop.URL)
	shop.public = public
	for _, room := range []string{"calls", "other"} {
		if a := servetest.Call("PUT", internal+"/v1/rooms/"+room, fmt.Sprintf(`{"mode":"fifo","capacity":100,"requires_user":false,"starts_at":%q}`, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))); a.Status != http.StatusCreated {
			t.Fatal(a)
		}
	}
	guide, err := os.ReadFile("../../../docs/waiting-room.md")
	if err != nil {
		t.Fatal(err)
	}
	_, snippet, _ := strings.Cut(string(guide), "```html\n")
	snippet, _, found := strings.Cut(snippet, "```")
	if !found || !strings.Contains(snippet, `room="shoes"`) {
		t.Fatalf("the guide shows %q", snippet)
	}
	shop.pages = map[string]string{
		"/guide":            strings.NewReplacer("https://shop.example", "SERVER", `"shoes"`, `"calls"`).Replace(snippet),
		"/head":             script + element,
		"/head, earlier":    script + earlier,
		"/module":           module + element,
		"/module, earlier":  module + earlier,
		"/import":           `<script type="module" nonce="shop">import 'SERVER/rooms/files/room.js'</script>` + element,
		"/injected":         inject + element,
		"/injected earlier": inject + earlier,
		"/end":              element + script,
		"/end, earlier":     earlier + script,
		"/twice":            script + `<tidegate-room data-tidegate-room="calls"></tidegate-room>` + script,
		"/added later":      script + add,
		"/none":             script,
	}
	b := testenv.NewTab(t, "status of 404") // who has no place yet
	testenv.Command(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `window.warnings = []; console.warn = (text) => window.warnings.push(text);
		window.asked = []; const send = window.fetch; window.fetch = (url, o) => (asked.push(String(url)), send(url, o))`})
	for path := range shop.pages {
		if path == "/none" || path == "/added later" {
			continue
		}
		t.Run(path[1:], func(t *testing.T) {
			b := b.Of(t)
			b.Open(shop.URL + path)
			press(b, "join")
			b.Until(`!document.querySelector('[data-part=lead]').innerText.includes('no place')`)
			if n := testenv.Eval[int](b, `document.querySelectorAll('[data-part=lead]').length`); n != 1 {
				t.Errorf("the place is shown %d times", n)
			}
			if warned := testenv.Eval[string](b, `warnings.join()`); warned != "" {
				t.Errorf("a page with an element: %s", warned)
			}
			testenv.Eval[bool](b, `localStorage.clear(), true`)
		})
	}

	b.Open(shop.URL + "/none")
	b.Until(`warnings.join().includes('no element <tidegate-room>')`)

	// An element may be added, moved, given another room and removed at any time; then it asks for nothing.
	b.Open(shop.URL + "/added later")
	press(b, "join")
	lead(b, "It is your turn")
	testenv.Eval[bool](b, `document.body.prepend(document.createElement('p'), document.querySelector('tidegate-room')), true`)
	lead(b, "It is your turn")
	testenv.Eval[bool](b, `document.querySelector('tidegate-room').setAttribute('room', 'other'), true`)
	lead(b, "You have no place yet")
	if n := testenv.Eval[int](b, `document.querySelectorAll('[data-part=lead]').length`); n != 1 {
		t.Errorf("the place is shown %d times", n)
	}
	testenv.Eval[bool](b, `document.querySelector('tidegate-room').remove(), window.asked = [], dispatchEvent(new Event('online')), true`)
	if asked := testenv.Eval[string](b, `new Promise((done) => setTimeout(() => done(asked.join()), 300))`); asked != "" {
		t.Errorf("an element that was removed asks for %s", asked)
	}
}

// A visitor with a keyboard and a small screen passes each state. In each, the page fits, its controls have names, and it shows the same after a reload and on the way
// back from another page.
func TestEveryState(t *testing.T) {
	t.Parallel()
	shop := newShop(t)
	shop.pages["/buy"] = `<h1>Buy</h1>`
	public, internal := start(t, "CORS_ORIGINS="+shop.URL)
	shop.public = public
	shop.pages["/"] = `<link rel="stylesheet" href="SERVER/rooms/files/room.css">` + module + `<tidegate-room room="desk" continue="/buy"></tidegate-room>`
	if a := servetest.Call("PUT", internal+"/v1/rooms/desk", fmt.Sprintf(`{"mode":"fifo","capacity":1,"requires_user":false,"starts_at":%q}`, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	var first struct{ Token string }
	if a := servetest.Call("POST", public+"/v1/rooms/desk/place", ""); a.Status != http.StatusCreated {
		t.Fatal(a)
	} else if a.Into(t, &first); first.Token == "" {
		t.Fatal(a)
	}
	b := testenv.NewTab(t, "status of 404")
	b.Do(chromedp.EmulateViewport(320, 700))
	b.Open(shop.URL)
	back := func() { testenv.Eval[bool](b, `setTimeout(() => history.back()), true`) } // chromedp.NavigateBack waits for a load, of which there is none
	state := func(text string, controls ...string) {
		t.Helper()
		shown := func(how string) {
			t.Helper()
			lead(b, text)
			b.Until(fmt.Sprintf(`document.querySelectorAll(':is([data-part=join], [data-part=claim], [data-part=go], [data-part=leave], [data-part=yes], [data-part=no]):not([hidden])').length === %d`, len(controls)))
			if names := strings.Join(b.Controls(), "|"); names != strings.Join(controls, "|") {
				t.Errorf("%s, %s: the controls are %s, want %v", text, how, names, controls)
			}
			if what := testenv.Eval[string](b, `document.querySelector('[data-part=lead]').role`); what != "status" {
				t.Errorf("%s, %s: the line that changes has the role %q", text, how, what)
			}
			b.Fits()
		}
		shown("at first")
		b.Do(chromedp.Reload())
		shown("after a reload")
		testenv.Eval[bool](b, `addEventListener('pageshow', (e) => { window.thawed = e.persisted }), true`)
		b.Open(shop.URL + "/buy")
		back()
		b.Until(`window.thawed === true`) // the browser kept the page as it was
		shown("on the way back")
	}
	enter := func(control string) {
		t.Helper()
		b.TabTo(fmt.Sprintf(`document.activeElement.innerText === %q`, control))
		b.Do(chromedp.KeyEvent(kb.Enter))
	}
	state("You have no place yet.", "Take a place")
	enter("Take a place")
	state("You are next", "Give up my place")
	if a := servetest.Call("DELETE", public+"/v1/rooms/desk/place", "", "X-Place-Token", first.Token); a.Status != http.StatusNoContent {
		t.Fatal(a)
	}
	state("It is your turn.", "Take my turn", "Give up my place")
	enter("Take my turn")
	state("You may go on now.", "Go on", "Give up my place")
	enter("Go on")
	b.Until(`document.querySelector('h1')?.innerText === 'Buy'`)
	back()
	lead(b, "You may go on now.")
	enter("Give up my place")
	b.Until(`document.querySelector('[data-part=sure]').role === 'alert' && document.activeElement.innerText === 'Keep my place'`)
	if names := strings.Join(b.Controls(), "|"); names != "Go on|Yes, give it up|Keep my place" {
		t.Errorf("the question has the controls %s", names)
	}
	b.Fits()
	testenv.Eval[bool](b, `document.activeElement.blur(), true`)
	enter("Yes, give it up")
	state("You gave up your place.", "Take a place")
}

// A page that the browser translates is read out when something changes, and stays translated while it counts down.
func TestATranslatedPage(t *testing.T) {
	t.Parallel()
	b := desk(t)
	answer := func(place string) {
		testenv.Eval[bool](b, fmt.Sprintf(`window.fetch = async (url) => new Response(url.endsWith('/place') ? '{"poll_after_ms":300,%s}' : (window.asked = (window.asked ?? 0) + 1, '{"room":"desk","phase":"serving","now":"2030-01-01T00:00:00Z"}')),
			dispatchEvent(new Event('online')), true`, place))
	}
	answer(`"state":"turn","turn_until":"2030-01-01T00:09:00Z"`)
	lead(b, "It is your turn.")
	b.Translate()
	lead(b, "«It is your turn.»")
	const detail = `document.querySelector('[data-part=detail]')`
	counts := func(words string) string {
		t.Helper()
		b.Until(fmt.Sprintf(`%s.innerText.replace(/\d:\d\d/, 'TIME') === %q`, detail, words))
		return testenv.Eval[string](b, detail+`.innerText`)
	}
	const words = "«Take it within »TIME«, or it goes to the next.»"
	before := counts(words)
	testenv.Eval[bool](b, `window.read = 0, window.asked = 0, new MutationObserver(() => window.read++).observe(document.querySelector('[data-part=lead]'), {childList: true, subtree: true, characterData: true}),
		window.again = 0, new MutationObserver((all) => { for (const m of all) window.again += [...m.addedNodes].some((n) => n.localName === 'font') }).observe(`+detail+`, {childList: true, subtree: true}), true`)
	b.Until(fmt.Sprintf(`window.asked > 2 && %s.innerText !== %q`, detail, before))
	counts(words)
	if n := testenv.Eval[int](b, `window.read`); n > 0 {
		t.Errorf("the same line is read out %d times", n)
	}
	if n := testenv.Eval[int](b, `window.again`); n > 0 {
		t.Errorf("the line that counts down is translated again, %d times", n)
	}
	answer(`"state":"waiting","position":1204,"ahead":1203`)
	lead(b, "1,203« ahead of you»")
	answer(`"state":"waiting","position":1204,"ahead":1202`)
	lead(b, "1,202« ahead of you»")
	answer(`"state":"waiting","position":1204,"ahead":0`)
	lead(b, "«You are next»")
}

package livepage_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

const (
	viewerToken   = "a-token-for-the-hall"
	operatorToken = "a-token-for-an-operator"
)

// The page takes a token once. Only its own pages can use what the browser stores for it.
func TestSigningIn(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	list := func(content string) {
		t.Helper()
		if err := os.WriteFile(tokens+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tokens+".new", tokens); err != nil {
			t.Fatal(err)
		}
	}
	viewer, operator := "- {name: hall, role: viewer, token: "+viewerToken+"}\n", "- {name: ann, role: operator, token: "+operatorToken+"}\n"
	list(viewer + operator)
	at := install(t, "TOKENS_FILE", tokens)
	must := func(status int, method, path, body string) servetest.Answer {
		t.Helper()
		a := servetest.Call(method, at.internal+path, body, "X-Tidegate-Token", operatorToken)
		if a.Status != status {
			t.Fatalf("%s %s: %v", method, path, a)
		}
		return a
	}
	servetest.OpenSale(t, at.internal, "flash", servetest.Sale("shoe", 5), "X-Tidegate-Token", operatorToken)
	must(http.StatusOK, "PUT", "/v1/bans/user/eve", `{"for_ms":600000}`)

	b := testenv.NewTab(t, append([]string{"status of 401"}, expected...)...)
	b.Do(chromedp.EmulateViewport(1280, 900))
	b.Open(at.internal + "/")
	signIn := func(token string) {
		t.Helper()
		b.Until(`document.querySelector('#session')?.checkVisibility() && document.querySelector('#state').innerText === 'sign in'`)
		b.Do(chromedp.SendKeys(`#session input`, token), chromedp.Click(`#session button`))
	}
	const signedIn = live + ` && !document.querySelector('#session').checkVisibility() && document.querySelector('main').checkVisibility() && document.querySelector('.sale[data-key=kflash]') && document.querySelector('.ban')`

	signIn("a-token-that-is-no-token")
	b.Until(`document.querySelector('#session [role=alert]').innerText === 'Authentication is required: This token is not known here.'`)
	if testenv.Eval[bool](b, `document.querySelector('main').checkVisibility()`) {
		t.Error("the page is shown to a stranger")
	}
	b.Picture("live/sign-in-1280-light.png", 1280, 900, "light")
	b.Picture("live/sign-in-320-dark.png", 320, 700, "dark")
	b.Do(chromedp.EmulateViewport(1280, 900))
	testenv.Eval[string](b, `document.querySelector('#session input').value = ''`)

	signIn(viewerToken)
	b.Until(signedIn)
	if n := testenv.Eval[int](b, `[...document.querySelectorAll('.change')].filter((e) => e.checkVisibility()).length`); n != 0 {
		t.Errorf("a viewer is shown %d buttons that change something", n)
	}
	if answer := testenv.Eval[int](b, `fetch('/v1/sales/flash/pause', {method: 'POST'}).then((a) => a.status)`); answer != http.StatusForbidden {
		t.Errorf("a viewer pauses a sale: %d", answer)
	}
	if cookie := testenv.Eval[string](b, `document.cookie`); cookie != "" {
		t.Errorf("a script can read %q", cookie)
	}
	b.Open(at.internal + "/") // the cookie is there
	b.Until(signedIn)

	b.Do(chromedp.Click(`#leave`))
	signIn(operatorToken)
	b.Until(signedIn)
	click(b, `.sale[data-key=kflash] .switch`)
	b.Until(`document.querySelector('.sale[data-key=kflash]').dataset.state === 'paused'`)
	if a := must(http.StatusOK, "GET", "/v1/audit?limit=1", ""); !strings.Contains(string(a.Body), `"actor":"ann"`) {
		t.Errorf("%v", a)
	}

	t.Run("another page may not", func(t *testing.T) {
		foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<!doctype html><title>another</title><link rel=icon href=data:,><p>another page")
		}))
		defer foreign.Close()
		// Another port is the same site to a browser, and it sends the cookie; another name is not.
		for _, from := range []string{foreign.URL, strings.Replace(foreign.URL, "127.0.0.1", "localhost", 1)} {
			b := b.Of(t)
			b.Open(from)
			for _, path := range []string{"/v1/authz/shop", "/v1/sales/flash/orders.csv", "/v1/sales/flash/open", "/session"} {
				for _, how := range []string{`{mode: 'no-cors', credentials: 'include'}`, `{mode: 'no-cors', credentials: 'include', method: 'POST'}`} {
					testenv.Eval[string](b, `fetch(`+strconv.Quote(at.internal+path)+`, `+how+`).then((a) => a.type)`)
				}
				testenv.Eval[bool](b, `new Promise((done) => { const image = new Image(); image.onerror = image.onload = () => done(true); image.src = `+strconv.Quote(at.internal+path)+`; })`)
			}
		}
		for path, want := range map[string]string{
			"/v1/explain?ip=127.0.0.1&route=/shop&method=GET": `"remaining":3`,
			"/v1/semaphores/report":                           `"granted":0`,
			"/v1/sales":                                       `"switch":"paused"`,
		} {
			if a := must(http.StatusOK, "GET", path, ""); !strings.Contains(string(a.Body), want) {
				t.Errorf("%s is not in %v", want, a)
			}
		}
	})

	b.Open(at.internal + "/")
	b.Until(signedIn)
	list(viewer)
	b.Until(`document.querySelector('#state').innerText === 'session ended: sign in again' && document.querySelector('#session').checkVisibility()`)
	if a := servetest.Call("GET", at.internal+"/v1/rules", "", "X-Tidegate-Token", operatorToken); a.Status != http.StatusUnauthorized {
		t.Errorf("the token that has gone: %v", a)
	}
	b.Do(chromedp.SendKeys(`#session input`, viewerToken), chromedp.Click(`#session button`))
	b.Until(signedIn)
	if err := at.api.Stop(); err != nil {
		t.Fatal(err)
	}
	at.startAPI()
	b.Until(fmt.Sprintf(`%s && !document.body.classList.contains('stale')`, signedIn)) // by the cookie of before
}

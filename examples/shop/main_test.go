package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// startTidegate returns where an embedded server is.
func startTidegate(t *testing.T) (public, internal string) {
	t.Helper()
	at := make(chan embedded.Place, 1)
	folder := t.TempDir()
	servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		args := []string{
			"-listen", "127.0.0.1:0", "-internal-listen", "127.0.0.1:0", "-tidegate-data", folder, "-log-format", "json", "-trusted-proxies", "127.0.0.1",
		}
		cfg, err := config.API(args, func(string) string { return "" }, stderr)
		if err != nil {
			return err
		}
		return embedded.Run(ctx, cfg, cfg.Logger(stderr), func(p embedded.Place) { at <- p })
	})
	p := <-at
	client := newTidegate(p.Public, p.Internal, "")
	defer client.client.CloseIdleConnections()
	if err := client.putOnSale(t.Context(), "shop", "ticket", 5); err != nil {
		t.Fatal(err)
	}
	return p.Public, p.Internal
}

// open serves a shop, and returns its URL.
func open(t *testing.T, public, internal string) string {
	t.Helper()
	client := newTidegate(public, internal, "")
	server := httptest.NewServer(newShop(client, "shop", "ticket"))
	t.Cleanup(func() {
		server.Close()
		client.client.CloseIdleConnections()
	})
	return server.URL
}

// A visitor has cookies, and follows no redirects.
type visitor struct {
	t      *testing.T
	shop   string
	client *http.Client
}

func newVisitor(t *testing.T, shop string) *visitor {
	jar, _ := cookiejar.New(nil) // without options it never fails
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{t, shop, &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (v *visitor) do(method, path, form string, headers ...string) answer {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, v.shop+path, strings.NewReader(form))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := v.client.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

var keyField = regexp.MustCompile(`name="key" value="([^"]+)"`)

// key is that of the form on a page.
func (v *visitor) key(page answer) string {
	v.t.Helper()
	found := keyField.FindStringSubmatch(page.body)
	if found == nil {
		v.t.Fatalf("no form on %v", page)
	}
	return found[1]
}

// buy sends the form with this key, and returns the path of the order page.
func (v *visitor) buy(key string) string {
	v.t.Helper()
	a := v.do("POST", "/orders", url.Values{"key": {key}}.Encode())
	if a.status != http.StatusSeeOther {
		v.t.Fatalf("%v", a)
	}
	return a.header.Get("Location")
}

// follow does what a browser does with the order page, until the order has another status.
func (v *visitor) follow(path string) answer {
	v.t.Helper()
	for {
		a := v.do("GET", path, "")
		next, ok := strings.CutPrefix(a.header.Get("Refresh"), "0; url=")
		if a.status != http.StatusOK || !ok {
			return a
		}
		path = next
	}
}

func (v *visitor) wants(a answer, status int, text string) {
	v.t.Helper()
	if a.status != status || !strings.Contains(a.body, text) {
		v.t.Errorf("want %d and %q: %v", status, text, a)
	}
}

func TestAnOrder(t *testing.T) {
	public, internal := startTidegate(t)
	shop := open(t, public, internal)
	v := newVisitor(t, shop)
	home := v.do("GET", "/", "")
	v.wants(home, http.StatusOK, "5 of 5 are free")
	key := v.key(home)
	path := v.buy(key)
	if again := v.buy(key); again != path {
		t.Errorf("a double click: %s and %s", path, again)
	}
	v.wants(v.follow(path), http.StatusOK, "It is yours (number 1) if you pay before")
	for !strings.Contains(v.do("GET", "/", "").body, "4 of 5 are free") { // it is looked up a few times a second
		runtime.Gosched()
	}
	v.wants(v.do("POST", "/orders", url.Values{"key": {v.key(v.do("GET", "/", ""))}}.Encode()), http.StatusConflict, "as many as one buyer can have")

	stranger := newVisitor(t, shop)
	for _, a := range []answer{stranger.do("GET", path, ""), stranger.do("POST", path+"/cancel", ""), stranger.do("POST", path+"/pay", "")} {
		stranger.wants(a, http.StatusNotFound, "You have no such order")
	}

	if a := v.do("POST", path+"/pay", ""); a.status != http.StatusSeeOther || a.header.Get("Location") != path {
		t.Errorf("%v", a)
	}
	v.wants(v.follow(path), http.StatusOK, "Paid. Thank you!")
	v.wants(v.do("POST", path+"/cancel", ""), http.StatusConflict, "cannot be cancelled any more")
	v.wants(v.do("GET", "/", ""), http.StatusOK, ": paid</li>")
}

func TestACancelledOrder(t *testing.T) {
	public, internal := startTidegate(t)
	v := newVisitor(t, open(t, public, internal))
	path := v.buy(v.key(v.do("GET", "/", "")))
	v.follow(path)
	if a := v.do("POST", path+"/cancel", ""); a.status != http.StatusSeeOther {
		t.Fatalf("%v", a)
	}
	v.wants(v.follow(path), http.StatusOK, "You have cancelled it")
	v.wants(v.do("POST", path+"/pay", ""), http.StatusConflict, "You get your money back")
	if again := v.buy(v.key(v.do("GET", "/", ""))); again == path {
		t.Error("a new order is the cancelled one")
	}
}

// Answers get lost on the way: the order is there once, and the buyer finds it.
func TestALostAnswer(t *testing.T) {
	public, internal := startTidegate(t)
	behind, _ := url.Parse(public)
	var lose atomic.Int64
	lose.Store(1)
	proxy := httputil.NewSingleHostReverseProxy(behind)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == http.MethodPost && lose.Add(-1) >= 0 {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	between := httptest.NewServer(proxy)
	defer between.Close()
	v := newVisitor(t, open(t, between.URL, internal))
	v.wants(v.follow(v.buy(v.key(v.do("GET", "/", "")))), http.StatusOK, "It is yours")

	v = newVisitor(t, v.shop)
	lose.Store(1000) // of every try: net/http repeats by itself what has an Idempotency-Key
	key := v.key(v.do("GET", "/", ""))
	page := v.do("POST", "/orders", url.Values{"key": {key}}.Encode())
	v.wants(page, http.StatusServiceUnavailable, "you will not get two orders")
	if again := v.key(page); again != key {
		t.Errorf("the form has key %s, and the order that may stand %s", again, key)
	}
	lose.Store(0)
	path := v.buy(key)
	if list := v.do("GET", "/", ""); strings.Count(list.body, "<li>") != 1 || !strings.Contains(list.body, path) {
		t.Errorf("%v", list)
	}
}

func TestRefusals(t *testing.T) {
	for reason, want := range map[string]struct {
		status int
		title  string
		text   string
	}{
		"sold_out":          {409, "The item is sold out", "Sold out."},
		"rate_limited":      {429, "Too many requests", "That was too fast. Please wait a moment. Try again in 7 s."},
		"something_new":     {403, "It has a title", "It has a title"},
		"store_unavailable": {503, "The service cannot decide", "We do not know yet."},
	} {
		tidegate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			if want.status == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "7")
			}
			w.WriteHeader(want.status)
			_, _ = io.WriteString(w, `{"reason":"`+reason+`","title":"`+want.title+`"}`)
		}))
		v := newVisitor(t, open(t, tidegate.URL, tidegate.URL))
		a := v.do("POST", "/orders", "key=k1")
		v.wants(a, want.status, want.text)
		if want.status == http.StatusTooManyRequests && a.header.Get("Retry-After") != "7" {
			t.Errorf("Retry-After: %s", a.header.Get("Retry-After"))
		}
		tidegate.Close()
	}
}

// The data sent to Tidegate: buyer and address for orders, the token for payments only.
func TestWhatTidegateIsTold(t *testing.T) {
	told := make(chan http.Header, 1)
	tidegate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header
		_, _ = io.WriteString(w, `{}`)
	}))
	defer tidegate.Close()
	client := newTidegate(tidegate.URL, tidegate.URL, "secret")
	defer client.client.CloseIdleConnections()
	if _, err := client.place(t.Context(), buyer{user: "ann"}, "demo", "ticket", "k1"); err != nil {
		t.Fatal(err)
	}
	if h := <-told; h.Get("X-User-ID") != "ann" || h.Get("X-Forwarded-For") == "" || h.Get("Idempotency-Key") != "k1" || h.Get("Authorization") != "" {
		t.Errorf("an order: %v", h)
	}
	if _, err := client.paid(t.Context(), "o1", "p1"); err != nil {
		t.Fatal(err)
	}
	if h := <-told; h.Get("X-User-ID") != "" || h.Get("Authorization") != "Bearer secret" {
		t.Errorf("a payment: %v", h)
	}
}

func TestFormsOfOtherSites(t *testing.T) {
	tidegate := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("Tidegate was asked") }))
	defer tidegate.Close()
	v := newVisitor(t, open(t, tidegate.URL, tidegate.URL))
	for _, path := range []string{"/orders", "/orders/1/pay", "/orders/1/cancel"} {
		if a := v.do("POST", path, "key=k1", "Sec-Fetch-Site", "cross-site"); a.status != http.StatusForbidden {
			t.Errorf("%s: %v", path, a)
		}
	}
}

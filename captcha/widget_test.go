package captcha_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/testenv"
)

// The files are those that the README names.
func TestWidgetIsUnchanged(t *testing.T) {
	readme := string(must(os.ReadFile("widget/README.md")))
	rows := regexp.MustCompile(`(?m)^\| (\S+) \| \S+ \| ([0-9a-f]{64}) \|$`).FindAllStringSubmatch(readme, -1)
	if len(rows) != 4 {
		t.Fatalf("%d files with sums", len(rows))
	}
	for _, row := range rows {
		sum := sha256.Sum256(must(os.ReadFile("widget/" + row[1])))
		if got := hex.EncodeToString(sum[:]); got != row[2] {
			t.Errorf("%s: %s, want %s", row[1], got, row[2])
		}
	}
}

func TestWidgetFiles(t *testing.T) {
	h := captcha.Widget()
	get := func(path, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path = path
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for path, kind := range map[string]string{"widget.js": "text/javascript", "sha.js": "text/javascript", "altcha.css": "text/css"} {
		w := get(path, "")
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Header().Get("Cache-Control") != "no-cache" ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if again := get(path, w.Header().Get("Etag")); again.Code != 304 {
			t.Errorf("%s again: %d", path, again.Code)
		}
	}
	for _, path := range []string{"", "README.md", "../doc.go", "widget/widget.js"} {
		if w := get(path, ""); w.Code != 404 {
			t.Errorf("%q: %d", path, w.Code)
		}
	}
}

const widgetPage = `<!doctype html>
<html lang="en"><title>A form</title>
<link rel="stylesheet" href="/captcha/altcha.css">
<script type="module" src="/captcha/widget.js"></script>
<form method="post" action="/form">
<altcha-widget challenge="/challenge" auto="onload"></altcha-widget>
<button>Send</button>
</form></html>`

// The widget solves a challenge by itself in a browser that loads nothing but files of this server.
func TestWidgetInABrowser(t *testing.T) {
	p := newProof(t, func(o *captcha.ProofOfWorkOptions) { o.MaxNumber = 2000 })
	mux := http.NewServeMux()
	mux.Handle("/captcha/", http.StripPrefix("/captcha/", captcha.Widget()))
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /challenge", func(w http.ResponseWriter, r *http.Request) {
		c, err := p.Challenge(r.Context(), login)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(c.JSON)
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; worker-src 'self'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(widgetPage))
	})
	mux.HandleFunc("POST /form", func(w http.ResponseWriter, r *http.Request) {
		err := p.Verify(r.Context(), r.FormValue("altcha"), login, nobody)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><p id="result">solved: %t</p>`, err == nil)
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx := testenv.Browser(t)
	if err := chromedp.Do(ctx,
		chromedp.Navigate(server.URL),
		chromedp.WaitReady(`altcha-widget [data-state="verified"], altcha-widget [data-state="error"]`),
		chromedp.Click("button"),
	); err != nil {
		t.Fatal(err)
	}
	text, err := chromedp.Run(ctx, chromedp.Text("#result"))
	if err != nil || text != "solved: true" {
		t.Errorf("%q %v", text, err)
	}
}

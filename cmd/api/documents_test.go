package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestDocumentsAreStoredCompressed(t *testing.T) {
	p := startWith(t, nil)
	for _, listener := range []string{"public", "internal"} {
		for _, path := range []string{"/docs", "/openapi.json"} {
			get := func(fields ...string) servetest.Answer {
				return servetest.Call("GET", p.URL(listener)+path, "", fields...)
			}
			plain, packed := get("Accept-Encoding", "identity"), get("Accept-Encoding", "br, gzip;q=0.5")
			for _, a := range []servetest.Answer{plain, packed} {
				h := a.Header
				if a.Status != http.StatusOK || h.Get("Cache-Control") != "max-age=300" || h.Get("Vary") != "Accept-Encoding" || h.Get("Etag") == "" {
					t.Errorf("%s%s: %d %v", listener, path, a.Status, h)
				}
			}
			r, err := gzip.NewReader(bytes.NewReader(packed.Body))
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(content, plain.Body) || packed.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s%s: %d bytes of %d, %v", listener, path, len(content), len(plain.Body), err)
			}
			if 3*len(packed.Body) > len(plain.Body) || plain.Header.Get("Etag") == packed.Header.Get("Etag") {
				t.Errorf("%s%s: %d bytes are compressed to %d, of ETag %s", listener, path, len(plain.Body), len(packed.Body), packed.Header.Get("Etag"))
			}
			for coding, tag := range map[string]string{"gzip": packed.Header.Get("Etag"), "gzip;q=0": plain.Header.Get("Etag")} {
				if a := get("Accept-Encoding", coding, "If-None-Match", `"other", `+tag); a.Status != http.StatusNotModified || len(a.Body) > 0 {
					t.Errorf("%s%s, known: %v", listener, path, a.Status)
				}
			}
		}
	}
}

// Every page fits a phone, and has one heading of the first level.
func TestPagesFitAPhone(t *testing.T) {
	p := startWith(t, nil)
	b := testenv.NewTab(t, "status of 404") // a room that does not exist has a page
	b.Do(chromedp.EmulateViewport(320, 700))
	for _, at := range []string{p.URL("public") + "/docs", p.URL("internal") + "/docs", p.URL("public") + "/problems/captcha-required", p.URL("public") + "/rooms/shoes", p.URL("internal") + "/"} {
		b.Open(at)
		t.Log(at)
		b.Fits()
		if n := testenv.Eval[int](b, `document.querySelectorAll('h1').length`); n != 1 {
			t.Errorf("%d headings of the first level", n)
		}
	}
}

// An order's body is small, and for banned callers only a plain order is parsed.
func TestBodiesOfOrders(t *testing.T) {
	p := startWith(t, nil)
	putOnSale(t, p, "concert", 9)
	post := func(user, body string) servetest.Answer {
		return servetest.Call("POST", p.URL("public")+"/v1/sales/concert/orders", body, "X-User-ID", user)
	}
	padded := func(size int) string { return `{"item":"ticket"}` + strings.Repeat(" ", size-len(`{"item":"ticket"}`)) }
	if a := post("ann", padded(4<<10)); a.Status != http.StatusAccepted {
		t.Errorf("4 KiB: %v", a)
	}
	for name, body := range map[string]string{"of spaces": padded(4<<10 + 1), "malformed": strings.Repeat("[", 64<<10)} {
		if a := post("bob", body); a.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %v", name, a)
		}
	}
	// A body without a Content-Length.
	req, err := http.NewRequestWithContext(t.Context(), "POST", p.URL("public")+"/v1/sales/concert/orders", io.MultiReader(strings.NewReader(padded(4<<10+1))))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("in chunks: %d", resp.StatusCode)
	}
	if a := servetest.Call("POST", p.URL("internal")+"/v1/admit", `{"subject":{"user":"ann"}}`+strings.Repeat(" ", 60<<10)); a.Status != http.StatusOK {
		t.Errorf("another call: %v", a)
	}

	if a := servetest.Call("PUT", p.URL("internal")+"/v1/bans/user/mallory", `{"for_ms":600000,"reason":"scraper"}`); a.Status != http.StatusOK {
		t.Fatal(a)
	}
	for _, body := range []string{`{"item":"ticket"}`, strings.Repeat("[", 4<<10), `{"item":1}`, padded(600), `{`} {
		a := post("mallory", body)
		if a.Status != http.StatusForbidden || !bytes.Contains(a.Body, []byte(`"banned"`)) || a.Header.Get("Retry-After") == "" {
			t.Errorf("banned, %.20q: %v", body, a)
		}
	}
	if a := post("dave", `{`); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("not banned: %v", a)
	}
}

package livepage

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestThePageLoadsOnlyWhatIsHere(t *testing.T) {
	w := httptest.NewRecorder()
	Page(`<b onload="x">`).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if got := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'self';") || strings.Contains(got, "unsafe") {
		t.Errorf("policy: %s", got)
	}
	html := w.Body.String()
	if !strings.Contains(html, "&lt;b onload=") {
		t.Error("the version is not escaped")
	}
	if found := regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<style|<script>`).FindString(strings.ReplaceAll(html, "&lt;b onload=", "")); found != "" {
		t.Errorf("the policy forbids %q", found)
	}
	assets := http.StripPrefix("/assets/", Assets())
	for _, m := range regexp.MustCompile(`(?:src|href)="(/[^"]*)"`).FindAllStringSubmatch(html, -1) {
		w := httptest.NewRecorder()
		if assets.ServeHTTP(w, httptest.NewRequest("GET", m[1], nil)); w.Code != http.StatusOK || w.Header().Get("Content-Type") == "" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", m[1], w.Code, w.Header())
		}
	}
}

func TestAssets(t *testing.T) {
	get := func(path, tag string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.URL.Path = path
		r.Header.Set("If-None-Match", tag)
		Assets().ServeHTTP(w, r)
		return w
	}
	first := get("main.js", "")
	if first.Code != http.StatusOK || first.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("%d %v", first.Code, first.Header())
	}
	if again := get("main.js", first.Header().Get("Etag")); again.Code != http.StatusNotModified {
		t.Errorf("it has not changed: %d", again.Code)
	}
	for _, path := range []string{"", "uplot", "../page.html", "main.js/", "nothing.js"} {
		if w := get(path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%q: %d", path, w.Code)
		}
	}
}

func TestStream(t *testing.T) {
	f := NewFeed(NewRecorder(), Sources{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(running) }()
	leaving := make(chan struct{})
	server := httptest.NewServer(f.Stream(leaving))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", resp.Header)
	}
	lines, events := bufio.NewScanner(resp.Body), ""
	for lines.Scan() {
		event, ok := strings.CutPrefix(lines.Text(), "event: ")
		if !ok {
			continue
		}
		if events += event + " "; strings.Count(events, "frame") == 2 {
			close(leaving) // and so it ends
		}
	}
	if err := lines.Err(); err != nil || events != "history frame frame " {
		t.Errorf("%q, %v", events, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.streams) != 0 {
		t.Error("the page has left, and is still counted")
	}
	if writeWithin < time.Second {
		t.Error("a page on a slow line needs a moment")
	}
}

// Texts are to be read and drawings to be seen in both schemes: WCAG 2.2, 1.4.3 and 1.4.11, level AA.
func TestContrast(t *testing.T) {
	css, err := os.ReadFile("assets/page.css")
	if err != nil {
		t.Fatal(err)
	}
	light, rest, _ := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	dark, _, _ := strings.Cut(rest, "* {")
	color := regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`)
	for scheme, source := range map[string]string{"light": light, "dark": dark} {
		colors := map[string]string{}
		for _, m := range color.FindAllStringSubmatch(source, -1) {
			colors[m[1]] = m[2]
		}
		least := func(over float64, on string, names ...string) {
			for _, name := range names {
				if colors[name] == "" || colors[on] == "" {
					t.Fatalf("%s has no %s or no %s", scheme, name, on)
				}
				if c := contrast(t, colors[name], colors[on]); c < over {
					t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", scheme, name, on, c, over)
				}
			}
		}
		least(4.5, "card", "ink", "faint", "accent", "good", "bad", "low", "k-unable")
		least(4.5, "ground", "ink", "faint", "accent", "good", "bad")
		drawn := []string{"accent"}
		for name := range colors {
			if strings.HasPrefix(name, "k-") {
				drawn = append(drawn, name)
			}
		}
		least(3, "card", drawn...)
		if len(drawn) < 8 {
			t.Errorf("%s: only %v are drawn", scheme, drawn)
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(hex string) (l float64) {
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			c := float64(n) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			l += weight * c
		}
		return l
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

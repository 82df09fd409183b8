package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed assets
var assets embed.FS

//go:embed page.html
var pageSource string

var page = template.Must(template.New("page").Parse(pageSource))

// policy lets the page load what this listener serves, and nothing else.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// kinds are the content types of all assets, whatever the machine's table says.
var kinds = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", "": "text/plain; charset=utf-8", ".md": "text/plain; charset=utf-8"}

// Page serves the page itself. version is that of the program.
func Page(version string) http.Handler {
	var b bytes.Buffer
	if err := page.Execute(&b, map[string]string{"Version": version}); err != nil {
		panic(err) // the page is part of the program
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		_, _ = w.Write(b.Bytes()) // fails when the page has been left
	})
}

// Assets serves what the page loads, by its path below the folder assets. Browsers ask each time whether a file has changed.
func Assets() http.Handler {
	type file struct {
		content   []byte
		kind, tag string
	}
	files := map[string]file{}
	err := fs.WalkDir(assets, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := assets.ReadFile(name)
		sum := sha256.Sum256(content)
		files[name[len("assets/"):]] = file{content, kinds[path.Ext(name)], `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
		return err
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", f.kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("Etag", f.tag)
		h.Set("X-Content-Type-Options", "nosniff")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
	})
}

// writeWithin is how long a page may take to read a frame before its stream ends; it will open another one.
const writeWithin = 10 * time.Second

// Stream serves the frames as server-sent events: first "history", a list of what has passed, then a "frame" a second, until the page
// leaves, leaving is closed or it may not stay any more.
func (f *Feed) Stream(leaving <-chan struct{}, mayStay func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		frames, history, ok := f.open()
		if !ok {
			w.Header().Set("Retry-After", "10")
			http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
			return
		}
		defer f.close(frames)
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // nginx would keep frames back
		control := http.NewResponseController(w)
		send := func(event string, data []byte) bool {
			if control.SetWriteDeadline(time.Now().Add(writeWithin)) != nil {
				return false
			}
			_, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
			return err == nil && control.Flush() == nil
		}
		if _, err := fmt.Fprint(w, "retry: 1000\n"); err != nil || !send("history", history) {
			return
		}
		for {
			select {
			case <-r.Context().Done():
				return
			case <-leaving:
				return
			case frame := <-frames:
				if !mayStay(r) || !send("frame", frame) {
					return
				}
			}
		}
	})
}

package livepage

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/tidegate/tidegate/internal/staticfiles"
)

//go:embed assets
var assets embed.FS

//go:embed page.html
var pageSource string

var page = template.Must(template.New("page").Parse(pageSource))

// policy restricts the page to resources of this listener.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Page serves the page itself. version is the version of the program.
func Page(version string) http.Handler {
	var b bytes.Buffer
	if err := page.Execute(&b, map[string]string{"Version": version}); err != nil {
		panic(err) // the page is embedded and tested
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "same-origin") // over plain HTTP nothing else shows where a GET comes from
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		_, _ = w.Write(b.Bytes()) // fails if the client has gone
	})
}

// Assets serves the page's resources, by their path below the folder assets. Browsers revalidate them at each use.
func Assets() http.Handler { return staticfiles.Handler(assets, "assets") }

// writeWithin is the timeout for writing a frame; the stream then ends and the page reopens it.
const writeWithin = 10 * time.Second

// Stream serves the frames as server-sent events: first "history", a list of summaries, then a "frame" every second, until the client
// disconnects, the request's context ends or leaving is closed.
func (f *Feed) Stream(leaving <-chan struct{}) http.Handler {
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
		h.Set("X-Accel-Buffering", "no") // nginx would buffer frames
		control := http.NewResponseController(w)
		send := func(event string, data []byte) bool {
			if control.SetWriteDeadline(time.Now().Add(writeWithin)) != nil || r.Context().Err() != nil {
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
				if !send("frame", frame) {
					return
				}
			}
		}
	})
}

// Package roompage serves the page of a waiting room, and the script that a shop embeds instead.
package roompage

import (
	"embed"
	"net/http"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/staticfiles"
)

//go:embed files
var files embed.FS

//go:embed room.html
var page []byte

// Paths of the public listener.
const (
	PagePath  = "/rooms/:room"
	FilesPath = "/rooms/files/"

	widgetPath = FilesPath + "captcha/"
)

// Files serves the script and the style sheet, and below captcha/ the widget that solves challenges.
func Files() http.Handler {
	own, widget := http.StripPrefix(FilesPath, staticfiles.Handler(files, "files")), http.StripPrefix(widgetPath, captcha.Widget())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // a ServeMux would answer some paths with a redirect
		if strings.HasPrefix(r.URL.Path, widgetPath) {
			widget.ServeHTTP(w, r)
		} else {
			own.ServeHTTP(w, r)
		}
	})
}

// Page serves the page of a room, which is the same for every room: its script reads the name from the address. Pages of these origins may show it in a frame;
// in a frame of others a visitor could be led to press "Give up my place". An origin "*" permits none.
func Page(origins []string) func(w http.ResponseWriter, status int) {
	ancestors := "'self'"
	if !slices.Contains(origins, "*") {
		ancestors = strings.Join(append([]string{ancestors}, origins...), " ")
	}
	policy := "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' https: data:; base-uri 'none'; form-action 'none'; frame-ancestors " + ancestors
	return func(w http.ResponseWriter, status int) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		w.WriteHeader(status)
		_, _ = w.Write(page)
	}
}

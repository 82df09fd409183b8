package rooms

import (
	"embed"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/staticfiles"
	"github.com/tidegate/tidegate/waitingroom"
)

//go:embed files
var pageFiles embed.FS

//go:embed room.html
var pageText []byte

const (
	pagePath   = "/rooms/{room}"
	filesPath  = "/rooms/files/"
	widgetPath = filesPath + "captcha/"
)

// Page is the handlers of the page of a room, and of its files.
type Page struct {
	Rooms   *waitingroom.Service
	Origins []string // whose pages may show it in a frame; "*" permits none
}

// Routes are the routes of the page.
func (h *Page) Routes() []route.Route {
	of := func(id, path, summary string, parameters []*huma.Param, responses map[string]*huma.Response) route.Route {
		return route.Route{Public: route.Open, Operation: huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: tagRooms, Parameters: parameters, Responses: responses,
		}}
	}
	answers := route.Responses(route.Content("text/html"), 404)
	answers["404"].Content["text/html"] = &huma.MediaType{} // for a room that is not known: the page looks again
	page := h.page()
	return []route.Route{
		route.Plain(of("room-page", pagePath, "A page that shows the visitor's place", roomParameter(), answers), page),
		route.Plain(of("room-page-slash", pagePath+"/", "The same page", roomParameter(), answers), page),
		route.Plain(of("room-files", filesPath+"{path}", "Its script, room.js, which other pages can embed, and its style sheet, room.css",
			[]*huma.Param{route.PathParameter("path", "Name of the file")}, route.Responses(route.File("text/javascript", "text/css"), 404)),
			route.Handler(files())),
	}
}

// page serves the page of a room.
func (h *Page) page() echo.HandlerFunc {
	write := pageWriter(h.Origins)
	return func(c echo.Context) error {
		room, err := h.Rooms.Room(c.Request().Context(), c.Param("room"))
		switch {
		case errors.Is(err, waitingroom.ErrUnknownRoom): // the script shows it, and looks again
			write(c.Response(), http.StatusNotFound)
		case err == nil && room.Page.ContinueURL == "":
			p := problem.New(problem.UnknownRoom)
			p.Detail = "The room has no page: its definition needs continue_url, where whoever is admitted goes on."
			return p
		default:
			write(c.Response(), http.StatusOK)
		}
		return nil
	}
}

// files serves the script and the style sheet, and below captcha/ the widget that solves challenges.
func files() http.Handler {
	own, widget := http.StripPrefix(filesPath, staticfiles.Handler(pageFiles, "files")), http.StripPrefix(widgetPath, captcha.Widget())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // a ServeMux would answer some paths with a redirect
		if strings.HasPrefix(r.URL.Path, widgetPath) {
			widget.ServeHTTP(w, r)
		} else {
			own.ServeHTTP(w, r)
		}
	})
}

// pageWriter writes the page of a room, which is the same for every room: its script reads the name from the address. Pages of
// these origins may show it in a frame; in a frame of others a visitor could be led to press "Give up my place". An origin "*"
// permits none.
func pageWriter(origins []string) func(w http.ResponseWriter, status int) {
	ancestors := "'self'"
	if !slices.Contains(origins, "*") {
		ancestors = strings.Join(append([]string{ancestors}, origins...), " ")
	}
	policy := "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' https: data:; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors " + ancestors
	return func(w http.ResponseWriter, status int) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		w.WriteHeader(status)
		_, _ = w.Write(pageText)
	}
}

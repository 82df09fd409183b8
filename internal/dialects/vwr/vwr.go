package vwr

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/dialects"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/waitingroom"
)

// Path is the prefix of the verbs.
const Path = "/vwr"

// Handlers are the handlers of the verbs. Made by New.
type Handlers struct {
	rooms    *waitingroom.Service
	places   dialects.Places[waitingroom.Visitor, waitingroom.Place] // of rooms
	visitors *rooms.Visitors
	issuers  []string
}

// New returns the handlers for rooms that visitors enter by their handlers. Services may ask for the issuers, besides our own.
func New(all *waitingroom.Service, visitors *rooms.Visitors, issuers []string) *Handlers {
	places := dialects.PlacesOf(all).(dialects.Places[waitingroom.Visitor, waitingroom.Place])
	return &Handlers{rooms: all, places: places, visitors: visitors, issuers: issuers}
}

// failure is an error in AWS' form, with its status. 202 is one of them: the client is to ask again.
type failure struct {
	_ struct{} `additionalProperties:"true"`

	status int
	Text   string `json:"error"`
}

func (f *failure) Error() string { return f.Text }

func failed(status int, text string) error { return &failure{status: status, Text: text} }

var (
	invalidEvent = failed(http.StatusBadRequest, "Invalid event ID")
	invalidID    = failed(http.StatusBadRequest, "Invalid event or request ID")
	notServed    = failed(http.StatusAccepted, "Request ID not being served yet")
	expired      = failed(http.StatusGone, "Queue position has expired")
	ended        = failed(http.StatusGone, "Token corresponding to request id has expired")
	noSession    = failed(http.StatusNotFound, "Request ID doesn't exist or status already set.")
)

// call is a request for a verb.
type call struct {
	private bool // on the internal listener
	fields  map[string]string
	audited func(detail any)
}

// auditDetail is the key in an echo.Context of what the audit log stores of a call.
const auditDetail = "vwr audit detail"

// serve returns the handler of a verb on one of the listeners.
func (h *Handlers) serve(v verb, private bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		fields, err := parse(c)
		var answer any
		if err == nil {
			answer, err = v.answer(h, c.Request().Context(), &call{private, fields, func(detail any) { c.Set(auditDetail, detail) }})
		}
		header := c.Response().Header()
		if f := (*failure)(nil); errors.As(err, &f) {
			header["Cache-Control"] = response.NoStore
			return respond(c, f.status, f)
		}
		if err != nil {
			return err
		}
		header.Set("Cache-Control", v.cache)
		return respond(c, http.StatusOK, answer)
	}
}

func respond(c echo.Context, status int, answer any) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return c.Blob(status, echo.MIMEApplicationJSON, text)
}

// parse returns the texts and numbers among the parameters of a call, all as texts. Unknown ones are ignored, as AWS does.
func parse(c echo.Context) (map[string]string, error) {
	r := c.Request()
	fields := make(map[string]string)
	if r.Method == http.MethodGet {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return nil, failed(http.StatusBadRequest, "Invalid query")
		}
		for name, all := range values {
			if len(all) > 1 {
				return nil, failed(http.StatusBadRequest, "Invalid query: a parameter is repeated")
			}
			fields[name] = all[0]
		}
		return fields, nil
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, request.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, err
	}
	var body map[string]json.RawMessage
	if err != nil || json.Unmarshal(text, &body) != nil {
		return nil, failed(http.StatusBadRequest, "Invalid request body")
	}
	for name, value := range body {
		var s string
		var n json.Number
		if json.Unmarshal(value, &s) == nil {
			fields[name] = s
		} else if json.Unmarshal(value, &n) == nil {
			fields[name] = n.String()
		}
	}
	return fields, nil
}

// room returns the room of a call.
func (h *Handlers) room(ctx context.Context, in *call) (waitingroom.Status, error) {
	name := in.fields["event_id"]
	if !waitingroom.ValidName(name) {
		return waitingroom.Status{}, invalidEvent
	}
	room, err := h.rooms.Room(ctx, name)
	if errors.Is(err, waitingroom.ErrUnknownRoom) {
		return room, invalidEvent
	}
	return room, err
}

// visitor returns the place that a call names, and its holder. On the public listener, the place of a user is shown to that user only.
func (h *Handlers) visitor(
	ctx context.Context, in *call,
) (room waitingroom.Status, who waitingroom.Visitor, place waitingroom.Place, err error) {
	if room, err = h.room(ctx, in); err != nil {
		if errors.Is(err, invalidEvent) {
			err = invalidID
		}
		return room, who, place, err
	}
	user := ""
	if !in.private {
		if user = request.Of(ctx).Caller.User; user == "" && room.RequiresUser {
			return room, who, place, waitingroom.ErrUserRequired
		}
	}
	who = h.places.ByToken(in.fields["request_id"], user, in.private)
	place, err = h.rooms.Place(ctx, room.Room, who)
	return room, who, place, err
}

// number returns a whole number of a call. AWS takes it as a text too.
func (in *call) number(name string) (int, error) {
	n, err := strconv.Atoi(in.fields[name])
	if errors.Is(err, strconv.ErrRange) {
		return 0, problem.InvalidAt("body."+name, "must be a smaller number")
	}
	if err != nil {
		return 0, failed(http.StatusBadRequest, "Invalid "+name)
	}
	return n, nil
}

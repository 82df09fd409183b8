package rooms

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/waitingroom"
)

const (
	streamWithin  = 10 * time.Second
	heartbeat     = 15 * time.Second
	betweenEvents = 700 * time.Millisecond // at least; a room that serves changes five times a second
	betweenTurns  = 100 * time.Millisecond // at least; the shop's servers are few, and turns are to be announced within a second
	turnsAtOnce   = 500                    // read
)

// events are the streams that a listener has at once.
var events = route.Bound{Most: 10_000, PerAddress: 200}

func (h *Visitors) streamRoutes() []route.Route {
	const text = "The data of an event `room` is what GET of the room answers. Comments keep the connection open."
	stream := route.Route{
		Operation: huma.Operation{
			OperationID: "room-events", Method: http.MethodGet, Path: EventsPath,
			Summary: "The room as server-sent events: when turns, phase, rate, message or draw have changed, at most every 0.7 seconds, and " +
				"every 15 seconds",
			Description: text, Tags: tagRooms, Parameters: roomParameter(),
			Responses: route.Responses(route.Content("text/event-stream"), 401, 403, 404, 429, 503),
		},
		Bound: events, Lasting: true,
	}
	public, internal := stream, stream
	public.Public, internal.Roles = route.Charged, auth.ForReaders
	internal.Operation.Description += " Before it there is an event `turn` for each place that got its turn since the last one: its data " +
		"is an item of list-places. The `id` is the position, " +
		"and after the room's event how many have had their turn: a client that sends it as `Last-Event-ID` misses no turn. A turn " +
		"may come twice after that, from a process that is a moment behind: act once for each `number`. A turn that is not claimed before " +
		"`turn_until` lapses, without an event."
	return []route.Route{route.Plain(public, h.Events), route.Plain(internal, h.EventsWithTurns)}
}

// Events serves a room as server-sent events: its public document at once, whenever it has changed, and with a comment every 15 s, until
// the client disconnects, its token is no longer accepted, or the process is to end.
func (h *Visitors) Events(c echo.Context) error { return h.stream(c, false) }

// EventsWithTurns is Events for the shop's servers: before the room it sends an event turn for each place that got its turn, in
// the order of the positions. The id of an event is the position, or of the room how many have had their turn, so that a client
// that connects again with the last one misses none; in a room with lanes it has such a number for each of them. It may get some
// twice, if it reaches a process that is a moment behind. Without it the turns from now on are sent.
func (h *Visitors) EventsWithTurns(c echo.Context) error { return h.stream(c, true) }

func (h *Visitors) stream(c echo.Context, withTurns bool) error {
	ctx, name := c.Request().Context(), c.Param("room")
	room, err := h.room(ctx, name)
	if err != nil {
		return err
	}
	var sent cursor
	if withTurns {
		sent = since(&room, c.Request().Header.Get("Last-Event-ID"))
	}
	if h.Draining() {
		return problem.New(problem.Draining)
	}
	w := c.Response()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header["Cache-Control"] = response.NoStore
	header.Set("X-Accel-Buffering", "no") // nginx would buffer events
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // it would end the context; a test's recorder has none
	send := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(streamWithin))
		if ctx.Err() != nil {
			return false
		}
		_, err := fmt.Fprint(w, text)
		return err == nil && control.Flush() == nil
	}
	if !send("retry: 1000\n\n") {
		return nil
	}
	for h.sendRoom(ctx, name, sent, send) {
	}
	return nil
}

// cursor is the positions of each lane up to which turns were sent; nil: they are not asked for.
type cursor []int64

// since returns the cursor of an id, or if it is none of the room's, that of all turns so far.
func since(room *waitingroom.Status, id string) cursor {
	last := strings.Split(id, ",")
	sent := make(cursor, len(room.ByLane))
	for i, l := range room.ByLane {
		sent[i] = l.Served
		if n, err := strconv.ParseInt(last[min(i, len(last)-1)], 10, 64); err == nil && n >= 0 && n < l.Served && len(last) == len(sent) {
			sent[i] = n
		}
	}
	return sent
}

func (c cursor) String() string {
	all := make([]string, len(c))
	for i, n := range c {
		all[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(all, ",")
}

// sendTurns sends the turns of a room that were given after those that were sent.
func (h *Visitors) sendTurns(ctx context.Context, room *waitingroom.Status, sent cursor, send func(string) bool) bool {
	for i, l := range room.ByLane {
		for sent[i] < l.Served {
			next := min(l.Served, sent[i]+turnsAtOnce)
			places, err := h.Rooms.Turns(ctx, room.Room, l.Name, sent[i], next)
			if err != nil {
				return false
			}
			for n := range places {
				sent[i] = places[n].Position
				body, err := json.Marshal(viewPlace(&places[n]))
				if err != nil || !send(fmt.Sprintf("event: turn\nid: %s\ndata: %s\n\n", sent, body)) {
					return false
				}
			}
			sent[i] = next
		}
	}
	return true
}

// sendRoom sends the turns that were given, and the room, and waits until it has changed. It returns false when the stream ends.
func (h *Visitors) sendRoom(ctx context.Context, name string, sent cursor, send func(string) bool) bool {
	changed, err := h.Rooms.Changed(ctx, name) // before the room is read, so that no change is missed
	if err != nil {                            // the client connects again, and gets the problem
		return false
	}
	d, err := h.document(ctx, name)
	if err != nil {
		return false
	}
	id, between := "", betweenEvents
	if sent != nil {
		between = betweenTurns
		// no earlier state than the document's: all turns in that are announced
		room, err := h.Rooms.Room(ctx, name)
		if err != nil || len(sent) != len(room.ByLane) || !h.sendTurns(ctx, &room, sent, send) { // an operator has changed the lanes
			return false
		}
		id = fmt.Sprintf("id: %s\n", sent)
	}
	if !send("event: room\n" + id + "data: " + strings.TrimSpace(string(d.Text())) + "\n\n") {
		return false
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	pause := time.NewTimer(between)
	defer pause.Stop()
	for paused := false; ; {
		next := changed
		if !paused {
			next = nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-h.Leaving.Done():
			return false
		case <-pause.C:
			paused = true
		case <-beat.C:
			return send(": still here\n\n") // and then the room, in which more may have joined
		case <-next:
			return true
		}
	}
}

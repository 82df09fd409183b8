package httpapi

import (
	"errors"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/reports"
	"github.com/tidegate/tidegate/internal/roompage"
	"github.com/tidegate/tidegate/waitingroom"
)

const (
	roomPath       = "/v1/rooms/{room}"
	roomEventsPath = roomPath + "/events"
)

// Routes for visitors.
var (
	roomRoute = huma.Operation{
		OperationID: "get-room", Method: http.MethodGet, Path: roomPath, Summary: "A waiting room and its progress", Tags: tagRooms,
		Errors: []int{401, 403, 404, 429, 503},
	}
	joinRoute = huma.Operation{
		OperationID: "join-room", Method: http.MethodPost, Path: roomPath + "/place", Summary: "Join a waiting room; idempotent: one place on all devices",
		Tags: tagRooms, MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 429, 503},
	}
	roomPlaceRoute = huma.Operation{
		OperationID: "get-place", Method: http.MethodGet, Path: roomPath + "/place", Summary: "The caller's place; with wait_ms, as soon as its state changes",
		Tags: tagRooms, Errors: []int{401, 403, 404, 422, 429, 503},
	}
	claimRoute = huma.Operation{
		OperationID: "claim-turn", Method: http.MethodPost, Path: roomPath + "/place/claim", Summary: "Claim the turn and get the pass; idempotent",
		Description: "503 at_capacity: it is the caller's turn, but the rate or the capacity is used up. The turn is kept; repeat the call.",
		Tags:        tagRooms, Errors: []int{401, 403, 404, 409, 410, 429, 503},
	}
	leaveRoute = huma.Operation{
		OperationID: "leave-room", Method: http.MethodDelete, Path: roomPath + "/place", Summary: "Give up the place and an unused pass; idempotent",
		Tags: tagRooms, DefaultStatus: http.StatusNoContent, Errors: []int{401, 403, 404, 429, 503},
	}
	keysRoute = huma.Operation{
		OperationID: "pass-keys", Method: http.MethodGet, Path: "/.well-known/jwks.json", Summary: "The public keys of passes (RFC 7517)",
		Tags: tagRooms, Errors: []int{401, 403, 429, 503},
	}
	receiptKeysRoute = huma.Operation{
		OperationID: "receipt-keys", Method: http.MethodGet, Path: "/.well-known/receipt-keys.json", Summary: "The public keys of receipts of draws (RFC 7517)",
		Tags: tagRooms, Errors: []int{401, 403, 429, 503},
	}

	// visitorOperations act for a user, also on the internal listener.
	visitorOperations = []string{joinRoute.OperationID, roomPlaceRoute.OperationID, claimRoute.OperationID, leaveRoute.OperationID, "vwr-assign-queue-num"}

	tagRooms          = []string{"Waiting rooms"}
	roomEventsPattern = echoPattern(huma.Operation{Path: roomEventsPath})
	roomPatterns      = []string{echoPattern(roomRoute), echoPattern(joinRoute), echoPattern(claimRoute)}
)

// Routes for operators.
var (
	roomsRoute = huma.Operation{
		OperationID: "list-rooms", Method: http.MethodGet, Path: "/v1/rooms", Summary: "All waiting rooms", Tags: tagRooms, Errors: []int{401, 403, 422, 503},
	}
	putRoomRoute = huma.Operation{
		OperationID: "put-room", Method: http.MethodPut, Path: roomPath, Summary: "Define a waiting room, or change it; those who wait keep their order",
		Tags: tagRooms, MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
	}
	advanceRoute = roomVerb("advance", "Give turns besides the rate")
	rateRoute    = roomVerb("rate", "Change how many turns are claimed in a minute")
	messageRoute = roomVerb("message", "Show a text to everybody in the room")
	holdRoute    = roomVerb("hold", "Hold a room: nobody gets a turn, and nobody lapses")
	resumeRoute  = roomVerb("resume", "Continue a room that is held")
	drawRoute    = roomVerb("draw", "The room after its draw, which happens by itself at the start; 409 before")
	beaconRoute  = roomVerb("beacon", "Give a room the round of drand that its draw waits for; idempotent")
	closeRoute   = roomVerb("close", "End a room for good: those who wait are turned away, and its item needs no turn any more")
	placesRoute  = huma.Operation{
		OperationID: "list-places", Method: http.MethodGet, Path: roomPath + "/places", Summary: "Places by their numbers; with user, all that a user has had",
		Tags: tagRooms, Errors: []int{401, 403, 404, 422, 503},
	}
	verifyRoomRoute = huma.Operation{
		OperationID: "verify-room", Method: http.MethodGet, Path: roomPath + "/verify", Summary: "Check a waiting room's invariants", Tags: tagRooms,
		Errors: []int{401, 403, 404, 503},
	}
)

func roomVerb(verb, summary string) huma.Operation {
	return huma.Operation{
		OperationID: verb + "-room", Method: http.MethodPost, Path: roomPath + "/" + verb, Summary: summary, Tags: tagRooms, MaxBodyBytes: maxBody + 1,
		Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
	}
}

// registerPublicRooms registers the routes of the public listener, which the rules charge. Joining charges itself.
func (a *API) registerPublicRooms(docs huma.API, origins []string) {
	charged := huma.Middlewares{a.charger.Middleware}
	huma.Register(docs, shared[rooms.RoomView](docs, with(roomRoute, charged, captchaParameter)), a.visitors.Room)
	a.registerPlaces(docs, charged, charged, nil, captchaParameter)
	a.registerRoomPage(docs.OpenAPI(), a.public, origins)
	a.registerRoomStreams(docs.OpenAPI(), a.public, roomStreams{
		events: a.visitors.Events, text: roomEventsText, access: a.charger.EchoMiddleware, parameters: captchaParameter,
		streams: newAtOnce(maxStreams, maxStreamsPerAddress), draws: newAtOnce(maxDraws, maxDrawsPerAddress),
	})
	a.registerVWR(docs.OpenAPI(), a.public)
}

// registerInternalRooms registers the routes of the internal listener: those of visitors, which need a role there, and those of operators.
func (a *API) registerInternalRooms(docs huma.API) {
	readers, services := huma.Middlewares{a.only(auth.ForReaders)}, huma.Middlewares{a.only(auth.ForServices)}
	huma.Register(docs, with(roomRoute, readers, nil), a.roomAdmin.Room)
	a.registerPlaces(docs, readers, services, services, nil)
	a.registerRoomStreams(docs.OpenAPI(), a.internal, roomStreams{
		events: a.visitors.EventsWithTurns, text: roomEventsText + turnEventsText, access: needs(auth.ForReaders),
		streams: newAtOnce(maxStreams, maxStreams), draws: newAtOnce(maxDraws, maxDraws),
	})
	a.registerRooms(docs)
	a.registerVWR(docs.OpenAPI(), a.internal)
}

// registerPlaces registers what visitors do with a place, and the keys of passes. Joining reads the parameters itself.
func (a *API) registerPlaces(docs huma.API, reading, placing, joining huma.Middlewares, parameters []*huma.Param) {
	huma.Register(docs, with(joinRoute, joining, nil), a.visitors.Join)
	responses := docs.OpenAPI().Paths[joinRoute.Path].Post.Responses
	responses["201"] = &huma.Response{Description: "Created", Content: responses["200"].Content, Headers: responses["200"].Headers}
	huma.Register(docs, with(roomPlaceRoute, append(slices.Clip(placing), a.visitors.FastPlace), parameters), a.visitors.Place)
	huma.Register(docs, with(claimRoute, placing, parameters), a.visitors.Claim)
	huma.Register(docs, with(leaveRoute, placing, parameters), a.visitors.Leave)
	huma.Register(docs, with(keysRoute, reading, parameters), a.visitors.Keys)
	huma.Register(docs, with(receiptKeysRoute, reading, parameters), a.visitors.ReceiptKeys)
}

// registerRoomPage registers the page of a room, and its files.
func (a *API) registerRoomPage(described *huma.OpenAPI, e *echo.Echo, origins []string) {
	write := roompage.Page(origins)
	page := func(c echo.Context) error {
		room, err := a.visitors.Rooms.Room(c.Request().Context(), c.Param("room"))
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
	e.GET(roompage.PagePath, page)
	e.GET(roompage.PagePath+"/", page)
	e.GET(roompage.FilesPath+"*", plainHandler(roompage.Files()))
	for _, op := range []*huma.Operation{
		{OperationID: "room-page", Path: "/rooms/{room}", Summary: "A page that shows the visitor's place", Parameters: roomParameter, Responses: pageResponses()},
		{OperationID: "room-page-slash", Path: "/rooms/{room}/", Summary: "The same page", Parameters: roomParameter, Responses: pageResponses()},
		{
			OperationID: "room-files", Path: "/rooms/files/{path}", Summary: "Its script, room.js, which other pages can embed, and its style sheet, room.css",
			Parameters: fileParameter, Responses: refusals(file("text/javascript", "text/css"), 404),
		},
	} {
		op.Method, op.Tags = http.MethodGet, tagRooms
		described.AddOperation(op)
	}
}

// pageResponses documents the page of a room. It is also the answer for a room that is not known: the page looks again.
func pageResponses() map[string]*huma.Response {
	all := refusals(content("text/html"), 404)
	all["404"].Content["text/html"] = &huma.MediaType{}
	return all
}

// roomStreams is how a listener serves the events and the draw of a room.
type roomStreams struct {
	events         echo.HandlerFunc
	text           string // describes the events
	access         echo.MiddlewareFunc
	parameters     []*huma.Param // that access reads
	streams, draws *atOnce
}

const (
	roomEventsText = "The data of an event `room` is what GET of the room answers. Comments keep the connection open."
	turnEventsText = " Before it there is an event `turn` for each place that got its turn since the last one: its data is an item of list-places. The `id` is the position, " +
		"and after the room's event how many have had their turn: a client that sends it as `Last-Event-ID` misses no turn. A turn may come twice after that, from a process that is a moment behind: act once for each `number`. A turn that nobody claims before `turn_until` lapses, without an event."
)

// registerRoomStreams registers the events and the draw of a room without Huma, which would not stream them.
func (a *API) registerRoomStreams(described *huma.OpenAPI, e *echo.Echo, s roomStreams) {
	e.GET(roomEventsPattern, s.events, s.access, a.bounded(s.streams), lasting)
	e.GET(echoPattern(roomRoute)+"/draw.csv", a.roomExport.Draw, s.access, a.bounded(s.draws), lasting)
	for _, op := range []*huma.Operation{
		{
			OperationID: "room-events", Path: roomEventsPath, Summary: "The room as server-sent events: when turns, phase, rate, message or draw have changed, at most every 0.7 seconds, and every 15 seconds",
			Description: s.text,
			Responses:   refusals(content("text/event-stream"), 401, 403, 404, 429, 503),
		},
		{
			OperationID: "draw-csv", Path: roomPath + "/draw.csv", Summary: "All who took part in the draw, as hashes, with which anybody can verify it; 409 before",
			Description: "The text that verification reads. With `Accept: application/x-ndjson` a JSON object per line: the fields before the columns, then each place.",
			Responses:   refusals(content(exported...), 401, 403, 404, 409, 429, 503),
		},
	} {
		op.Method, op.Tags, op.Parameters = http.MethodGet, tagRooms, slices.Concat(roomParameter, s.parameters)
		described.AddOperation(op)
	}
}

var roomParameter = []*huma.Param{{Name: "room", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "Name of the room"}}

// registerRooms registers the routes for operators.
func (a *API) registerRooms(docs huma.API) {
	all := a.visitors.Rooms
	register(a, docs, auth.ForViewers, roomsRoute, a.roomAdmin.List)
	register(a, docs, auth.ForOperators, putRoomRoute, a.roomAdmin.PutRoom)
	responses := docs.OpenAPI().Paths[roomPath].Put.Responses
	responses["201"] = &huma.Response{Description: "Created", Content: responses["200"].Content}
	register(a, docs, auth.ForOperators, holdRoute, rooms.Verb(all.Hold))
	register(a, docs, auth.ForOperators, resumeRoute, rooms.Verb(all.Resume))
	register(a, docs, auth.ForOperators, closeRoute, rooms.Verb(all.Close))
	register(a, docs, auth.ForOperators, drawRoute, a.roomAdmin.Draw)
	register(a, docs, auth.ForOperators, beaconRoute, a.roomAdmin.Beacon)
	register(a, docs, auth.ForOperators, advanceRoute, a.roomAdmin.Advance)
	register(a, docs, auth.ForOperators, rateRoute, a.roomAdmin.Rate)
	register(a, docs, auth.ForOperators, messageRoute, a.roomAdmin.Message)
	register(a, docs, auth.ForViewers, placesRoute, a.roomAdmin.Places)
	register(a, docs, auth.ForViewers, verifyRoomRoute, a.roomAdmin.Verify)
	limits := []echo.MiddlewareFunc{needs(auth.ForServices), lasting}
	if a.permits != nil {
		limits = append(limits, a.permits.Limit(reports.Semaphore, reportWait))
	}
	a.internal.GET(echoPattern(roomRoute)+"/places.csv", a.roomExport.Places, limits...)
	docs.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "places-csv", Method: http.MethodGet, Path: roomPath + "/places.csv", Summary: "All places of a room as CSV or NDJSON",
		Description: "Takes a permit of the semaphore `report`, and waits up to 10 s for one. An answer that is cut off is not whole. " + exportText, Tags: tagRooms,
		Parameters: roomParameter,
		Responses:  refusals(content(exported...), 401, 403, 404, 503),
	})
}

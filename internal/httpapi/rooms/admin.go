package rooms

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/waitingroom"
)

// Admin is the handlers for operators.
type Admin struct {
	Rooms    *waitingroom.Service
	Captchas bool // challenges can be solved
}

// Routes are the routes for operators.
func (h *Admin) Routes() []route.Route {
	of := func(roles []auth.Role, op huma.Operation) route.Route {
		op.Tags = tagRooms
		return route.Route{Operation: op, Roles: roles, Created: op.Method == http.MethodPut}
	}
	verb := func(verb, summary string) route.Route {
		return of(auth.ForOperators, huma.Operation{
			OperationID: verb + "-room", Method: http.MethodPost, Path: RoomPath + "/" + verb, Summary: summary, MaxBodyBytes: request.MaxBody + 1,
			Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
		})
	}
	draw := verb("draw", "The room after its draw, which happens by itself at the start; 409 before")
	verify := of(auth.ForViewers, huma.Operation{
		OperationID: "verify-room", Method: http.MethodGet, Path: RoomPath + "/verify", Summary: "Check a waiting room's invariants",
		Errors: []int{401, 403, 404, 503},
	})
	draw.Lasting, verify.Lasting = true, true
	return []route.Route{
		route.Of(of(auth.ForReaders, roomOperation()), h.Room),
		route.Of(of(auth.ForViewers, huma.Operation{
			OperationID: "list-rooms", Method: http.MethodGet, Path: "/v1/rooms", Summary: "All waiting rooms", Errors: []int{401, 403, 422, 503},
		}), h.List),
		route.Of(of(auth.ForOperators, huma.Operation{
			OperationID: "put-room", Method: http.MethodPut, Path: RoomPath,
			Summary:      "Define a waiting room, or change it; those who wait keep their order",
			MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
		}), h.PutRoom),
		route.Of(verb("hold", "Hold a room: no turn is given, and none lapses"), verbOf(h.Rooms.Hold)),
		route.Of(verb("resume", "Continue a room that is held"), verbOf(h.Rooms.Resume)),
		route.Of(verb("close", "End a room for good: those who wait are turned away, and its item needs no turn any more"),
			verbOf(h.Rooms.Close)),
		route.Of(draw, h.Draw),
		route.Of(verb("beacon", "Give a room the round of drand that its draw waits for; idempotent"), h.Beacon),
		route.Of(verb("advance", "Give turns besides the rate"), h.Advance),
		route.Of(verb("rate", "Change how many turns are claimed in a minute"), h.Rate),
		route.Of(verb("message", "Show a text to everybody in the room"), h.Message),
		route.Of(of(auth.ForViewers, huma.Operation{
			OperationID: "list-places", Method: http.MethodGet, Path: RoomPath + "/places",
			Summary: "Places by their numbers; with user, all that a user has had",
			Errors:  []int{401, 403, 404, 422, 503},
		}), h.Places),
		route.Of(verify, h.Verify),
	}
}

type putRoomInput struct {
	RoomName
	Body RoomDefinition
}

// RoomDefinition is what an operator decides about a room. A setting that is left out gets its default.
type RoomDefinition struct {
	Sale         string            `json:"sale,omitempty" doc:"The sale whose item needs a turn; without it the room stands alone"`
	Item         string            `json:"item,omitempty" doc:"Given with sale"`
	Mode         waitingroom.Mode  `json:"mode" enum:"draw,fifo" doc:"draw: the order of those who join before starts_at is drawn. fifo: first come, first served"`
	GatherAt     *time.Time        `json:"gather_at,omitempty" doc:"From which on people may join. Required in mode draw; default: starts_at"`
	StartsAt     time.Time         `json:"starts_at" doc:"From which on turns are given"`
	Capacity     int               `json:"capacity,omitempty" minimum:"0" maximum:"1000000" default:"0" doc:"People admitted at a time; 0: not bounded"`
	RatePerMin   int               `json:"rate_per_min,omitempty" minimum:"0" maximum:"1000000" default:"0" doc:"Turns claimed in a minute; 0: not bounded. Without sale, capacity and rate turns are given by advance only"`
	ClaimMS      int64             `json:"claim_ms,omitempty" minimum:"1000" maximum:"86400000" default:"90000" doc:"Time to claim a turn"`
	PassMS       int64             `json:"pass_ms,omitempty" minimum:"1000" maximum:"86400000" default:"600000" doc:"Time to order, or to use the pass"`
	Bound        waitingroom.Bound `json:"bound,omitempty" enum:"strict,expected" default:"strict" doc:"strict: who claims and orders in time gets a unit. expected: more turns are given than there are units, because some are not used"`
	RequiresUser *bool             `json:"requires_user,omitempty" default:"true" doc:"Known users only. Required in a room of a sale"`
	Captcha      bool              `json:"captcha,omitempty" doc:"Joining needs a solved challenge"`
	Beacon       string            `json:"beacon,omitempty" enum:"drand" doc:"In mode draw: the order also depends on a public random value of drand, which is unknown while the list can be changed. The draw comes some seconds after starts_at"`
	PageView
	Lanes []LaneDefinition `json:"lanes,omitempty" doc:"2 to 8, at least one of them without tier, or none. Each has its own order and a share of the turns; what a lane without people does not use goes to the others. Once people have joined, only shares can be changed"`
}

// LaneDefinition is a lane of a RoomDefinition.
type LaneDefinition struct {
	Lane  string `json:"lane" doc:"Of a-z, 0-9 and -"`
	Share int    `json:"share" minimum:"1" maximum:"100" doc:"A weight: while people wait in two lanes, their turns are in the ratio of their shares"`
	Tier  string `json:"tier,omitempty" doc:"Only callers of this tier may join. Default: everybody"`
}

// AuditDetail returns what the audit log stores of the request.
func (in *putRoomInput) AuditDetail() any { return in.Body }

// operatorRoom is a room in responses to operators.
type operatorRoom struct {
	RoomView

	Mode         waitingroom.Mode  `json:"mode" enum:"draw,fifo"`
	Capacity     int               `json:"capacity"`
	ClaimMS      int64             `json:"claim_ms"`
	PassMS       int64             `json:"pass_ms"`
	Bound        waitingroom.Bound `json:"bound" enum:"strict,expected"`
	RequiresUser bool              `json:"requires_user"`
	Captcha      bool              `json:"captcha"`
	Brake        *float64          `json:"brake,omitempty" doc:"In a room of a sale: which part of its turns it gives, because orders wait too long for their commit; 1: all"`
	CommitLagMS  *int64            `json:"commit_lag_ms,omitempty" doc:"In a room of a sale: how long accepted orders wait for their commit"`
}

type operatorRoomOutput struct {
	Status       int
	CacheControl string `header:"Cache-Control"`
	Body         operatorRoom
}

func viewForOperator(s *waitingroom.Status) operatorRoom {
	v := operatorRoom{
		RoomView: viewRoom(s), Mode: s.Mode, Capacity: s.Capacity,
		ClaimMS: s.ClaimWindow.Milliseconds(), PassMS: s.PassLifetime.Milliseconds(), Bound: s.Bound, RequiresUser: s.RequiresUser,
		Captcha: s.Captcha,
	}
	if lag := s.Lag.Milliseconds(); s.Sale != "" {
		v.Brake, v.CommitLagMS = &s.Brake, &lag
	}
	return v
}

func operatorAnswer(s *waitingroom.Status) *operatorRoomOutput {
	return &operatorRoomOutput{Status: http.StatusOK, Body: viewForOperator(s)}
}

// PutRoom defines a room, or changes it.
func (h *Admin) PutRoom(ctx context.Context, in *putRoomInput) (*operatorRoomOutput, error) {
	if in.Body.Captcha && !h.Captchas {
		return nil, problem.InvalidAt("body.captcha", "must be false: this server cannot make challenges")
	}
	d := waitingroom.Definition{
		Room: in.Room, Sale: in.Body.Sale, Item: in.Body.Item, Mode: in.Body.Mode, GatherAt: in.Body.StartsAt, StartsAt: in.Body.StartsAt,
		Capacity: in.Body.Capacity, RatePerMin: in.Body.RatePerMin, ClaimWindow: time.Duration(in.Body.ClaimMS) * time.Millisecond,
		PassLifetime: time.Duration(in.Body.PassMS) * time.Millisecond, Bound: in.Body.Bound, RequiresUser: *in.Body.RequiresUser,
		Captcha: in.Body.Captcha, Beacon: in.Body.Beacon,
		Page: waitingroom.Page(in.Body.PageView),
	}
	for _, l := range in.Body.Lanes {
		d.Lanes = append(d.Lanes, waitingroom.Lane{Name: l.Lane, Share: l.Share, Tier: l.Tier})
	}
	if in.Body.GatherAt != nil {
		d.GatherAt = *in.Body.GatherAt
	}
	s, created, err := h.Rooms.Put(context.WithoutCancel(ctx), d)
	if err != nil {
		return nil, at(err)
	}
	out := operatorAnswer(&s)
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// at names the place of what is invalid in a request.
func at(err error) error {
	invalid, ok := errors.AsType[*waitingroom.Error](err)
	switch {
	case !ok || invalid.Field == "":
		return err
	case invalid.Field == "user":
		return problem.InvalidAt("user", invalid.Detail)
	case invalid.Field == "room":
		return problem.InvalidAt("path.room", invalid.Detail)
	case invalid.Field == "sale and item":
		return problem.InvalidAt("body", invalid.Text())
	}
	return problem.InvalidAt("body."+invalid.Field, invalid.Detail)
}

// Room is Visitors.Room, with what concerns operators only.
func (h *Admin) Room(ctx context.Context, in *RoomName) (*operatorRoomOutput, error) {
	s, err := h.Rooms.Room(ctx, in.Room)
	if err != nil {
		return nil, err
	}
	out := operatorAnswer(&s)
	out.CacheControl = "max-age=1"
	return out, nil
}

// List lists the rooms by name.
func (h *Admin) List(ctx context.Context, in *response.Paging) (*response.PageOutput[operatorRoom], error) {
	after, err := response.ParseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	all, err := h.Rooms.Rooms(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s waitingroom.Status) bool { return s.Room <= string(after) })
	return response.PageOf(all[:min(len(all), in.Limit)], len(all) >= in.Limit, viewForOperator,
		func(s *waitingroom.Status) []byte { return []byte(s.Room) }), nil
}

type placesInput struct {
	RoomName
	response.Paging
	User string `query:"user" maxLength:"255" doc:"All places that this user has had"`
}

// operatorPlace is a place in responses to operators.
type operatorPlace struct {
	_ struct{} `additionalProperties:"true"`

	Number     int64               `json:"number" doc:"The one that joining gave, from 1"`
	User       string              `json:"user,omitempty" doc:"Missing for a visitor who joined without one, and is known by the token only"`
	State      waitingroom.State   `json:"state" enum:"gathering,waiting,turn,admitted,done,lapsed,left,turned_away,barred"`
	Lane       string              `json:"lane,omitempty" doc:"In a room with lanes"`
	Position   *int64              `json:"position" doc:"From 1, in its lane; null before the draw"`
	Ahead      int64               `json:"ahead" doc:"Of a place that waits: places of its lane in front that have not had their turn, without those given up before the draw"`
	Outlook    waitingroom.Outlook `json:"outlook" enum:"certain,likely,unlikely,waiting_for_returns,none"`
	Quantity   int                 `json:"quantity"`
	JoinedAt   time.Time           `json:"joined_at"`
	TurnUntil  *time.Time          `json:"turn_until"`
	AdmittedAt *time.Time          `json:"admitted_at"`
	PassUntil  *time.Time          `json:"pass_until"`
	DoneAt     *time.Time          `json:"done_at"`
	LeftAt     *time.Time          `json:"left_at"`
	OrderID    string              `json:"order_id,omitempty"`
	Reason     string              `json:"reason,omitempty" doc:"Why it is barred"`
	Steps      []stepView          `json:"steps,omitempty" doc:"With user: what happened to the place, in order"`
}

// stepView is something that happened to a place, or to its room meanwhile.
type stepView struct {
	_ struct{} `additionalProperties:"true"`

	At    time.Time `json:"at"`
	Step  string    `json:"step" enum:"joined,drawn,turn,admitted,done,lapsed,left,replaced,turned_away,barred,held,resumed"`
	By    string    `json:"by,omitempty" doc:"The operator, or the ban. Missing for what the visitor, a server for the visitor, or the clock did"`
	Cause string    `json:"cause,omitempty"`
}

func viewPlace(p *waitingroom.Place) operatorPlace {
	v := operatorPlace{
		Number: p.Number, User: p.User, Lane: p.Lane, State: p.State, Ahead: p.Ahead, Outlook: p.Outlook, Quantity: p.Quantity,
		JoinedAt:  response.Instant(p.JoinedAt),
		TurnUntil: response.InstantOrNull(p.TurnUntil), AdmittedAt: response.InstantOrNull(p.AdmittedAt),
		PassUntil: response.InstantOrNull(p.PassUntil),
		DoneAt:    response.InstantOrNull(p.DoneAt), LeftAt: response.InstantOrNull(p.LeftAt), OrderID: p.OrderID, Reason: p.Reason,
	}
	if p.Position > 0 {
		v.Position = &p.Position
	}
	for _, s := range p.Steps {
		v.Steps = append(v.Steps, stepView{At: response.Instant(s.At), Step: s.What, By: s.By, Cause: s.Cause})
	}
	return v
}

// Places lists places by their numbers.
func (h *Admin) Places(ctx context.Context, in *placesInput) (*response.PageOutput[operatorPlace], error) {
	text, err := response.ParseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	after := int64(0)
	if len(text) > 0 {
		if after, err = strconv.ParseInt(string(text), 10, 64); err != nil || after < 0 {
			return nil, response.InvalidCursor()
		}
	}
	found, err := h.Rooms.Places(ctx, in.Room, waitingroom.Filter{User: in.User, After: after, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	return response.PageOf(found, len(found) == in.Limit, viewPlace,
		func(p *waitingroom.Place) []byte { return strconv.AppendInt(nil, p.Number, 10) }), nil
}

type verifyOutput struct {
	Body sales.Verification `nameHint:"RoomVerification"`
}

// Verify compares a room with itself, and with the stock.
func (h *Admin) Verify(ctx context.Context, in *RoomName) (*verifyOutput, error) {
	found, err := h.Rooms.Verify(ctx, in.Room)
	if err != nil {
		return nil, err
	}
	checks := make([]orders.Check, len(found))
	for i, c := range found {
		checks[i] = orders.Check{Invariant: c.Name, OK: c.OK, Detail: c.Detail}
	}
	return &verifyOutput{Body: sales.VerificationOf(checks)}, nil
}

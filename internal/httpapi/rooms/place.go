package rooms

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/challenge"
	"github.com/tidegate/tidegate/internal/httpapi/document"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/waitingroom"
)

// TokenField is the header field of a place's token. It is never part of a URL, which others may see.
const TokenField = "X-Place-Token"

// Visitors is the handlers for those who wait.
type Visitors struct {
	Rooms   *waitingroom.Service
	Charger interface {
		ChargeOnly(ctx context.Context) error
		// ChargeAndSolve is ChargeOnly, and then needs a solution of a challenge for b if needed returns true.
		ChargeAndSolve(ctx context.Context, b captcha.Binding, needed func() (bool, error)) error
	}
	Challenges *challenge.Handlers // nil: challenges cannot be solved
	Draining   func() bool         // streams are refused then
	MayWait    func(ctx context.Context) (waiting context.Context, end func(), ok bool)
	Leaving    context.Context // ends when draining begins
	Errors     request.ErrorWriter

	documents document.Shared // of rooms
}

// Routes are the routes of the public listener for a room, and of both for places and keys. Joining asks the rules by itself.
func (h *Visitors) Routes() []route.Route {
	of := func(roles []auth.Role, op huma.Operation) route.Route {
		op.Tags = tagRooms
		return route.Route{Operation: op, Public: route.Charged, Roles: roles}
	}
	forUser := func(op huma.Operation) route.Route {
		r := of(auth.ForServices, op)
		r.ActsForUser = true
		return r
	}
	room := of(nil, roomOperation())
	room.Document = reflect.TypeFor[RoomView]()
	join := forUser(huma.Operation{
		OperationID: "join-room", Method: http.MethodPost, Path: PlacePath, Summary: "Join a waiting room; idempotent: one place on all devices",
		MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 429, 503},
	})
	join.Public, join.Created = route.Open, true
	return append([]route.Route{
		route.Of(room, h.Room),
		route.Of(join, h.Join),
		route.Of(forUser(huma.Operation{
			OperationID: "get-place", Method: http.MethodGet, Path: PlacePath,
			Summary:     "The caller's place; with wait_ms, as soon as its state changes",
			Middlewares: huma.Middlewares{h.FastPlace}, Errors: []int{401, 403, 404, 422, 429, 503},
		}), h.Place),
		route.Of(forUser(huma.Operation{
			OperationID: "claim-turn", Method: http.MethodPost, Path: ClaimPath, Summary: "Claim the turn and get the pass; idempotent",
			Description: "503 at_capacity: it is the caller's turn, but the rate or the capacity is used up. The turn is kept; repeat the call.",
			Errors:      []int{401, 403, 404, 409, 410, 429, 503},
		}), h.Claim),
		route.Of(forUser(huma.Operation{
			OperationID: "leave-room", Method: http.MethodDelete, Path: PlacePath, Summary: "Give up the place and an unused pass; idempotent",
			DefaultStatus: http.StatusNoContent, Errors: []int{401, 403, 404, 429, 503},
		}), h.Leave),
		route.Of(of(auth.ForReaders, huma.Operation{
			OperationID: "pass-keys", Method: http.MethodGet, Path: "/.well-known/jwks.json", Summary: "The public keys of passes (RFC 7517)",
			Errors: []int{401, 403, 429, 503},
		}), h.Keys),
		route.Of(of(auth.ForReaders, huma.Operation{
			OperationID: "receipt-keys", Method: http.MethodGet, Path: "/.well-known/receipt-keys.json",
			Summary: "The public keys of receipts of draws (RFC 7517)",
			Errors:  []int{401, 403, 429, 503},
		}), h.ReceiptKeys),
	}, h.streamRoutes()...)
}

// Paths of the routes that visitors use most.
const (
	RoomPath   = "/v1/rooms/{room}"
	PlacePath  = RoomPath + "/place"
	ClaimPath  = PlacePath + "/claim"
	EventsPath = RoomPath + "/events"
)

var tagRooms = []string{"Waiting rooms"}

// roomOperation reads a room. The internal listener has another handler for it, which shows more.
func roomOperation() huma.Operation {
	return huma.Operation{
		OperationID: "get-room", Method: http.MethodGet, Path: RoomPath, Summary: "A waiting room and its progress", Tags: tagRooms,
		Errors: []int{401, 403, 404, 429, 503},
	}
}

func roomParameter() []*huma.Param {
	return []*huma.Param{route.PathParameter("room", "Name of the room")}
}

// Visitor is the parameters that identify a place.
type Visitor struct {
	RoomName
	Token string `header:"X-Place-Token" doc:"token of the place. Without a user it is the only proof of a place, and a secret; with one it saves a lookup"`
}

func (in *Visitor) visitor(ctx context.Context) waitingroom.Visitor {
	return waitingroom.Visitor{User: request.Of(ctx).Caller.User, Tier: request.Of(ctx).Tier(), Token: in.Token}
}

// PlaceView is a place in responses to its visitor.
type PlaceView struct {
	_ struct{} `additionalProperties:"true"`

	Room        string              `json:"room"`
	State       waitingroom.State   `json:"state" enum:"gathering,waiting,turn,admitted,done,lapsed,left,turned_away,barred" doc:"From done on they are final; after lapsed and left, and in a room without a sale after done, one may join again, at the end"`
	Number      int64               `json:"number" doc:"The one that joining gave, from 1"`
	Lane        string              `json:"lane,omitempty" doc:"In a room with lanes"`
	Position    *int64              `json:"position,omitempty" doc:"From 1, in its lane; known after the draw, and then it never rises"`
	Ahead       *int64              `json:"ahead,omitempty" doc:"Of a place that waits: places of its lane in front that have not had their turn, without those given up before the draw"`
	Outlook     waitingroom.Outlook `json:"outlook" enum:"certain,likely,unlikely,waiting_for_returns,none" doc:"certain: who claims in time gets a unit. waiting_for_returns: everything is taken, and units that come back go to the next. none: nothing will come of this place"`
	ETA         *etaView            `json:"eta"`
	PollAfterMS int64               `json:"poll_after_ms" doc:"When to read the place again; 0: it will not change any more"`
	TurnUntil   *time.Time          `json:"turn_until,omitempty" doc:"In state turn: claim before. It moves while the room is held"`
	PassUntil   *time.Time          `json:"pass_until,omitempty" doc:"In state admitted: order before. It moves while the room is held"`
	Pass        string              `json:"pass,omitempty" doc:"In state admitted: a JWS (EdDSA, or RS256 with a key of PASS_KEY_FILE) for other servers, which verify it with /.well-known/jwks.json"`
	Quantity    int                 `json:"quantity" doc:"Units that one may order. Smaller than what was asked for if fewer are left"`
	JoinedAt    time.Time           `json:"joined_at"`
	OrderID     string              `json:"order_id,omitempty" doc:"In state done: the order"`
	Reason      string              `json:"reason,omitempty" doc:"In state barred: why"`
	Token       string              `json:"token" doc:"Send the latest one as X-Place-Token. Without a user it is the only proof of the place, and a secret"`
	Receipt     string              `json:"receipt,omitempty" doc:"When joining, also again, with a place that will be drawn or was: a JWS of its leaf in the list"`
}

// etaView is the time until a turn.
type etaView struct {
	MinMS int64 `json:"min_ms"`
	MaxMS int64 `json:"max_ms"`
}

// Schema describes that there may be none.
func (etaView) Schema(r huma.Registry) *huma.Schema {
	number := func(doc string) *huma.Schema {
		s := *r.Schema(reflect.TypeFor[int64](), false, "")
		s.Description = doc
		return &s
	}
	return &huma.Schema{
		Type: huma.TypeObject, Nullable: true, Description: "Time until the turn, right in four of five cases; null: not known",
		AdditionalProperties: true,
		Properties: map[string]*huma.Schema{
			"min_ms": number("At the 90th percentile of the rates of the last minutes"),
			"max_ms": number("At the 10th percentile"),
		},
		Required: []string{"min_ms", "max_ms"},
	}
}

type placeOutput struct {
	Status       int
	CacheControl string `header:"Cache-Control"`
	Location     string `header:"Location"`
	Body         PlaceView
}

func (h *Visitors) view(p *waitingroom.Place) (*placeOutput, error) {
	v := PlaceView{
		Room: p.Room, State: p.State, Number: p.Number, Lane: p.Lane, Outlook: p.Outlook, PollAfterMS: response.CeilMS(p.PollAfter),
		Quantity: p.Quantity,
		JoinedAt: response.Instant(p.JoinedAt), OrderID: p.OrderID, Reason: p.Reason, Token: p.Token, Receipt: p.Receipt,
		TurnUntil: response.InstantOrNull(p.TurnUntil), PassUntil: response.InstantOrNull(p.PassUntil),
	}
	if p.Position > 0 {
		v.Position = &p.Position
	}
	if p.State == waitingroom.StateWaiting {
		v.Ahead = &p.Ahead
	}
	if p.ETA != nil {
		v.ETA = &etaView{p.ETA.Min.Milliseconds(), p.ETA.Max.Milliseconds()}
	}
	if p.State == waitingroom.StateAdmitted {
		var err error
		if v.Pass, err = h.Rooms.Pass(*p); err != nil {
			return nil, err
		}
	}
	return &placeOutput{Status: http.StatusOK, CacheControl: "no-store", Body: v}, nil
}

type joinInput struct {
	Visitor
	Captcha string    `header:"X-Captcha" doc:"Solution of the challenge that a refusal with captcha_required named; good for one place"`
	Body    *joinBody `required:"false"`
}

type joinBody struct {
	Lane     string `json:"lane,omitempty" doc:"Of a room with lanes. Default: the last one that is open to everybody. Whoever has a place keeps its lane"`
	Quantity int    `json:"quantity,omitempty" minimum:"1" maximum:"1000" default:"1" doc:"Most units that will be ordered"`
}

// Join charges the request itself, because the challenge of a room answers those of the rules.
func (h *Visitors) Join(ctx context.Context, in *joinInput) (*placeOutput, error) {
	quantity, who := 1, in.visitor(ctx)
	if in.Body != nil {
		quantity, who.Lane = max(1, in.Body.Quantity), in.Body.Lane
	}
	place, err := h.Enter(ctx, in.Room, who, quantity)
	if err != nil {
		return nil, err
	}
	out, err := h.view(&place)
	if err != nil {
		return nil, err
	}
	if out.Location = string(problem.RoomPath(in.Room)) + "/place"; place.Created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// Enter gives a visitor a place, or returns the one that the visitor has, after the rules and the room's challenge.
func (h *Visitors) Enter(ctx context.Context, name string, who waitingroom.Visitor, quantity int) (waitingroom.Place, error) {
	room, err := h.room(ctx, name)
	if err != nil {
		return waitingroom.Place{}, err
	}
	if err := h.charge(ctx, &room, who); err != nil {
		return waitingroom.Place{}, err
	}
	place, refusal, err := h.Rooms.Join(context.WithoutCancel(ctx), name, who, quantity)
	if err != nil {
		return place, at(err)
	}
	if refusal != nil {
		p := refused(refusal)
		if refusal.Reason == waitingroom.ReasonNotStarted {
			p.RetryAfter = max(room.GatherAt.Sub(room.Now), time.Millisecond)
		}
		return place, p
	}
	return place, nil
}

// refused is the problem of a visitor whom the room refuses.
func refused(refusal *waitingroom.Refusal) *problem.Problem {
	p := problem.New(string(refusal.Reason))
	p.Detail, p.RetryAfter = refusal.Detail, max(refusal.RetryAfter, p.RetryAfter)
	return p
}

// charge asks the rules, and for a solution if the room wants one and the visitor has no place yet.
func (h *Visitors) charge(ctx context.Context, room *waitingroom.Status, who waitingroom.Visitor) error {
	if !room.Captcha || h.Challenges == nil {
		return h.Charger.ChargeOnly(ctx)
	}
	req := request.Of(ctx).Admission(h.Challenges.Proxies)
	return h.Charger.ChargeAndSolve(ctx, h.Challenges.RoomBinding(room.Room, &req), func() (joins bool, err error) {
		p, err := h.Rooms.Place(ctx, room.Room, who)
		if errors.Is(err, waitingroom.ErrNotJoined) {
			return true, nil
		}
		return err == nil && room.MayRejoin(p.State), err
	})
}

type placeInput struct {
	Visitor
	WaitMS int64             `query:"wait_ms" minimum:"0" maximum:"30000" doc:"How long to wait for the state to differ from while"`
	While  waitingroom.State `query:"while" enum:"gathering,waiting,turn,admitted,done,lapsed,left,turned_away,barred" doc:"Default: the state when the request arrives"`
}

// Place reads only.
func (h *Visitors) Place(ctx context.Context, in *placeInput) (*placeOutput, error) {
	request.Of(ctx).Slot.Leave()
	who := in.visitor(ctx)
	place, err := h.Rooms.Place(ctx, in.Room, who)
	wait := time.Duration(in.WaitMS) * time.Millisecond
	if err == nil && wait > 0 && !place.State.Final() && (in.While == "" || in.While == place.State) {
		if waiting, end, ok := h.MayWait(ctx); ok {
			defer end()
			waiting, cancel := context.WithCancel(waiting)
			defer cancel()
			defer context.AfterFunc(h.Leaving, cancel)()
			place, err = h.Rooms.Wait(waiting, in.Room, who, place.State, wait)
			err = cmp.Or(request.Of(ctx).StillAllowed(), err)
		}
	}
	if err != nil {
		return nil, err
	}
	return h.view(&place)
}

// FastPlace answers those who only read their place without Huma's reflection, which takes a sixth of such a request. Nearly all
// requests of a room are of this kind.
func (h *Visitors) FastPlace(ctx huma.Context, next func(huma.Context)) {
	c := humaecho.Unwrap(ctx)
	r := c.Request()
	if r.URL.RawQuery != "" {
		next(ctx)
		return
	}
	out, err := h.Place(r.Context(), &placeInput{Visitor: Visitor{RoomName: RoomName{c.Param("room")}, Token: r.Header.Get(TokenField)}})
	if err != nil {
		h.Errors.Fail(c, err)
		return
	}
	header := c.Response().Header()
	header["Cache-Control"], header["Content-Type"] = response.NoStore, response.JSON
	c.Response().WriteHeader(http.StatusOK)
	_ = huma.DefaultJSONFormat.Marshal(c.Response(), &out.Body) // fails if the client has disconnected
}

// Claim takes the turn.
func (h *Visitors) Claim(ctx context.Context, in *Visitor) (*placeOutput, error) {
	request.Of(ctx).Slot.Leave()
	ctx = context.WithoutCancel(ctx)
	who := in.visitor(ctx)
	place, refusal, err := h.Rooms.Claim(ctx, in.Room, who)
	if err != nil {
		return nil, err
	}
	if refusal == nil {
		return h.view(&place)
	}
	p := refused(refusal)
	if refusal.Reason == waitingroom.ReasonNotYourTurn {
		if place, failed := h.Rooms.Place(ctx, in.Room, who); failed == nil {
			after := response.CeilMS(place.PollAfter)
			p.PollAfterMS = &after
		}
	}
	return nil, p
}

// Leave gives up the place.
func (h *Visitors) Leave(ctx context.Context, in *Visitor) (*struct{}, error) {
	ctx = context.WithoutCancel(ctx)
	return nil, h.Rooms.Leave(ctx, in.Room, in.visitor(ctx))
}

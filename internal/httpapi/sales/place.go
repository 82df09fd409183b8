package sales

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/singleflight"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/charge"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/lazydeadline"
	"github.com/tidegate/tidegate/internal/loadshed"
	"github.com/tidegate/tidegate/internal/netaddr"
	"github.com/tidegate/tidegate/orders"
)

// Placer is the handler that places orders.
type Placer struct {
	Orders Preparer
	Rules  rules
	Gate   charge.Gate
	Rooms  interface { // nil: no waiting rooms
		// Restore lets a user order again whom a waiting room has admitted, if Redis has forgotten it.
		Restore(ctx context.Context, sale, item, user string) (bool, error)
	}
	Capacity  *loadshed.Capacity
	Lookups   *loadshed.Allowance // limits the lookups of whether a refused order is a repeat
	lookingUp singleflight.Group
	Within    time.Duration // maximum time for the rules and the reservation together
	Errors    request.ErrorWriter
	Log       *slog.Logger
}

// A Preparer validates requests for orders.
type Preparer interface {
	Namer
	Prepare(orders.Request) (Attempt, error)
}

// rules decide requests to this API.
type rules interface {
	// RequestOf returns what the rules are asked about a request.
	RequestOf(r *request.Info) admission.Request
	// Charge asks the rules. The returned context is for the remaining work within the same time; it must be ended also after an error.
	Charge(ctx context.Context, within time.Duration) (*lazydeadline.Context, error)
	// ChargeUnless is Charge, but does not refuse requests for which excused returns true.
	ChargeUnless(ctx context.Context, within time.Duration, excused func(context.Context) bool) (*lazydeadline.Context, error)
	// Answered records how a request was answered.
	Answered(r *request.Info, err error)
}

// Attempt is an attempt to place an order, after validation.
type Attempt interface {
	// Screen decides from the process's memory if that is possible.
	Screen() (out orders.Outcome, decided bool)
	// Remembered reports whether the process remembers an order that this repeats.
	Remembered() bool
	// Replay returns the order that this repeats, and reserves nothing. It continues when ctx is cancelled.
	Replay(ctx context.Context) (out orders.Outcome, found bool, err error)
	// Reserve continues when ctx is cancelled, because the result of a reservation must be recorded.
	Reserve(ctx context.Context) (orders.Outcome, error)
}

// MaxOrder is the maximum size of an order's body in bytes: its sender may be anonymous, and parsing is the most expensive step
// of a refusal.
const MaxOrder = 4 << 10

// Routes is the route that places orders.
func (h *Placer) Routes() []route.Route {
	return []route.Route{route.Of(route.Route{
		Operation: huma.Operation{
			OperationID: "place-order", Method: http.MethodPost, Path: OrdersPath, Summary: "Order units of an item",
			Middlewares: huma.Middlewares{h.FastPlace},
			Tags:        tagOrders, DefaultStatus: http.StatusAccepted, MaxBodyBytes: MaxOrder + 1,
			Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 429, 503},
		},
		Public: route.Open, Roles: auth.ForServices, ActsForUser: true,
	}, h.Place)}
}

type placeInput struct {
	Sale    string `path:"sale" doc:"Name of the sale"`
	Key     string `header:"Idempotency-Key" example:"2f1c6a0e-8f0b-4c6e-9a53-7d1f0b6c9e21" doc:"At most 255 printable characters. Makes a repetition of this request the same order. It may be quoted, as a string of structured fields: \"k\" is k. Required where a buyer may hold more than one unit, and without a user. Without a user it has 22 to 255 characters and is a secret, such as a random UUID: whoever has it has the order"`
	Captcha string `header:"X-Captcha" doc:"Solution of the challenge that a refusal with captcha_required named; good for one request"`
	Body    OrderRequest
}

type placeOutput struct {
	Location   string `header:"Location"`
	RetryAfter string `header:"Retry-After" doc:"Whole seconds; poll_after_ms is finer"`
	Replayed   string `header:"Idempotency-Replayed" doc:"true: the order stood before this request"`
	Body       PlacedOrder
}

// PlacedOrder is an order in the response to its buyer's request.
type PlacedOrder struct {
	_ struct{} `additionalProperties:"true"`

	OrderID     string        `json:"order_id" format:"uuid"`
	Status      orders.Status `json:"status" enum:"accepted,confirmed,paid,cancelled,expired,rejected"`
	Sale        string        `json:"sale"`
	Item        string        `json:"item"`
	Quantity    int           `json:"quantity"`
	PollAfterMS int64         `json:"poll_after_ms" doc:"When to ask for the order again; 0: it will not change any more"`
}

// Place answers from this process's memory if possible; otherwise it asks the rules, and then reserves. Answers from memory are
// not charged to users: a sold-out sale costs its crowd nothing. A repeat of an order is neither charged nor refused: if only
// Redis has the order, a charge is refunded, and before a refusal Redis is asked.
func (h *Placer) Place(ctx context.Context, in *placeInput) (*placeOutput, error) {
	p := &placing{Placer: h, r: request.Of(ctx), in: *in}
	p.r.Placing = true
	err := p.place(ctx)
	h.Rules.Answered(p.r, err)
	if err != nil {
		return nil, err
	}
	return &p.placed, nil
}

// placing is a request for an order that is being decided.
type placing struct {
	*Placer

	r       *request.Info
	in      placeInput
	attempt Attempt
	out     orders.Outcome
	found   bool  // out is the order that a refused request repeats
	unknown error // why that cannot be found out
	placed  placeOutput
}

func (p *placing) place(ctx context.Context) (err error) {
	in := &p.in
	if in.Key, err = unquoted(in.Key); err != nil {
		return err
	}
	if p.attempt, err = p.Orders.Prepare(in.Body.of(in.Sale, p.r.Caller.User, in.Key)); err != nil {
		return err
	}
	p.r.Sale, p.r.Item = in.Sale, in.Body.Item
	var decided bool
	p.out, decided = p.attempt.Screen()
	if decided && !p.out.Admitted() && p.r.Caller.User == "" { // the key may be guessed, and a guess costs as much as an order
		rest, err := p.Rules.Charge(ctx, p.Within)
		rest.End()
		if err != nil {
			return err
		}
	}
	if !decided {
		if err := p.reserve(ctx); err != nil {
			return err
		}
	}
	record(ctx, p.Orders, &p.out.Order)
	if !p.out.Admitted() {
		return refusalProblem(&p.out)
	}
	const path = "/v1/orders/"
	var buf [64]byte
	text, _ := p.out.Order.ID.AppendText(append(buf[:0], path...)) // never fails
	o, wait, location := &p.out.Order, pollAfter(&p.out.Order), string(text)
	p.placed = placeOutput{
		Location:   location,
		RetryAfter: strconv.FormatInt(max(1, (wait+999)/1000), 10),
		Body: PlacedOrder{
			OrderID: location[len(path):], Status: o.Status, Sale: o.Sale, Item: o.Item, Quantity: o.Quantity, PollAfterMS: wait,
		},
	}
	if p.out.Replayed {
		p.placed.Replayed = "true"
	}
	return nil
}

// reserve sets out to the order that this repeats, or asks the rules, and then reserves. Each step has its own deadline, and
// continues when the client disconnects.
func (p *placing) reserve(ctx context.Context) error {
	stay, retryAfter, ok := p.Capacity.Enter()
	if !ok {
		p.out = orders.Outcome{Reason: orders.ReasonAtCapacity, RetryAfter: retryAfter}
		return nil
	}
	p.r.Slot.Leave()
	p.r.Stay = stay
	counts := true
	defer func() { p.r.Stay.Leave(counts) }()
	excused := p.repeated
	if p.attempt.Remembered() { // this costs as much as reading the order
		if found, err := p.recall(ctx); found || err != nil {
			return err
		}
		excused = func(context.Context) bool { return false }
	}
	rest, err := p.Rules.ChargeUnless(ctx, p.Within, excused)
	defer rest.End()
	switch {
	case p.found, p.unknown != nil:
		return p.unknown
	case err != nil:
		_, refused := errors.AsType[*problem.Problem](err)
		counts = !refused // a refusal may come from memory, so its duration does not measure a decision
		return err
	}
	p.out, err = p.attempt.Reserve(rest)
	if err == nil && p.out.Reason == orders.ReasonTurnRequired {
		err = p.restore(rest)
	}
	if err == nil && p.out.Replayed {
		p.refund(ctx)
	}
	return err
}

// restore reserves again for a user whom the waiting room has admitted, and Redis has forgotten. Whoever comes without a turn has an
// allowance of lookups, like whoever repeats an order.
func (p *placing) restore(ctx context.Context) error {
	user := p.r.Caller.User
	if p.Rooms == nil || user == "" || !p.Lookups.Take(p.subject(), time.Now()) {
		return nil
	}
	admitted, err := p.Rooms.Restore(ctx, p.in.Sale, p.in.Body.Item, user)
	if err == nil && admitted {
		p.out, err = p.attempt.Reserve(ctx)
	}
	return err
}

// unquoted returns a key that is written as a string of structured fields (RFC 9651, section 3.3.3) without its quotes, and any other
// unchanged.
func unquoted(key string) (string, error) {
	rest, quoted := strings.CutPrefix(key, `"`)
	if !quoted {
		return key, nil
	}
	plain := make([]byte, 0, len(rest))
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"' && i == len(rest)-1 && i > 0:
			return string(plain), nil
		case c == '\\' && i+1 < len(rest) && (rest[i+1] == '"' || rest[i+1] == '\\'):
			i++
			plain = append(plain, rest[i])
		case c == '"' || c == '\\':
			i = len(rest)
		default:
			plain = append(plain, c)
		}
	}
	return "", problem.InvalidAt("header.Idempotency-Key",
		`must end with the quote that it begins with, be longer than that, and have quotes and backslashes inside written as \" and \\`)
}

// recall sets out to the current state of an order that the process remembers.
func (p *placing) recall(ctx context.Context) (found bool, err error) {
	within := lazydeadline.Within(ctx, p.Within)
	defer within.End()
	p.out, found, err = p.attempt.Replay(within)
	return found, err
}

// repeated sets out to the order that a request repeats which is about to be refused, and which only Redis may have. It reports whether the
// request is not refused. Refused requests must not load Redis: identical concurrent ones share one lookup, and each subject has an
// allowance.
func (p *placing) repeated(ctx context.Context) bool {
	var same []byte
	for _, part := range []string{p.in.Sale, p.in.Body.Item, strconv.Itoa(p.in.Body.Quantity), p.r.Caller.User, p.in.Key} {
		same = append(append(strconv.AppendInt(same, int64(len(part)), 10), ' '), part...) // the length separates it from the next part
	}
	answer, err, _ := p.lookingUp.Do(string(same), func() (any, error) {
		var of replayed
		var err error
		if p.Lookups.Take(p.subject(), time.Now()) {
			of.out, of.found, err = p.attempt.Replay(ctx)
		}
		return of, err
	})
	of := answer.(replayed)
	p.out, p.found, p.unknown = of.out, of.found, err
	return p.found || p.unknown != nil
}

// replayed is the order that a request repeats, if it was found.
type replayed struct {
	out   orders.Outcome
	found bool
}

// subject returns the caller that rules count first: the user, or else the address.
func (p *placing) subject() string {
	if p.r.Caller.User != "" {
		return "user " + p.r.Caller.User
	}
	return "address " + netaddr.Address(p.Rules.RequestOf(p.r).IP)
}

// refund takes back the charge of a request that turned out to be a repeat.
func (p *placing) refund(ctx context.Context) {
	if err := p.Gate.Refund(ctx, p.r.Charged); err != nil {
		p.Log.LogAttrs(ctx, slog.LevelWarn, "a repeat of an order stays charged", append(p.r.Attrs(), slog.Any("error", err))...)
		return
	}
	delete(p.r.Header, "Ratelimit")
	delete(p.r.Header, "Ratelimit-Policy")
}

// refusalProblem is the problem for an order that was refused.
func refusalProblem(out *orders.Outcome) *problem.Problem {
	p := problem.New(string(out.Reason))
	switch out.Reason {
	case orders.ReasonNotEnough:
		p.Free = &out.Free
	case orders.ReasonTurnRequired:
		if out.Room != "" {
			p.Room = problem.RoomPath(out.Room)
		}
	case orders.ReasonQuotaPerBuyer:
		if out.Order.ID != (orders.ID{}) {
			p.OrderID = out.Order.ID.String()
		} else {
			p.Detail = fmt.Sprintf("The order is for more than the quota of %d.", out.Quota)
		}
	}
	if out.RetryAfter > 0 {
		p.RetryAfter = out.RetryAfter
	}
	return p
}

package admit

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/charge"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
)

// Bans are the handlers for bans. They are safe for concurrent use once their fields are set.
type Bans struct {
	Gate    charge.Gate
	History BanHistory // nil: no history
	// Forgive deletes the failed logins that a target may have been banned for. Nil: not called.
	Forgive func(ctx context.Context, target bans.Target) error
}

// Routes are the routes of bans.
func (h *Bans) Routes() []route.Route {
	const one = "/v1/bans/{kind}/{value}"
	tag := []string{"Bans"}
	return []route.Route{
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "list-bans", Method: http.MethodGet, Path: "/v1/bans", Summary: "The bans in force", Tags: tag,
				Errors: []int{401, 403, 422},
			},
			Roles: auth.ForViewers,
		}, h.List),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "put-ban", Method: http.MethodPut, Path: one, Summary: "Ban a user, address, network or device", Tags: tag,
				MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 408, 409, 413, 415, 422, 503},
			},
			Roles: auth.ForOperators,
		}, h.Put),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "delete-ban", Method: http.MethodDelete, Path: one,
				Summary: "Lift a ban, everywhere, and forget what failed to log in from the address", Tags: tag,
				DefaultStatus: http.StatusNoContent, Errors: []int{401, 403, 404, 422, 503},
			},
			Roles: auth.ForOperators,
		}, h.Delete),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "ban-history", Method: http.MethodGet, Path: "/v1/bans/history",
				Summary: "Bans as they were made and lifted, the newest first",
				Tags:    tag, Errors: []int{401, 403, 422, 503},
			},
			Roles: auth.ForViewers,
		}, h.ListHistory),
	}
}

// BanHistory lists bans and their ends.
type BanHistory interface {
	// List returns up to limit events, the newest first: those after the one with the ID after, or from the newest if that is empty.
	List(ctx context.Context, after string, limit int) ([]bans.Event, error)
}

// BanView is a ban, as callers see it. It is exported because Huma describes no embedded type that is not.
type BanView struct {
	_ struct{} `additionalProperties:"true"`

	Kind   bans.Kind `json:"kind" enum:"user,ip,network,device"`
	Value  string    `json:"value"`
	Reason string    `json:"reason,omitempty" doc:"An operator's words"`
	Rule   string    `json:"rule,omitempty" doc:"The rule that banned"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Times  int       `json:"times" doc:"Bans of this target in a row, with this one"`
}

func viewBan(b *bans.Ban) BanView {
	return BanView{
		Kind: b.Kind, Value: b.Value, Reason: b.Reason, Rule: b.Rule, Since: response.Instant(b.Since), Until: response.Instant(b.Until),
		Times: b.Times,
	}
}

// List lists the bans in force by kind and value.
func (h *Bans) List(_ context.Context, in *response.Paging) (*response.PageOutput[BanView], error) {
	after, err := response.ParseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	kind, value, _ := strings.Cut(string(after), " ")
	last := bans.Target{Kind: bans.Kind(kind), Value: value}
	all := slices.DeleteFunc(h.Gate.Bans(), func(b bans.Ban) bool { return compareTargets(b.Target, last) <= 0 })
	slices.SortFunc(all, func(x, y bans.Ban) int { return compareTargets(x.Target, y.Target) })
	page := all[:min(len(all), in.Limit)]
	return response.PageOf(page, len(all) > in.Limit, viewBan, func(b *bans.Ban) []byte { return []byte(string(b.Kind) + " " + b.Value) }), nil
}

func compareTargets(x, y bans.Target) int {
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Value, y.Value))
}

type banInput struct {
	Kind  bans.Kind `path:"kind" enum:"user,ip,network,device"`
	Value string    `path:"value" doc:"Percent-encoded: a network has a slash, as in 203.0.113.0%2F24"`
}

func parseTarget(kind bans.Kind, value string) (bans.Target, error) {
	t, err := bans.ParseTarget(string(kind), value)
	if err != nil {
		return t, problem.InvalidAt("path.value", problem.TextFor(err))
	}
	return t, nil
}

type putBanInput struct {
	Kind  bans.Kind `path:"kind" enum:"user,ip,network,device"`
	Value string    `path:"value" doc:"Percent-encoded: a network has a slash, as in 203.0.113.0%2F24"`
	Body  BanOrder
}

// BanOrder is a ban that an operator makes.
type BanOrder struct {
	ForMS  int64  `json:"for_ms" minimum:"1" maximum:"316224000000" doc:"How long, from now; a ban in force is replaced"`
	Reason string `json:"reason,omitempty" maxLength:"255" doc:"For other operators; the banned caller does not receive it"`
}

// AuditDetail returns what the audit log stores of the request.
func (in *putBanInput) AuditDetail() any { return in.Body }

type banOutput struct{ Body BanView }

// Put bans a target, or replaces its ban.
func (h *Bans) Put(ctx context.Context, in *putBanInput) (*banOutput, error) {
	target, err := parseTarget(in.Kind, in.Value)
	if err != nil {
		return nil, err
	}
	ban, err := h.Gate.Ban(context.WithoutCancel(ctx), bans.Order{
		Target: target, Reason: in.Body.Reason, For: time.Duration(in.Body.ForMS) * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	return &banOutput{Body: viewBan(&ban)}, nil
}

// Delete lifts a ban.
func (h *Bans) Delete(ctx context.Context, in *banInput) (*struct{}, error) {
	target, err := parseTarget(in.Kind, in.Value)
	if err != nil {
		return nil, err
	}
	if h.Forgive != nil {
		if err := h.Forgive(context.WithoutCancel(ctx), target); err != nil {
			return nil, err
		}
	}
	switch ok, err := h.Gate.Lift(context.WithoutCancel(ctx), target); {
	case err != nil:
		return nil, err
	case !ok:
		return nil, problem.New(problem.UnknownBan)
	}
	return nil, nil
}

type banEventView struct {
	BanView

	ID    string    `json:"id"`
	At    time.Time `json:"at"`
	Event string    `json:"event" enum:"banned,lifted"`
}

// ListHistory lists bans and their ends, the newest first.
func (h *Bans) ListHistory(ctx context.Context, in *response.Paging) (*response.PageOutput[banEventView], error) {
	return response.HistoryPage(*in, func(after string) ([]bans.Event, error) {
		if h.History == nil {
			return nil, nil
		}
		return h.History.List(ctx, after, in.Limit)
	}, viewBanEvent, func(e *bans.Event) string { return e.ID })
}

func viewBanEvent(e *bans.Event) banEventView {
	view := banEventView{BanView: viewBan(&e.Ban), ID: e.ID, At: response.Instant(e.At), Event: "banned"}
	if e.Lifted {
		view.Event = "lifted"
	}
	return view
}

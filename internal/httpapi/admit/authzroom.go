package admit

import (
	"errors"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/waitingroom"
)

// PassField is the header field of a pass. Without it, a pass is also accepted in Authorization: Bearer, where that is neither
// the gateway's own token nor its client's.
const PassField = "X-Waiting-Room-Pass"

// userField names the user of a valid pass in the answer, for gateways that hand it on.
const userField = "X-User-Id"

// pass is what a gateway's client presents for a waiting room.
type pass struct {
	room  string // empty: the gateway asks for none
	user  string // that a valid pass names; empty: none, or a visitor without a user
	valid bool
}

// passOf reads the pass for the room in the query. It is read at AuthzPath only, because below it the query is the client's.
func (h *Gateways) passOf(c echo.Context, r *request.Info) (p pass, err error) {
	query := c.QueryParams()
	if h.Rooms == nil || c.Path() != AuthzPath || !query.Has("room") {
		return p, nil
	}
	if rooms := query["room"]; len(rooms) != 1 {
		return p, problem.InvalidAt("query.room", "must be given once")
	}
	if p.room = query.Get("room"); !waitingroom.ValidName(p.room) {
		return p, waitingroom.ErrUnknownRoom
	}
	text := r.HTTP.Header.Get(PassField)
	if scheme, token, ok := strings.Cut(r.HTTP.Header.Get("Authorization"), " "); text == "" && ok && strings.EqualFold(scheme, "Bearer") {
		text = token
	}
	if text == "" {
		return p, nil
	}
	claims, err := h.Rooms.VerifyPass(p.room, text, time.Now())
	switch {
	case errors.Is(err, waitingroom.ErrInvalid):
		return p, nil
	case err != nil:
		return p, err
	}
	p.valid = true
	p.user = claims.Account()
	return p, nil
}

// turn returns nil if the client may pass: with a valid pass that is not another user's, or after the room has been closed.
func (h *Gateways) turn(r *request.Info, p pass) error {
	if p.room == "" {
		return nil
	}
	foreign := p.user != "" && r.Caller.User != "" && p.user != r.Caller.User
	if p.valid && !foreign {
		if p.user != "" {
			r.Header[userField] = []string{p.user}
		}
		return nil
	}
	room, err := h.Rooms.Room(r.HTTP.Context(), p.room)
	switch {
	case err != nil:
		return err
	case room.Phase == waitingroom.PhaseClosed:
		return nil
	}
	refused := problem.New(string(orders.ReasonTurnRequired))
	if refused.Room = problem.RoomPath(p.room); foreign {
		refused.Detail = "The pass is another user's."
	}
	return refused
}

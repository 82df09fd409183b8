package vwr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/waitingroom"
)

type assigned struct {
	_ struct{} `additionalProperties:"true"`

	RequestID string `json:"api_request_id" doc:"The token of the place. Of somebody unknown it is the only proof of the place, and a secret"`
}

func (h *Handlers) assign(ctx context.Context, in *call) (any, error) {
	room, err := h.room(ctx, in)
	if err != nil {
		return nil, err
	}
	place, err := h.visitors.Enter(ctx, room.Room, waitingroom.Visitor{User: request.Of(ctx).Caller.User}, 1)
	if err != nil {
		return nil, err
	}
	return assigned{RequestID: h.places.StableToken(place)}, nil
}

type queueNumber struct {
	_ struct{} `additionalProperties:"true"`

	Number  int64  `json:"queue_number" doc:"Position, from 1"`
	Entered int64  `json:"entry_time" doc:"Unix seconds"`
	Event   string `json:"event_id"`
	Status  int    `json:"status" doc:"Always 1"`
}

func (h *Handlers) queueNum(ctx context.Context, in *call) (any, error) {
	room, _, place, err := h.visitor(ctx, in)
	switch {
	case errors.Is(err, waitingroom.ErrNotJoined):
		return nil, invalidID
	case err != nil:
		return nil, err
	case place.Position == 0:
		return nil, failed(http.StatusAccepted, "Queue number not drawn yet")
	}
	return queueNumber{Number: place.Position, Entered: place.JoinedAt.Unix(), Event: room.Room, Status: 1}, nil
}

type servingCounter struct {
	_ struct{} `additionalProperties:"true"`

	Served string `json:"serving_counter" doc:"A number in a text, as AWS sends it"`
}

func (h *Handlers) servingNum(ctx context.Context, in *call) (any, error) {
	room, err := h.room(ctx, in)
	if err != nil {
		return nil, err
	}
	return servingCounter{Served: strconv.FormatInt(room.OpenLane().Served, 10)}, nil
}

type waitingNumber struct {
	_ struct{} `additionalProperties:"true"`

	Waiting int64 `json:"waiting_num" doc:"Places that have not had their turn"`
}

func (h *Handlers) waitingNum(ctx context.Context, in *call) (any, error) {
	room, err := h.room(ctx, in)
	if err != nil {
		return nil, err
	}
	return waitingNumber{Waiting: room.OpenLane().Waiting}, nil
}

type expiry struct {
	_ struct{} `additionalProperties:"true"`

	Seconds int64 `json:"expires_in" doc:"Until the turn lapses; after generate_token, until the tokens expire"`
}

// until returns the whole seconds left.
func until(at time.Time, room *waitingroom.Status) int64 {
	return max(0, int64(at.Sub(room.Now)/time.Second))
}

func (h *Handlers) queuePosExpiry(ctx context.Context, in *call) (any, error) {
	room, _, place, err := h.visitor(ctx, in)
	switch {
	case errors.Is(err, waitingroom.ErrNotJoined):
		return nil, failed(http.StatusNotFound, "Invalid request ID")
	case err != nil:
		return nil, err
	}
	switch place.State {
	case waitingroom.StateGathering, waitingroom.StateWaiting:
		return nil, notServed
	case waitingroom.StateTurn:
		return expiry{Seconds: until(place.TurnUntil, &room)}, nil
	case waitingroom.StateAdmitted:
		return expiry{Seconds: until(place.PassUntil, &room)}, nil
	}
	return nil, expired
}

type tokens struct {
	_ struct{} `additionalProperties:"true"`

	Access  string `json:"access_token" doc:"A pass of the room, with the claims aud = event_id, sub = request_id, queue_position, token_use, iat, nbf, exp, iss, and user if the room has one"`
	Refresh string `json:"refresh_token" doc:"The same with token_use refresh. Nothing accepts it"`
	ID      string `json:"id_token" doc:"The same with token_use id. Nothing accepts it"`
	Type    string `json:"token_type" enum:"Bearer"`
	Seconds int64  `json:"expires_in" doc:"From now"`
}

func (h *Handlers) generateToken(ctx context.Context, in *call) (any, error) {
	var issuer string
	var lifetime time.Duration
	if in.private {
		if issuer = in.fields["issuer"]; issuer != "" && issuer != waitingroom.Issuer && !slices.Contains(h.issuers, issuer) {
			return nil, problem.InvalidAt("body.issuer",
				fmt.Sprintf("must be %s, or one of VWR_ISSUERS, got %q", waitingroom.Issuer, input.Shortened(issuer)))
		}
		if in.fields["validity_period"] != "" {
			seconds, err := in.number("validity_period")
			if err != nil {
				return nil, err
			}
			if most := int(waitingroom.MaxPassLifetime / time.Second); seconds < 1 || seconds > most {
				return nil, problem.InvalidAt("body.validity_period", "must be 1 to "+strconv.Itoa(most)+" seconds")
			}
			lifetime = time.Duration(seconds) * time.Second
		}
	}
	room, who, place, err := h.visitor(ctx, in)
	var refusal *waitingroom.Refusal
	if err == nil {
		switch place.State {
		case waitingroom.StateGathering, waitingroom.StateWaiting: // without asking the database: clients poll this
			return nil, notServed
		case waitingroom.StateTurn, waitingroom.StateAdmitted:
			place, refusal, err = h.rooms.Claim(context.WithoutCancel(ctx), room.Room, who)
		}
	}
	switch {
	case errors.Is(err, waitingroom.ErrNotJoined):
		return nil, failed(http.StatusBadRequest, "Invalid request ID")
	case err != nil:
		return nil, err
	case refusal != nil:
		return nil, notClaimed(refusal)
	case place.State == waitingroom.StateDone:
		return nil, ended
	case place.State != waitingroom.StateAdmitted:
		return nil, expired
	}
	signed, err := h.places.Tokens(place, issuer, lifetime)
	if err != nil {
		return nil, err
	}
	return tokens{
		Access: signed.Access, Refresh: signed.Refresh, ID: signed.ID, Type: "Bearer",
		Seconds: max(0, response.CeilSeconds(time.Until(signed.Until))),
	}, nil
}

// notClaimed returns AWS' error for a claim that the room refuses.
func notClaimed(refusal *waitingroom.Refusal) error {
	switch refusal.Reason {
	case waitingroom.ReasonAtCapacity:
		return notServed
	case waitingroom.ReasonTurnLapsed:
		return expired
	}
	return ended // it has just ended
}

func (h *Handlers) publicKey(ctx context.Context, in *call) (any, error) {
	if _, err := h.room(ctx, in); err != nil {
		return nil, err
	}
	out, err := h.visitors.Keys(ctx, nil)
	if err != nil {
		return nil, err
	}
	return out.Body.Keys[0], nil
}

package vwr

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/waitingroom"
)

type incremented struct {
	_ struct{} `additionalProperties:"true"`

	Served int64 `json:"serving_num" doc:"The counter now. The turns are given within a fifth of a second, as far as capacity and stock permit"`
}

func (h *Handlers) increment(ctx context.Context, in *call) (any, error) {
	room, err := h.room(ctx, in)
	if err != nil {
		return nil, err
	}
	by, err := in.number("increment_by")
	if err != nil {
		return nil, err
	}
	in.audited(map[string]any{"event_id": room.Room, "increment_by": by})
	if by < 0 || by > waitingroom.MaxRate {
		return nil, problem.InvalidAt("body.increment_by", fmt.Sprintf("must be 0 to %d: the counter never goes back", waitingroom.MaxRate))
	}
	room, err = h.rooms.Advance(context.WithoutCancel(ctx), room.Room, by, waitingroom.Cause{Actor: rooms.Actor(ctx)})
	if err != nil {
		return nil, err
	}
	return incremented{Served: room.OpenLane().Served}, nil
}

type nothing struct {
	_ struct{} `additionalProperties:"true"`
}

func (h *Handlers) updateSession(ctx context.Context, in *call) (any, error) {
	status, err := in.number("status")
	if err != nil {
		return nil, err
	}
	if status != 1 && status != -1 {
		return nil, failed(http.StatusBadRequest, "Invalid status")
	}
	room, who, place, err := h.visitor(ctx, in)
	ctx = context.WithoutCancel(ctx)
	switch {
	case errors.Is(err, waitingroom.ErrNotJoined):
		return nil, noSession
	case err != nil:
		return nil, err
	case place.State.Final():
		return nil, noSession
	case status < 0:
		return nothing{}, h.rooms.Leave(ctx, room.Room, who)
	}
	_, refusal, err := h.rooms.Finish(ctx, room.Room, who)
	if refusal != nil {
		err = noSession
	}
	return nothing{}, err
}

type activeTokens struct {
	_ struct{} `additionalProperties:"true"`

	Active int64 `json:"active_tokens"`
}

func (h *Handlers) numActiveTokens(ctx context.Context, in *call) (any, error) {
	room, err := h.room(ctx, in)
	if err != nil {
		return nil, err
	}
	n, err := h.places.Active(ctx, room.Room)
	return activeTokens{Active: n}, err
}

const maxExpired = 10_000

func (h *Handlers) expiredTokens(ctx context.Context, in *call) (any, error) {
	room, err := h.room(ctx, in)
	if err != nil {
		return nil, err
	}
	places, err := h.places.Expired(ctx, room.Room, maxExpired)
	ids := make([]string, len(places))
	for i := range places {
		ids[i] = places[i].Token
	}
	return ids, err
}

func (h *Handlers) reset(ctx context.Context, in *call) (any, error) {
	room, err := h.room(ctx, in)
	if err != nil {
		return nil, err
	}
	in.audited(map[string]any{"event_id": room.Room})
	return nil, problem.InvalidAt("body.event_id",
		"must be of a new room: a room is never reset, because people have places in it. Close it, and make another one")
}

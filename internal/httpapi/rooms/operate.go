package rooms

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/waitingroom"
)

// A ChangeReason is the part of a change that explains it.
type ChangeReason struct {
	Reason    string `json:"reason,omitempty" maxLength:"255" doc:"For other operators: it is in the audit log, and in the history of places"`
	RequestID string `json:"request_id,omitempty" maxLength:"255" doc:"Of the caller. A change with the id of an earlier one of the room is not made again"`
}

func (b *ChangeReason) cause(ctx context.Context) waitingroom.Cause {
	return waitingroom.Cause{Actor: Actor(ctx), Reason: b.Reason, RequestID: b.RequestID}
}

// Actor returns who makes a change, as the audit log names him.
func Actor(ctx context.Context) string { return cmp.Or(request.Of(ctx).Grant.Name, request.LocalActor) }

type verbInput struct {
	RoomName
	Body *struct{ ChangeReason } `required:"false" nameHint:"RoomReason"`
}

// AuditDetail returns what the audit log stores of the request.
func (in *verbInput) AuditDetail() any {
	if in.Body == nil {
		return nil
	}
	return in.Body
}

// verbOf is a handler for a change without a parameter.
func verbOf(
	change func(context.Context, string, waitingroom.Cause) (waitingroom.Status, error),
) func(context.Context, *verbInput) (*operatorRoomOutput, error) {
	return func(ctx context.Context, in *verbInput) (*operatorRoomOutput, error) {
		var why ChangeReason
		if in.Body != nil {
			why = in.Body.ChangeReason
		}
		return altered(ctx, func(ctx context.Context) (waitingroom.Status, error) { return change(ctx, in.Room, why.cause(ctx)) })
	}
}

// altered makes a change, which continues when the client disconnects.
func altered(ctx context.Context, change func(context.Context) (waitingroom.Status, error)) (*operatorRoomOutput, error) {
	s, err := change(context.WithoutCancel(ctx))
	if err != nil {
		return nil, at(err)
	}
	return operatorAnswer(&s), nil
}

type advanceInput struct {
	RoomName
	Body RoomAdvance
}

// RoomAdvance gives further turns.
type RoomAdvance struct {
	By int `json:"by" minimum:"0" maximum:"1000000" doc:"Turns besides the rate; capacity and stock still bound them. What was given before and not used is added: send a request_id to repeat the call safely"`
	ChangeReason
}

// AuditDetail returns what the audit log stores of the request.
func (in *advanceInput) AuditDetail() any { return in.Body }

// Advance gives further turns.
func (h *Admin) Advance(ctx context.Context, in *advanceInput) (*operatorRoomOutput, error) {
	return altered(ctx, func(ctx context.Context) (waitingroom.Status, error) {
		return h.Rooms.Advance(ctx, in.Room, in.Body.By, in.Body.cause(ctx))
	})
}

type rateInput struct {
	RoomName
	Body RoomRate
}

// RoomRate changes how many turns are claimed.
type RoomRate struct {
	RatePerMin int `json:"rate_per_min" minimum:"0" maximum:"1000000" doc:"Turns claimed in a minute; 0: not bounded"`
	ChangeReason
}

// AuditDetail returns what the audit log stores of the request.
func (in *rateInput) AuditDetail() any { return in.Body }

// Rate changes the rate.
func (h *Admin) Rate(ctx context.Context, in *rateInput) (*operatorRoomOutput, error) {
	return altered(ctx, func(ctx context.Context) (waitingroom.Status, error) {
		return h.Rooms.SetRate(ctx, in.Room, in.Body.RatePerMin, in.Body.cause(ctx))
	})
}

type messageInput struct {
	RoomName
	Body RoomMessage
}

// RoomMessage changes the message.
type RoomMessage struct {
	Message string `json:"message" maxLength:"500" doc:"Shown to everybody in the room, without control characters; empty: none"`
	ChangeReason
}

// AuditDetail returns what the audit log stores of the request.
func (in *messageInput) AuditDetail() any { return in.Body }

// Message changes the message.
func (h *Admin) Message(ctx context.Context, in *messageInput) (*operatorRoomOutput, error) {
	return altered(ctx, func(ctx context.Context) (waitingroom.Status, error) {
		return h.Rooms.SetMessage(ctx, in.Room, in.Body.Message, in.Body.cause(ctx))
	})
}

type beaconInput struct {
	RoomName
	Body RoomBeacon
}

// RoomBeacon has the round that a room waits for.
type RoomBeacon struct {
	Round      int64  `json:"round" minimum:"1" doc:"The round that the room waits for"`
	Signature  string `json:"signature" maxLength:"96" pattern:"^[0-9a-fA-F]{96}$" patternDescription:"96 hexadecimal digits" doc:"Of the round; it is verified with the public key of the network"`
	Randomness string `json:"randomness,omitempty" maxLength:"64" doc:"Ignored: part of what relays of drand answer"`
	ChangeReason
}

// AuditDetail returns what the audit log stores of the request.
func (in *beaconInput) AuditDetail() any { return in.Body }

// Beacon gives a room the round that its draw waits for.
func (h *Admin) Beacon(ctx context.Context, in *beaconInput) (*operatorRoomOutput, error) {
	return altered(ctx, func(ctx context.Context) (waitingroom.Status, error) {
		return h.Rooms.SetBeacon(ctx, in.Room, in.Body.Round, in.Body.Signature, in.Body.cause(ctx))
	})
}

// drawWithin is how long Draw waits: the order is drawn within a tick of the start.
const drawWithin = 5 * time.Second

// Draw returns the room once its order has been drawn, which happens by itself at the start.
func (h *Admin) Draw(ctx context.Context, in *verbInput) (*operatorRoomOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, drawWithin)
	defer cancel()
	for {
		changed, err := h.Rooms.Changed(ctx, in.Room)
		if err != nil {
			return nil, err
		}
		s, err := h.Rooms.Room(ctx, in.Room)
		p := problem.New(problem.Conflict)
		switch {
		case err != nil:
			return nil, err
		case s.Draw == nil:
			p.Detail = "room " + in.Room + " has the mode fifo, and draws nothing"
			return nil, p
		case s.Draw.Seed != "":
			return operatorAnswer(&s), nil
		case s.Phase == waitingroom.PhaseClosed || s.Phase == waitingroom.PhaseExhausted:
			p.Detail = "room " + in.Room + " has ended, and was not drawn"
			return nil, p
		case s.Now.Before(s.StartsAt):
			p.Detail, p.RetryAfter = "room "+in.Room+" draws at its start", s.StartsAt.Sub(s.Now)
			return nil, p
		case s.Draw.Root != "":
			b := s.Draw.Beacon
			p.Detail = fmt.Sprintf("room %s draws with round %d of drand, which is signed at %s", in.Room, b.Round, b.At.Format(time.RFC3339))
			p.RetryAfter = max(time.Second, b.At.Sub(s.Now))
			return nil, p
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, waitingroom.ErrUnavailable
		}
	}
}

package waitingroom

import (
	"context"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/input"
)

// Visitor identifies the caller. A user has one place in a room. A visitor without a user has the place of the token, a secret of
// that visitor. A user's token saves a lookup.
type Visitor struct {
	User  string
	Token string
	Tier  string // for lanes that take one tier only
	Lane  string // in which Join gives a place; empty: the last one that is open to everybody
	// byToken asks for the place of Token, and for no other place of its holder. With anyUser the token of a user counts without the user.
	byToken, anyUser bool
}

// identify returns the hash of a visitor in a room, and the place of the token if it is the visitor's.
func (s *Service) identify(v *view, who Visitor) (subject string, known *place, err error) {
	if who.Token != "" {
		if known, _ = s.parseToken(v.Room, who.Token); known != nil && v.laneIndex(known.lane) < 0 { // of a deleted room of this name
			known = nil
		}
	}
	if err := input.Printable(who.User, maxUser); err != nil {
		return "", nil, failure.At(ErrInvalid, "user", "%v", err)
	}
	switch {
	case who.byToken && (known == nil || known.ofUser && !who.anyUser && known.subject != v.subject("user", who.User)):
		return "", nil, ErrNotJoined
	case who.byToken:
		subject = known.subject
	case who.User != "":
		subject = v.subject("user", who.User)
		if known != nil && known.subject != subject {
			known = nil
		}
	case v.RequiresUser:
		return "", nil, ErrUserRequired
	case known != nil && known.ofUser: // who has lost his identity, or another one who has his token
		known = nil
	case known != nil:
		subject = known.subject
	}
	return subject, known, nil
}

// holder returns a room, the hash of a visitor who may have a place in it, and the place of the token if it is the visitor's. It returns
// ErrNotJoined for somebody unknown without a valid token.
func (s *Service) holder(ctx context.Context, name string, who Visitor) (v *view, subject string, known *place, err error) {
	if v, err = s.view(ctx, name); err != nil {
		return nil, "", nil, err
	}
	if subject, known, err = s.identify(v, who); err == nil && subject == "" {
		err = ErrNotJoined
	}
	return v, subject, known, err
}

// subject returns the hash of a user in a room, or of the random id of somebody unknown. It is of the room's salt, and so survives a change of
// the secret.
func (v *view) subject(kind, id string) string { return v.subjects.Hash(kind, id).String() }

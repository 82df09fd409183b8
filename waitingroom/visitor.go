package waitingroom

import (
	"context"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
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

// caller is a visitor of a room that this process has read.
type caller struct {
	who      Visitor
	view     *view
	subject  string       // the hash; empty: somebody unknown without a valid token
	known    *store.Place // of the token, as far as it has it; nil: there is no token, or the place is not the visitor's
	previous bool         // the previous secret signed who.Token
}

// identify returns who the visitor is in a room.
func (s *Service) identify(v *view, who Visitor) (caller, error) {
	c := caller{who: who, view: v}
	if who.Token != "" {
		if c.known, c.previous = s.parseToken(v.room.def.Room, who.Token); c.known != nil && v.room.laneIndex(c.known.Lane) < 0 {
			// of a deleted room of this name
			c.known = nil
		}
	}
	if err := input.Printable(who.User, maxUser); err != nil {
		return caller{}, failure.At(ErrInvalid, "user", "%v", err)
	}
	switch {
	case who.byToken && (c.known == nil || c.known.OfUser && !who.anyUser && c.known.Subject != v.subject("user", who.User)):
		return caller{}, ErrNotJoined
	case who.byToken:
		c.subject = c.known.Subject
	case who.User != "":
		c.subject = v.subject("user", who.User)
		if c.known != nil && c.known.Subject != c.subject {
			c.known = nil
		}
	case v.room.def.RequiresUser:
		return caller{}, ErrUserRequired
	case c.known != nil && c.known.OfUser: // who has lost his identity, or another one who has his token
		c.known = nil
	case c.known != nil:
		c.subject = c.known.Subject
	}
	return c, nil
}

// holder returns a visitor who may have a place in a room. It returns ErrNotJoined for somebody unknown without a valid token.
func (s *Service) holder(ctx context.Context, name string, who Visitor) (caller, error) {
	v, err := s.view(ctx, name)
	if err != nil {
		return caller{}, err
	}
	c, err := s.identify(v, who)
	if err == nil && c.subject == "" {
		err = ErrNotJoined
	}
	return c, err
}

// subject returns the hash of a user in a room, or of the random id of somebody unknown. It is of the room's salt, and so
// survives a change of the secret.
func (v *view) subject(kind, id string) string { return v.subjects.Hash(kind, id).String() }

package waitingroom

import (
	"context"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidegate/tidegate/internal/dialects"
	"github.com/tidegate/tidegate/waitingroom/internal/pass"
)

func init() {
	dialects.PlacesOf = func(service any) any { return dialects.Places[Visitor, Place](places{service.(*Service)}) }
}

// places are the rooms of a service with the operations that only other products' clients need.
type places struct{ rooms *Service }

func (places) ByToken(token, user string, anyUser bool) Visitor {
	return Visitor{User: user, Token: token, byToken: true, anyUser: anyUser}
}

func (s places) StableToken(p Place) string {
	known, _ := s.rooms.parseToken(p.Room, p.Token)
	if known == nil {
		return ""
	}
	known.Seen = 0
	return s.rooms.placeToken(p.Room, known)
}

func (s places) Tokens(p Place, issuer string, lifetime time.Duration) (dialects.Tokens, error) {
	out := dialects.Tokens{Until: p.PassUntil}
	if until := p.AdmittedAt.Add(lifetime); lifetime > 0 && until.Before(out.Until) {
		out.Until = until
	}
	if issuer == "" {
		issuer = Issuer
	}
	id := s.StableToken(p)
	for _, t := range []struct {
		text      *string
		use, kind string
	}{{&out.Access, pass.UseAccess, pass.TypePass}, {&out.Refresh, "refresh", pass.TypeRefresh}, {&out.ID, "id", pass.TypeID}} {
		var err error
		if *t.text, err = s.rooms.sign(t.kind, p, PassClaims{
			Claims: jwt.Claims{Issuer: issuer, Subject: id, ID: id, Expiry: jwt.NewNumericDate(out.Until)}, Use: t.use, User: p.User,
		}); err != nil {
			return dialects.Tokens{}, err
		}
	}
	return out, nil
}

func (s places) Active(ctx context.Context, name string) (int64, error) {
	v, err := s.rooms.view(ctx, name)
	if err != nil {
		return 0, err
	}
	return s.rooms.store.CountPasses(ctx, name, v.room.roomTime(v.clockNow(s.rooms.now())))
}

func (s places) Expired(ctx context.Context, name string, limit int) ([]Place, error) {
	v, err := s.rooms.view(ctx, name)
	if err != nil {
		return nil, err
	}
	rows, err := s.rooms.store.Expired(ctx, name, v.room.roomTime(v.clockNow(s.rooms.now())), limit)
	if err != nil {
		return nil, err
	}
	all := s.rooms.placesOf(v, rows)
	for i, p := range rows {
		all[i].Token = s.rooms.placeToken(name, p)
	}
	return all, nil
}

package waitingroom

import (
	"context"
	"database/sql"
)

// Filter selects places of a room, in the order of their numbers.
type Filter struct {
	User  string // optional: all places that the user has had
	After int64  // number; exclusive
	Limit int
}

// Places returns places for operators, replaced ones too. Those have StateLapsed or StateLeft. With a user they have their steps.
func (s *Service) Places(ctx context.Context, name string, f Filter) ([]Place, error) {
	v, err := s.view(ctx, name)
	if err != nil {
		return nil, err
	}
	where, args := `seq > $2 ORDER BY seq LIMIT $3`, []any{f.After, f.Limit}
	if f.User != "" {
		where, args = `seq > $2 AND subject = $4 ORDER BY seq LIMIT $3`, append(args, v.subject("user", f.User))
	}
	rows, err := s.store.places(ctx, s.store.db, name, where, args...)
	if err != nil {
		return nil, err
	}
	var acts []act
	if f.User != "" {
		if acts, err = s.store.acts(ctx, s.store.db, name); err != nil {
			return nil, err
		}
	}
	all := make([]Place, len(rows))
	for i, p := range rows {
		all[i] = s.placeWithToken(v, p)
		if all[i].Token = ""; f.User != "" {
			all[i].Steps = v.history(p, acts)
		}
	}
	return all, nil
}

// Active returns how many admitted places of a room can still use their pass: those that count towards its capacity.
func (s *Service) Active(ctx context.Context, name string) (n int64, err error) {
	v, err := s.view(ctx, name)
	if err != nil {
		return 0, err
	}
	err = s.store.each(ctx, s.store.db, `SELECT count(*) FROM `+active("$2")+`
		WHERE admitted_at > 0 AND pass_rt > $2 AND done_at = 0 AND left_at = 0`,
		func(rows *sql.Rows) error { return rows.Scan(&n) }, name, v.roomTime(v.clockNow(s.now())))
	return n, err
}

// Expired returns the places whose pass has expired, whatever became of it, up to limit of them with the highest numbers first. They have
// their tokens.
func (s *Service) Expired(ctx context.Context, name string, limit int) ([]Place, error) {
	v, err := s.view(ctx, name)
	if err != nil {
		return nil, err
	}
	rows, err := s.store.places(ctx, s.store.db, name, `admitted_at > 0 AND pass_rt <= $2 ORDER BY seq DESC LIMIT $3`, v.roomTime(v.clockNow(s.now())), limit)
	if err != nil {
		return nil, err
	}
	all := make([]Place, len(rows))
	for i, p := range rows {
		all[i] = s.placeWithToken(v, p)
	}
	return all, nil
}

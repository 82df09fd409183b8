package waitingroom

import (
	"context"
	"database/sql"
)

// Pace is how fast a room admits visitors.
type Pace struct {
	Admitted int64   // visitors who claimed in the last minute
	Outlook  Outlook // of somebody who joins now
}

// Pace returns how fast a room admits visitors. It reads the passes of the last minute.
func (s *Service) Pace(ctx context.Context, name string) (p Pace, err error) {
	v, err := s.view(ctx, name)
	if err != nil {
		return Pace{}, err
	}
	if p.Outlook = OutlookNone; v.ended == "" {
		p.Outlook = v.outlook(v.openLane(), v.waiting(v.openLane()))
	}
	since := measured.Milliseconds()
	now := v.clockNow(s.now())
	err = s.store.each(ctx, s.store.db, `SELECT count(*) FROM `+active("$2")+` WHERE admitted_at > $3`,
		func(rows *sql.Rows) error { return rows.Scan(&p.Admitted) }, name, v.roomTime(now)-since, now-since)
	return p, err
}

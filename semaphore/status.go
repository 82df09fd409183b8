package semaphore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tidegate/tidegate/internal/redisscript"
)

// A Status is the state of a semaphore at one instant.
type Status struct {
	Name  string
	Limit int
	// Undefined means that the definition was removed; holders keep their permits.
	Undefined      bool
	Lease          time.Duration
	Version        int           // of the definition, from 1
	InUse          int           // total weight held
	Waiting        int           // number of waiters
	GrantsResumeIn time.Duration // time until grants resume after Redis was restarted or replaced, or has lost its data
	// grants pause since Redis was restarted or replaced, and it still had the semaphore; false: they do not, or it had lost it
	Restarted bool
	Held      time.Duration // average holding time of recent permits; 0: unknown
	Totals    Totals
	Holders   []Holder // at most 1000, ordered by the end of their lease
	Waiters   []Waiter // at most 1000
}

// Totals are counts since the semaphore was defined in this Redis.
type Totals struct {
	Granted   int64         // permits
	Waited    int64         // permits granted after waiting
	WaitedFor time.Duration // total waiting time
	TimedOut  int64         // waiters that gave up
	Lost      int64         // permits whose lease ended before their release
	Abandoned int64         // waiters whose process died
}

// A Holder is a permit that is held.
type Holder struct {
	ID     string // for Renew and Release
	Holder string
	Weight int
	Token  int64
	Since  time.Time // on Redis' clock, as is Until
	Until  time.Time // the end of its lease, unless renewed
}

// A Waiter is a waiting request. The first in the list is first in the queue.
type Waiter struct {
	Holder string
	Weight int
	Since  time.Time // on Redis' clock
}

// Status returns the state of the semaphore. ErrUnknown means that it is not defined and has no holders.
func (s *Semaphore) Status(ctx context.Context) (Status, error) { return s.look(ctx, listed) }

// Counts is Status without the holders and the waiters, which is much cheaper if there are many.
func (s *Semaphore) Counts(ctx context.Context) (Status, error) { return s.look(ctx, 0) }

const listed = 1000 // holders and waiters, each

func (s *Semaphore) look(ctx context.Context, list int) (st Status, err error) {
	err = s.shard.known(ctx, []string{s.name}, func() error {
		r, err := s.shard.do(ctx, &op{word: doStatus, names: []string{s.name}, args: []any{list}, cost: list / 32})
		if err != nil {
			return err
		}
		if r.word != isStatus {
			return r.problem()
		}
		if st, err = decodeStatus(s.name, r.status); err == nil && st.Limit < 0 {
			return &unknownError{s.name}
		}
		return err
	})
	switch {
	case errors.Is(err, ErrUnknown) && st.InUse+st.Waiting > 0:
		st.Limit, st.Undefined = 0, true
		return st, nil
	case err != nil:
		return Status{}, named("status", s.name, err)
	}
	return st, nil
}

// decodeStatus decodes a reply, see define.lua.
func decodeStatus(name string, r redisscript.Reply) (Status, error) {
	st := Status{
		Name: name, Limit: int(r.Int()), Lease: r.Micros(), Version: int(r.Int()), InUse: int(r.Int()), Waiting: int(r.Int()),
		Held: r.Micros(), GrantsResumeIn: r.Micros(),
	}
	counts, holders, waiters := r.List(), r.List(), r.List()
	st.Restarted = r.Int() == 1 && st.GrantsResumeIn > 0
	st.Totals = Totals{counts.Int(), counts.Int(), counts.Micros(), counts.Int(), counts.Int(), counts.Int()}
	for holders.Len() > 0 && holders.Err() == nil {
		t := ticket{key: holders.Text(), token: holders.Int(), weight: int(holders.Int())}
		h := Holder{Holder: holders.Text(), Weight: t.weight, Token: t.token, Since: holders.Time().UTC(), Until: holders.Time().UTC()}
		h.ID = t.id() + holders.Text()
		st.Holders = append(st.Holders, h)
	}
	for waiters.Len() > 0 && waiters.Err() == nil {
		_, weight := waiters.Text(), int(waiters.Int())
		st.Waiters = append(st.Waiters, Waiter{Holder: waiters.Text(), Weight: weight, Since: waiters.Time().UTC()})
	}
	return st, cmp.Or(r.Expect(0), counts.Expect(0), holders.Err(), waiters.Err())
}

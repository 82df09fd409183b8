package semaphore

import (
	"context"
	"errors"
	"time"
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
	Restarted      bool          // grants pause since Redis was restarted or replaced, and it still had the semaphore; false: they do not, or it had lost it
	Held           time.Duration // average holding time of recent permits; 0: unknown
	Totals         Totals
	Holders        []Holder // at most 1000, ordered by the end of their lease
	Waiters        []Waiter // at most 1000
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

func (s *Semaphore) look(ctx context.Context, list int) (Status, error) {
	var r reply
	err := s.shard.known(ctx, []string{s.name}, func() (err error) {
		if r, err = s.shard.do(ctx, &op{word: doStatus, names: []string{s.name}, args: []any{list}, cost: list / 32}); err != nil {
			return err
		}
		if r.word != isStatus {
			return r.problem()
		}
		if number(r.values[1]) < 0 {
			return &unknownError{s.name}
		}
		return nil
	})
	switch {
	case errors.Is(err, ErrUnknown) && r.word == isStatus && number(r.values[4])+number(r.values[5]) > 0:
		st, err := s.status(r.values)
		st.Limit, st.Undefined = 0, true
		return st, err
	case err != nil:
		return Status{}, named("status", s.name, err)
	}
	return s.status(r.values)
}

// status decodes a reply, see define.lua.
func (s *Semaphore) status(v []any) (Status, error) {
	counts, ok1 := v[8].([]any)
	holders, ok2 := v[9].([]any)
	waiters, ok3 := v[10].([]any)
	if !ok1 || !ok2 || !ok3 || len(counts) != 6 || len(holders)%7 != 0 || len(waiters)%4 != 0 {
		return Status{}, named("status", s.name, errReply)
	}
	st := Status{
		Name: s.name, Limit: int(number(v[1])), Lease: micros(v[2]), Version: int(number(v[3])), InUse: int(number(v[4])), Waiting: int(number(v[5])),
		Held: micros(v[6]), GrantsResumeIn: micros(v[7]), Restarted: number(v[7]) > 0 && number(v[11]) == 1,
		Totals: Totals{number(counts[0]), number(counts[1]), micros(counts[2]), number(counts[3]), number(counts[4]), number(counts[5])},
	}
	for h := holders; len(h) > 0; h = h[7:] {
		key, _ := h[0].(string)
		also, _ := h[6].(string)
		t := ticket{key: key, token: number(h[1]), weight: int(number(h[2]))}
		holder, _ := h[3].(string)
		st.Holders = append(st.Holders, Holder{ID: t.id() + also, Holder: holder, Weight: t.weight, Token: t.token, Since: at(h[4]), Until: at(h[5])})
	}
	for w := waiters; len(w) > 0; w = w[4:] {
		holder, _ := w[2].(string)
		st.Waiters = append(st.Waiters, Waiter{Holder: holder, Weight: int(number(w[1])), Since: at(w[3])})
	}
	return st, nil
}

func at(v any) time.Time { return time.UnixMicro(number(v)).UTC() }

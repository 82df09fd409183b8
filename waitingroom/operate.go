package waitingroom

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidegate/tidegate/internal/errsummary"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Put creates or changes a room. It returns an ErrInvalid or ErrConflict, and is idempotent.
func (s *Service) Put(ctx context.Context, d Definition) (status Status, created bool, err error) {
	if err := d.validate(); err != nil {
		return Status{}, false, err
	}
	if d.Sale != "" && s.opts.Stock == nil {
		return Status{}, false, invalid("sale", "be empty, for this program sells nothing")
	}
	d.GatherAt, d.StartsAt = d.GatherAt.UTC().Truncate(time.Millisecond), d.StartsAt.UTC().Truncate(time.Millisecond)
	if err := s.guard(ctx, &d); err != nil {
		return Status{}, false, err
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	fresh := &room{def: d, saved: store.Saved{
		Secret: hex.EncodeToString(secret), Salt: rand.Text(), Commit: draw.Commitment(secret),
		Lanes: newLanes(&d),
	}}
	var stored *room
	err = s.store.InTx(ctx, func(tx store.Tx) error {
		if created, err = tx.Insert(ctx, fresh.row()); err != nil || created {
			return err
		}
		if stored, err = lock(ctx, tx, d.Room, 0); err != nil {
			return err
		}
		if err := tx.LockTail(ctx, d.Room, &stored.saved); err != nil {
			return err
		}
		if err := stored.checkChange(&d, stored.saved.Now); err != nil {
			return err
		}
		stored.applyDefinition(&d)
		if err := tx.WriteTail(ctx, d.Room, stored.saved.Lanes); err != nil {
			return err
		}
		return tx.Write(ctx, stored.row())
	})
	if errors.Is(err, ErrConflict) && (stored.ended() == PhaseClosed || stored.def.Sale != d.Sale || stored.def.Item != d.Item) {
		// since guard looked
		err = errors.Join(err, s.unguard(ctx, &room{def: d}))
	}
	if err != nil {
		return Status{}, false, err
	}
	status, err = s.after(ctx, d.Room, "was changed")
	return status, created, err
}

// guard makes orders of the room's item need a turn, before there is a room: without that no turn means anything.
func (s *Service) guard(ctx context.Context, d *Definition) error {
	if d.Sale == "" {
		return nil
	}
	if err := s.refresh(ctx); err != nil {
		return err
	}
	if v := (*s.views.Load())[d.Room]; v != nil {
		if err := v.room.checkChange(d, v.clockNow(s.now())); err != nil {
			return err
		}
	}
	return s.opts.Stock.Guard(ctx, d.Sale, d.Item, d.Room)
}

// after returns the status of a room that an operator has changed.
func (s *Service) after(ctx context.Context, name, what string) (Status, error) {
	s.opts.Logger.InfoContext(ctx, "a waiting room "+what, slog.String("room", name))
	s.opts.Changed()
	if err := s.refresh(ctx); err != nil {
		return Status{}, err
	}
	return s.Room(ctx, name)
}

// A Cause is who makes a change, and why.
type Cause struct {
	Actor, Reason string // optional
	// RequestID is optional. A change with the id of an earlier one of the room is not made again.
	RequestID string
}

const maxBy = 255 // characters of each field

// checkText returns an ErrInvalid for a text of an operator that is too long, or that a database would refuse.
func checkText(field, text string, most int) error {
	if utf8.RuneCountInString(text) > most || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return invalid(field, "have at most %d characters and no control characters, got %.300q", most, text)
	}
	return nil
}

// alter is change, and then after.
func (s *Service) alter(ctx context.Context, name string, by Cause, act, detail, what string, change func(r *room) error) (Status, error) {
	if _, err := s.change(ctx, name, by, act, detail, change); err != nil {
		return Status{}, err
	}
	return s.after(ctx, name, what)
}

// change is a change by an operator, after which room time is stopped or started as needed. It is kept with detail as the act.
func (s *Service) change(ctx context.Context, name string, by Cause, act, detail string, change func(r *room) error) (room, error) {
	for _, field := range []struct{ name, text string }{{"actor", by.Actor}, {"reason", by.Reason}, {"request_id", by.RequestID}} {
		if err := checkText(field.name, field.text, maxBy); err != nil {
			return room{}, err
		}
	}
	return s.locked(ctx, name, func(tx store.Tx, r *room) error {
		if by.RequestID != "" {
			earlier, err := tx.ActOf(ctx, name, by.RequestID)
			if err != nil || earlier != nil && earlier.Act == act && earlier.Detail == detail {
				return err
			}
			if earlier != nil {
				return failure.New(ErrConflict, "request_id is of an earlier request, which was not the same")
			}
		}
		if err := change(r); err != nil {
			return err
		}
		r.stopOrStartClock(r.saved.Now)
		return tx.RecordAct(ctx, name, &store.Act{Act: act, Detail: detail, Actor: by.Actor, Reason: by.Reason, RequestID: by.RequestID})
	})
}

// checkNotEnded returns an ErrConflict if a room has ended.
func (r *room) checkNotEnded() error {
	if r.ended() != "" {
		return failure.New(ErrConflict, "room %s has ended", r.def.Room)
	}
	return nil
}

// Hold stops a room: no visitor gets a turn, is admitted or lapses until Resume.
func (s *Service) Hold(ctx context.Context, name string, by Cause) (Status, error) {
	return s.alter(ctx, name, by, "hold", "", "is held", func(r *room) error {
		r.saved.Held = true
		return r.checkNotEnded()
	})
}

// Resume continues a room that is held.
func (s *Service) Resume(ctx context.Context, name string, by Cause) (Status, error) {
	return s.alter(ctx, name, by, "resume", "", "continues", func(r *room) error {
		r.saved.Held = false
		return r.checkNotEnded()
	})
}

// Advance gives turns besides the rate, within capacity and stock.
func (s *Service) Advance(ctx context.Context, name string, n int, by Cause) (Status, error) {
	if n < 0 || n > MaxRate {
		return Status{}, invalid("by", "be 0 to %d, got %d: turns are not taken back", MaxRate, n)
	}
	return s.alter(ctx, name, by, "advance", strconv.Itoa(n), "gives further turns", func(r *room) error {
		r.saved.Extra = min(r.saved.Extra+int64(n), MaxRate)
		return r.checkNotEnded()
	})
}

// SetRate changes how many turns are claimed in a minute.
func (s *Service) SetRate(ctx context.Context, name string, perMin int, by Cause) (Status, error) {
	if perMin < 0 || perMin > MaxRate {
		return Status{}, invalid("rate_per_min", "be 0 to %d, got %d", MaxRate, perMin)
	}
	return s.alter(ctx, name, by, "rate", strconv.Itoa(perMin), "has another rate", func(r *room) error {
		r.def.RatePerMin = perMin
		return r.checkNotEnded()
	})
}

// SetMessage shows a text to everybody in the room.
func (s *Service) SetMessage(ctx context.Context, name, text string, by Cause) (Status, error) {
	if err := checkText("message", text, maxMessage); err != nil {
		return Status{}, err
	}
	return s.alter(ctx, name, by, "message", text, "has a message", func(r *room) error {
		r.saved.Message = text
		return nil
	})
}

// Close ends a room for good. Those who wait are turned away, passes stay valid, and orders need no turn any more.
func (s *Service) Close(ctx context.Context, name string, by Cause) (Status, error) {
	r, err := s.change(ctx, name, by, "close", "", func(r *room) error {
		if r.ended() == "" {
			r.close()
		}
		return nil
	})
	if err != nil {
		return Status{}, err
	}
	if err := s.unguard(ctx, &r); err != nil {
		return Status{}, err
	}
	return s.after(ctx, name, "is closed")
}

// unguard lets the item of a closed room be ordered without a turn.
func (s *Service) unguard(ctx context.Context, r *room) error {
	if r.def.Sale == "" || s.opts.Stock == nil {
		return nil
	}
	return store.Unavailable(s.opts.Stock.Unguard(ctx, r.def.Sale, r.def.Item, r.def.Room))
}

// unguardClosed does what a process that ended while it closed a room has left undone. The items of rooms that ended with their
// sale still need a turn, in case the sale is prolonged: those who waited must not be overtaken.
func (s *Service) unguardClosed(ctx context.Context) error {
	closed, err := s.store.Closed(ctx)
	for i := range closed {
		err = errsummary.Join(err, s.unguard(ctx, roomOf(&closed[i])))
	}
	return err
}

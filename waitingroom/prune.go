package waitingroom

import (
	"context"
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/internal/errsummary"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

const (
	pruneEvery = time.Hour
	pruneBatch = 5_000 // places in a transaction
)

// prune deletes the rooms that ended longer ago than Options.KeepAfterEnd. Every process does it; repeating is harmless. The room
// goes last, so that a deletion that was interrupted goes on. Its name stays, as that of a closed room without places: a gateway
// that still asks for passes of the room lets everybody pass, as it did after the room was closed, and no other room of the name
// meets the tokens and receipts of this one.
func (s *Service) prune(ctx context.Context) error {
	old, err := s.store.Old(ctx, s.opts.KeepAfterEnd.Milliseconds())
	if err != nil {
		return err
	}
	for i := range old {
		err = errsummary.Join(err, s.pruneRoom(ctx, roomOf(&old[i])))
	}
	return err
}

func (s *Service) pruneRoom(ctx context.Context, r *room) error {
	if err := s.unguard(ctx, r); err != nil { // otherwise its item could never be ordered again
		return err
	}
	for more, deleted := true, false; more; {
		if err := s.store.InTx(ctx, func(tx store.Tx) (err error) {
			more, deleted, err = tx.Shrink(ctx, r.def.Room, pruneBatch, newLanes(&Definition{})[0])
			return err
		}); err != nil {
			return err
		}
		if deleted {
			s.opts.Logger.InfoContext(ctx, "an old waiting room is deleted", slog.String("room", r.def.Room))
		}
	}
	return nil
}

// deleted reports whether only the name of a room is left.
func (r *room) deleted() bool { return r.saved.Secret == "" }

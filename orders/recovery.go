package orders

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// retryRecovery is the pause of a sale after an attempt that failed: those who
// ask for it would have the next one begin at once. While attempts come far
// enough to raise the epoch, each of which leaves keys to look for, it doubles.
const (
	retryRecovery     = 200 * time.Millisecond
	retryRecoveryMost = 5 * time.Second
)

// pause of a sale that could not be rebuilt.
type pause struct {
	length time.Duration
	until  time.Time
}

// failed is the pause after one more failure.
func (p pause) failed(raised bool, now time.Time) pause {
	switch {
	case p.length == 0:
		p.length = retryRecovery
	case raised:
		p.length = min(2*p.length, retryRecoveryMost)
	}
	p.until = now.Add(p.length)
	return p
}

// recoverSales rebuilds sales that Redis forgot, until ctx ends.
func (s *Service) recoverSales(ctx context.Context) error {
	pauses := make(map[string]pause)
	for {
		var again <-chan time.Time // to look at suspects whose pause is not over
		s.suspects.Range(func(key, _ any) bool {
			sale := key.(string)
			if left := time.Until(pauses[sale].until); left > 0 {
				again = time.After(min(left, retryRecovery))
				return true
			}
			s.suspects.Delete(key)
			raised, err := s.recoverSale(ctx, sale)
			if err == nil {
				delete(pauses, sale)
			} else if ctx.Err() == nil {
				pauses[sale] = pauses[sale].failed(raised, time.Now())
				s.opts.Logger.WarnContext(ctx, "a sale could not be rebuilt yet", slog.String("sale", sale),
					slog.Duration("pause", pauses[sale].length), slog.Any("error", err))
			}
			return ctx.Err() == nil
		})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.suspected:
		case <-again:
		}
	}
}

// recoverSale makes one process, while no other does, rebuild a sale that
// Redis forgot. It raises the epoch, which abandons all keys of the old one;
// has everybody who is alive hand over what they remember; ends that, which
// waits for the commits under the old epoch; and fills the new keys from the
// database.
func (s *Service) recoverSale(ctx context.Context, sale string) (raised bool, err error) {
	_, err = s.tryLead(ctx, sale, func(ctx context.Context) error {
		l, err := s.reread(ctx, sale)
		if err != nil {
			return err
		}
		if intact, err := s.intact(ctx, l); intact || err != nil {
			return err // another process was first, or nothing can be said
		}
		if err := s.writable(ctx, l); err != nil {
			return err
		}
		began := time.Now()
		if err := s.store.RaiseEpoch(ctx, sale); err != nil {
			return err
		}
		raised = true
		if l, err = s.reread(ctx, sale); err != nil {
			return err
		}
		s.publish(ctx, bulletin{Sales: true})
		old, err := s.keysBefore(ctx, l)
		if err != nil {
			return err
		}
		abandoned, err := s.seal(ctx, old)
		if err != nil {
			return err
		}
		late, err := s.commitAll(ctx, abandoned)
		if err != nil {
			return err
		}
		if err := s.awaitHandOver(ctx, l); err != nil {
			return err
		}
		if l, err = s.reread(ctx, sale); err != nil {
			return err
		}
		handedOver := time.Now()
		if err := s.load(ctx, l, late); err != nil {
			return err
		}
		s.drop(ctx, l, old)
		s.opts.Logger.WarnContext(ctx, "a sale was rebuilt from the database", slog.String("sale", sale), slog.Int64("epoch", l.Epoch),
			slog.Int("uncommitted", len(abandoned)), slog.Int("late", len(late)),
			slog.Int64("hand_over_ms", handedOver.Sub(began).Milliseconds()), slog.Int64("took_ms", time.Since(began).Milliseconds()))
		return s.compare(ctx, l.all()...)
	})
	return raised, err
}

func (s *Service) reread(ctx context.Context, sale string) (*listing, error) {
	if err := s.loadCatalog(ctx); err != nil {
		return nil, err
	}
	return s.listing(sale)
}

// tryLead runs fn as the sale's leader, or returns false when another process
// leads it. A process leads one sale at a time: leading holds a connection to
// the database, and what is done meanwhile needs another one.
func (s *Service) tryLead(ctx context.Context, sale string, fn func(context.Context) error) (bool, error) {
	select {
	case s.leading <- struct{}{}:
		defer func() { <-s.leading }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return s.store.Lead(ctx, sale, fn)
}

// intact tells whether Redis knows every item of the sale that it should.
func (s *Service) intact(ctx context.Context, l *listing) (bool, error) {
	known, err := s.known(ctx, l.all())
	for i, sh := range l.all() {
		if err == nil && known[i] < 0 && !sh.forgottenAt(time.Now()) {
			return false, nil
		}
	}
	return err == nil, err
}

// writable writes beside the keys of each item, which expires at once. A server
// that answers and takes no writes, as one that is full, would have each
// attempt raise the epoch for nothing.
func (s *Service) writable(ctx context.Context, l *listing) error {
	_, err := s.base.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range l.Items {
			p.Set(ctx, s.probeKey(l.ID, l.Items[i].ID), "", probeFor)
		}
		return nil
	})
	return unavailable(err)
}

// keysBefore are the keys of the items in earlier epochs, as far as Redis has
// any, the latest epoch last. A leader may have died before it could drop the
// keys that it took orders from.
func (s *Service) keysBefore(ctx context.Context, l *listing) ([][]string, error) {
	var old, some [][]string
	look := func() error { // in one round trip: there may have been thousands of attempts
		counts := make([]*redis.IntCmd, len(some))
		if _, err := s.base.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, keys := range some {
				counts[i] = p.Exists(ctx, keys...)
			}
			return nil
		}); err != nil {
			return unavailable(err)
		}
		for i, keys := range some {
			if counts[i].Val() > 0 {
				old = append(old, keys)
			}
		}
		some = some[:0]
		return nil
	}
	for epoch := int64(1); epoch < l.Epoch; epoch++ {
		for i := range l.Items {
			if some = append(some, s.itemKeys(l.ID, l.Items[i].ID, epoch)); len(some) == loadChunk {
				if err := look(); err != nil {
					return nil, err
				}
			}
		}
	}
	return old, look()
}

// seal closes items of earlier epochs, and returns what was reserved there and
// never committed: each order once, as the latest epoch has it. A scan may meet
// one twice.
func (s *Service) seal(ctx context.Context, old [][]string) ([]Reservation, error) {
	var abandoned []Reservation
	at := make(map[ID]int)
	for _, keys := range old {
		for cursor := "0"; ; {
			reply, err := sealScript.Run(ctx, s.rdb, keys, cursor).Slice()
			if err != nil {
				return nil, unavailable(err)
			}
			d := decoder{reply: reply}
			cursor = d.string()
			pairs := d.strings()
			if d.err != nil {
				return nil, d.err
			}
			for i := 1; i < len(pairs); i += 2 {
				r, err := ParseReservation([]byte(pairs[i]))
				if err != nil { // it stands in the log; it must not keep the sale closed
					s.opts.Logger.ErrorContext(ctx, "a reservation cannot be read", slog.String("order_id", pairs[i-1]),
						slog.Int("bytes", len(pairs[i])), slog.Any("error", err))
					continue
				}
				if i, twice := at[r.ID]; twice {
					abandoned[i] = r
					continue
				}
				at[r.ID] = len(abandoned)
				abandoned = append(abandoned, r)
			}
			if cursor == "0" {
				break
			}
		}
	}
	return s.uncommitted(ctx, abandoned)
}

// uncommitted are those of the reservations that the database does not have.
func (s *Service) uncommitted(ctx context.Context, list []Reservation) ([]Reservation, error) {
	var left []Reservation
	for part := range slices.Chunk(list, loadChunk) {
		ids := make([]ID, len(part))
		for i := range part {
			ids[i] = part[i].ID
		}
		found, err := s.store.Statuses(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, r := range part {
			if _, ok := found[r.ID]; !ok {
				left = append(left, r)
			}
		}
	}
	return left, nil
}

// drop frees the memory of earlier epochs. What is missing refuses as what is sealed does.
func (s *Service) drop(ctx context.Context, l *listing, old [][]string) {
	for part := range slices.Chunk(old, loadChunk) {
		if _, err := s.base.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, keys := range part {
				p.Unlink(ctx, keys...)
			}
			return nil
		}); err != nil {
			s.opts.Logger.WarnContext(ctx, "keys of an earlier epoch stay until they expire", slog.String("sale", l.ID), slog.Any("error", err))
			return
		}
	}
}

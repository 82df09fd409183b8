package orders

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/orders/internal/failpoint"
)

// retryRecovery is the pause of a sale after an attempt that failed. Without it
// the next request for the sale would start another attempt at once. The pause
// doubles after each attempt that raised the epoch, because every epoch leaves
// keys that later attempts have to look for.
const (
	retryRecovery     = 200 * time.Millisecond
	retryRecoveryMost = 5 * time.Second
)

// pause of a sale that could not be rebuilt.
type pause struct {
	length time.Duration
	until  time.Time
}

// failed returns the pause after one more failure.
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
		var pauseOver <-chan time.Time // of a suspect
		s.suspects.Range(func(key, _ any) bool {
			sale := key.(string)
			if left := time.Until(pauses[sale].until); left > 0 {
				pauseOver = time.After(min(left, retryRecovery))
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
		case <-pauseOver:
		}
	}
}

// recoverSale makes this process rebuild a sale that Redis lost, or for which the database went back in time. docs/recovery.md
// numbers the steps. The lock of tryLead only avoids duplicate work: a leader that lost it goes on, and each step is refused if
// its data is in another epoch than the leader's.
func (s *Service) recoverSale(ctx context.Context, sale string) (raised bool, err error) {
	_, err = s.tryLead(ctx, sale, func(ctx context.Context) error {
		l, err := s.reread(ctx, sale)
		if err != nil {
			return err
		}
		highest, err := s.highestEpoch(ctx, l)
		if err != nil {
			return err
		}
		if highest == l.Epoch && s.unresolved(l) == 0 {
			if intact, err := s.intact(ctx, l); intact || err != nil {
				return err // another process has recovered it, or the check failed
			}
		}
		if err := s.writable(ctx, l); err != nil {
			return err
		}
		r := recovery{s: s, lead: Lead{sale, highest + 1, rand.Text()}, began: time.Now()}
		raised, err = r.raise(ctx, l.Epoch)
		if err != nil {
			return err
		}
		return r.run(ctx)
	})
	return raised, err
}

// recovery is one attempt of one leader, in its own epoch.
type recovery struct {
	s     *Service
	lead  Lead
	l     *listing // the sale when the epoch was raised
	began time.Time
}

// raise begins the epoch. Items that are stored later are introduced by PutSale.
func (r *recovery) raise(ctx context.Context, seen int64) (raised bool, err error) {
	failpoint.Step(failpoint.LeaderRaises)
	if err := r.s.store.RaiseEpoch(ctx, seen, r.lead); err != nil {
		return false, err
	}
	failpoint.Step(failpoint.LeaderRaised)
	r.l, err = r.current(ctx)
	r.s.publish(ctx, notification{Sales: true})
	return true, err
}

// current reads the sale, or returns errOvertaken if it is no longer in the leader's epoch.
func (r *recovery) current(ctx context.Context) (*listing, error) {
	l, err := r.s.reread(ctx, r.lead.Sale)
	if err == nil && (l.Epoch != r.lead.Epoch || l.EpochToken != r.lead.Token) {
		err = errOvertaken
	}
	return l, err
}

func (r *recovery) run(ctx context.Context) error {
	s := r.s
	if err := r.takeItems(ctx); err != nil {
		return err
	}
	failpoint.Step(failpoint.LeaderSeals)
	old, err := s.keysBefore(ctx, r.l)
	if err != nil {
		return err
	}
	abandoned, err := r.seal(ctx, old)
	if err != nil {
		return err
	}
	late, err := s.commitAll(ctx, abandoned)
	if err != nil {
		return err
	}
	failpoint.Step(failpoint.LeaderWaits)
	handedOver, err := s.awaitHandOver(ctx, r.lead)
	if err != nil {
		return err
	}
	waited := time.Since(r.began)
	failpoint.Step(failpoint.LeaderLoads)
	if err := r.load(ctx); err != nil {
		return err
	}
	failpoint.Step(failpoint.LeaderReservesLate)
	if late, err = r.reserveLate(ctx, slices.Concat(late, handedOver)); err != nil {
		return err
	}
	failpoint.Step(failpoint.LeaderOpens)
	if err := r.open(ctx); err != nil {
		return err
	}
	s.publish(ctx, notification{Sales: true})
	failpoint.Step(failpoint.LeaderOpened)
	r.drop(ctx, old)
	level := slog.LevelWarn
	if s.opts.StartsEmpty && len(abandoned)+len(late) == 0 {
		level = slog.LevelInfo
	}
	s.opts.Logger.Log(ctx, level, "a sale was rebuilt from the database", slog.String("sale", r.lead.Sale), slog.Int64("epoch", r.lead.Epoch),
		slog.Int("uncommitted", len(abandoned)), slog.Int("late", len(late)),
		slog.Int64("hand_over_ms", waited.Milliseconds()), slog.Int64("took_ms", time.Since(r.began).Milliseconds()))
	return s.compare(ctx, r.l.all()...)
}

// runScript runs a script that replies 0 when another leader has the item.
func (r *recovery) runScript(ctx context.Context, script *redis.Script, ci *cachedItem, args ...any) error {
	n, err := script.Run(ctx, r.s.base, ci.led(), args...).Int()
	if err == nil && n == 0 {
		return errOvertaken
	}
	return unavailable(err)
}

// takeItems makes this process the leader of all items. From then on, no leader of an earlier epoch can load or open them.
func (r *recovery) takeItems(ctx context.Context) error {
	runs := make(map[string]string)
	for _, ci := range r.l.all() {
		fields, err := r.s.definition(ctx, ci, runs)
		if err != nil {
			return err
		}
		args := append([]any{r.lead.Epoch, r.lead.Token, ci.sale.forgetAt().UnixMilli()}, fields...)
		if err := r.runScript(ctx, leadScript, ci, args...); err != nil {
			return err
		}
	}
	return nil
}

// open opens the items to buyers, with the operator's latest settings.
func (r *recovery) open(ctx context.Context) error {
	l, err := r.current(ctx)
	if err != nil {
		return err
	}
	for _, ci := range r.l.all() {
		ci = l.cached[ci.item.ID]
		args := append([]any{r.lead.Token, l.Revision, l.forgetAt().UnixMilli()}, ci.settings()...)
		if err := r.runScript(ctx, openScript, ci, args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) reread(ctx context.Context, sale string) (*listing, error) {
	if err := s.loadCatalog(ctx); err != nil {
		return nil, err
	}
	return s.listing(sale)
}

// tryLead runs fn as the sale's leader, or returns false when another process leads it. A process leads one sale at a time:
// leading holds a connection to the database, and fn needs another one.
func (s *Service) tryLead(ctx context.Context, sale string, fn func(context.Context) error) (bool, error) {
	select {
	case s.leading <- struct{}{}:
		defer func() { <-s.leading }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return s.store.Lead(ctx, sale, fn)
}

// highestEpoch returns the highest epoch of the sale that is known to the database, this process or Redis.
func (s *Service) highestEpoch(ctx context.Context, l *listing) (int64, error) {
	leads := make([]*redis.StringCmd, len(l.Items))
	if _, err := s.base.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, ci := range l.all() {
			leads[i] = p.HGet(ctx, ci.lead, "epoch")
		}
		return nil
	}); err != nil && !errors.Is(err, redis.Nil) {
		return 0, unavailable(err)
	}
	highest := max(l.Epoch, s.unresolved(l))
	for _, cmd := range leads {
		epoch, err := cmd.Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, unavailable(err)
		}
		if epoch > highest {
			s.regressed(ctx, l.ID, epoch, "its epoch in Redis")
			highest = epoch
		}
	}
	return highest, nil
}

// behind reports whether the item's leader in Redis has a later epoch than the listing, or the same epoch and another token.
func (l *listing) behind(lead []any) bool {
	epoch, _ := lead[0].(string)
	if epoch == "" {
		return false
	}
	n, err := strconv.ParseInt(epoch, 10, 64)
	return err != nil || n > l.Epoch || n == l.Epoch && lead[1] != l.EpochToken
}

// intact reports whether Redis has every item of the sale that it should have.
func (s *Service) intact(ctx context.Context, l *listing) (bool, error) {
	known, err := s.known(ctx, l.all())
	for i, ci := range l.all() {
		if err == nil && known[i] < 0 && !ci.forgottenAt(time.Now()) {
			return false, nil
		}
	}
	return err == nil, err
}

// writable writes a probe key beside the keys of each item, which expires after a second. A server that answers but refuses
// writes, because it is full for example, would make each attempt raise the epoch in vain.
func (s *Service) writable(ctx context.Context, l *listing) error {
	_, err := s.base.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range l.Items {
			p.Set(ctx, s.probeKey(l.ID, l.Items[i].ID), "", probeFor)
		}
		return nil
	})
	return unavailable(err)
}

// keysBefore returns the items in earlier epochs of which Redis has any key, the latest epoch last. A leader may have died
// before it dropped the keys whose orders it had committed.
func (s *Service) keysBefore(ctx context.Context, l *listing) ([]*cachedItem, error) {
	var found, chunk []*cachedItem
	look := func() error { // in one round trip: there may have been thousands of attempts
		counts := make([]*redis.IntCmd, len(chunk))
		if _, err := s.base.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, ci := range chunk {
				counts[i] = p.Exists(ctx, ci.keys...)
			}
			return nil
		}); err != nil {
			return unavailable(err)
		}
		for i, ci := range chunk {
			if counts[i].Val() > 0 {
				found = append(found, ci)
			}
		}
		chunk = chunk[:0]
		return nil
	}
	for epoch := int64(1); epoch < l.Epoch; epoch++ {
		for _, ci := range l.all() {
			before := *ci
			before.keys = s.itemKeys(l.ID, ci.item.ID, epoch)
			if chunk = append(chunk, &before); len(chunk) == loadChunk {
				if err := look(); err != nil {
					return nil, err
				}
			}
		}
	}
	err := look()
	return found, err
}

// seal closes items of earlier epochs, and returns the orders that were reserved there and never committed: each order once, in
// its version of the latest epoch. A scan may return one twice.
func (r *recovery) seal(ctx context.Context, old []*cachedItem) ([]Reservation, error) {
	s := r.s
	var abandoned []Reservation
	at := make(map[ID]int)
	for _, ci := range old {
		for cursor := "0"; ; {
			reply, err := sealScript.Run(ctx, s.base, ci.led(), r.lead.Token, cursor).Slice()
			if err != nil {
				return nil, unavailable(err)
			}
			if len(reply) == 0 {
				return nil, errOvertaken
			}
			d := decoder{reply: reply}
			cursor = d.string()
			pairs := d.strings()
			if d.err != nil {
				return nil, d.err
			}
			for i := 1; i < len(pairs); i += 2 {
				reservation, err := ParseReservation([]byte(pairs[i]))
				if err != nil { // logged only, so that it does not keep the sale closed
					s.opts.Logger.ErrorContext(ctx, "a reservation cannot be read", slog.String("order_id", pairs[i-1]),
						slog.Int("bytes", len(pairs[i])), slog.Any("error", err))
					continue
				}
				if earlier, twice := at[reservation.ID]; twice {
					abandoned[earlier] = reservation
					continue
				}
				at[reservation.ID] = len(abandoned)
				abandoned = append(abandoned, reservation)
			}
			if cursor == "0" {
				break
			}
		}
	}
	return s.uncommitted(ctx, abandoned)
}

// uncommitted returns the reservations that the database does not have.
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

// drop deletes the keys of earlier epochs. Scripts refuse missing keys in the same way as sealed ones.
func (r *recovery) drop(ctx context.Context, old []*cachedItem) {
	for _, ci := range old {
		if err := dropScript.Run(ctx, r.s.base, ci.led(), r.lead.Token).Err(); err != nil {
			r.s.opts.Logger.WarnContext(ctx, "keys of an earlier epoch stay until they expire", slog.String("sale", r.lead.Sale), slog.Any("error", err))
			return
		}
	}
}

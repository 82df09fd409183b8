package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/failpoint"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
)

const (
	// handOverMost is how long a leader waits for live processes that do not hand over. Then its attempt fails, and another one
	// begins.
	handOverMost = 30 * time.Second
	handOverLook = 20 * time.Millisecond
	// handOverNamed is when the leader names them in the log.
	handOverNamed = 5 * time.Second
)

// recovery is one attempt of one leader, in its own epoch.
type recovery struct {
	*Recoverer
	lead  storage.Lead
	l     *catalog.Listing // the sale when the epoch was raised
	began time.Time
}

// raise begins the epoch. Items that are stored later are introduced by PutSale.
func (r *recovery) raise(ctx context.Context, seen int64) (raised bool, err error) {
	failpoint.Step(failpoint.LeaderRaises)
	if err := r.Store.RaiseEpoch(ctx, seen, r.lead); err != nil {
		return false, err
	}
	failpoint.Step(failpoint.LeaderRaised)
	r.l, err = r.current(ctx)
	r.notifier.Publish(ctx, reading.Notification{Sales: true})
	return true, err
}

// current reads the sale, or returns errOvertaken if it is no longer in the leader's epoch.
func (r *recovery) current(ctx context.Context) (*catalog.Listing, error) {
	l, err := r.sales.Reread(ctx, r.lead.Sale)
	if err == nil && (l.Epoch != r.lead.Epoch || l.EpochToken != r.lead.Token) {
		err = core.ErrOvertaken
	}
	return l, err
}

func (r *recovery) run(ctx context.Context) error {
	if err := r.takeItems(ctx); err != nil {
		return err
	}
	failpoint.Step(failpoint.LeaderSeals)
	old, err := r.keysBefore(ctx, r.l)
	if err != nil {
		return err
	}
	abandoned, err := r.seal(ctx, old)
	if err != nil {
		return err
	}
	late, err := r.committer.CommitAll(ctx, abandoned)
	if err != nil {
		return err
	}
	failpoint.Step(failpoint.LeaderWaits)
	handedOver, err := r.awaitHandOver(ctx, r.lead)
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
	r.notifier.Publish(ctx, reading.Notification{Sales: true})
	failpoint.Step(failpoint.LeaderOpened)
	r.drop(ctx, old)
	level := slog.LevelWarn
	if r.EphemeralRedis && len(abandoned)+len(late) == 0 {
		level = slog.LevelInfo
	}
	r.Logger.Log(ctx, level, "a sale was rebuilt from the database", slog.String("sale", r.lead.Sale), slog.Int64("epoch", r.lead.Epoch),
		slog.Int("uncommitted", len(abandoned)), slog.Int("late", len(late)),
		slog.Int64("hand_over_ms", waited.Milliseconds()), slog.Int64("took_ms", time.Since(r.began).Milliseconds()))
	_, err = r.sales.Compare(ctx, r.l.All()...)
	return err
}

// forAll runs a script for items that replies 0 when another leader has the item.
func (r *recovery) forAll(ctx context.Context, script *redisscript.Script, calls []catalog.Call) error {
	for _, reply := range r.sales.RunAll(ctx, script, calls) {
		if n := reply.Int(); reply.Err() != nil {
			return core.Unavailable(reply.Err())
		} else if n == 0 {
			return core.ErrOvertaken
		}
	}
	return nil
}

// takeItems makes this process the leader of all items. From then on, no leader of an earlier epoch can load or open them.
func (r *recovery) takeItems(ctx context.Context) error {
	runs := make(catalog.ServerRuns)
	calls := make([]catalog.Call, len(r.l.Items))
	for i, ci := range r.l.All() {
		fields, err := r.sales.Definition(ctx, ci, runs)
		if err != nil {
			return err
		}
		calls[i] = catalog.Call{Item: ci, Args: append([]any{r.lead.Epoch, r.lead.Token, core.ForgetAt(&ci.Sale.Sale).UnixMilli()}, fields...)}
	}
	return r.forAll(ctx, lua.Lead, calls)
}

// open opens the items to buyers, with the operator's latest settings.
func (r *recovery) open(ctx context.Context) error {
	l, err := r.current(ctx)
	if err != nil {
		return err
	}
	calls := make([]catalog.Call, len(r.l.Items))
	for i, ci := range r.l.All() {
		ci = l.Cached[ci.Item.ID]
		calls[i] = catalog.Call{Item: ci, Args: append([]any{r.lead.Token, l.Revision, ci.SeenBy(r.Writer), core.ForgetAt(&l.Sale).UnixMilli()},
			ci.Settings()...)}
	}
	return r.forAll(ctx, lua.Open, calls)
}

// awaitHandOver ends the hand-over of a recovery when all processes that are not silent have handed over. It returns the orders
// that they could not commit.
func (rc *Recoverer) awaitHandOver(ctx context.Context, lead storage.Lead) (late []orders.Reservation, err error) {
	began, named := time.Now(), false
	for {
		asked := time.Now()
		list, err := rc.Store.HandOver(ctx, lead)
		if err != nil {
			return nil, err
		}
		rc.members.Heartbeats.Observe(asked, time.Now(), list)
		silent, awaited, early := rc.members.Heartbeats.Awaited(asked, list)
		switch {
		case len(awaited) == 0 && !early:
			failpoint.Step(failpoint.LeaderEndsHandOver)
			if err := rc.Store.EndHandOver(ctx, lead, silent); err != nil {
				return nil, err
			}
			return rc.Store.Late(ctx, lead.Sale)
		case time.Since(began) > handOverMost:
			return nil, fmt.Errorf("%w: sale %s stays closed: %v does not hand over what it remembers", orders.ErrRecovering, lead.Sale, awaited)
		case time.Since(began) > handOverNamed && !named && len(awaited) > 0:
			named = true
			rc.Logger.WarnContext(ctx, "a sale waits for processes that live and do not hand over what they remember of it",
				slog.String("sale", lead.Sale), slog.String("processes", fmt.Sprint(awaited)))
		}
		if !periodic.Pause(ctx, handOverLook) {
			return nil, ctx.Err()
		}
	}
}

// keysBefore returns the items in earlier epochs of which Redis has any key, the latest epoch last. A leader may have died
// before it dropped the keys whose orders it had committed.
func (rc *Recoverer) keysBefore(ctx context.Context, l *catalog.Listing) ([]*catalog.Item, error) {
	var found, chunk []*catalog.Item
	look := func() error { // some at a time: there may have been thousands of attempts
		counts := make([]*redis.IntCmd, len(chunk))
		if err := rc.Pipelined(ctx, len(chunk), func(p redis.Pipeliner, i int) { counts[i] = p.Exists(ctx, chunk[i].Keys...) }); err != nil {
			return core.Unavailable(err)
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
		for _, ci := range l.All() {
			before := *ci
			before.Keys = rc.ItemKeys(l.ID, ci.Item.ID, epoch)
			if chunk = append(chunk, &before); len(chunk) == core.LoadChunk {
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
func (r *recovery) seal(ctx context.Context, old []*catalog.Item) ([]orders.Reservation, error) {
	var abandoned []orders.Reservation
	at := make(map[orders.ID]int)
	for part := range slices.Chunk(old, core.FullAtOnce) {
		calls := make([]catalog.Call, len(part))
		for i, ci := range part {
			calls[i] = catalog.Call{Item: ci, Args: []any{r.lead.Token, "0"}}
		}
		for i, d := range r.sales.RunMany(ctx, lua.Seal, calls, 1, false) {
			scan := func(cursor string) redisscript.Reply {
				return lua.Seal.Run(ctx, r.Base, part[i].KeysWithLead(), r.lead.Token, cursor)
			}
			if catalog.Unanswered(d) { // the replies may be too long to arrive in time together
				d = scan("0")
			}
			for {
				if d.Err() == nil && d.Len() == 0 {
					return nil, core.ErrOvertaken
				}
				cursor, pairs := d.Text(), d.Texts()
				if d.Err() != nil {
					return nil, core.Unavailable(d.Err())
				}
				list, err := r.reservations(ctx, pairs)
				if err != nil {
					return nil, err
				}
				for _, reservation := range list {
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
				d = scan(cursor)
			}
		}
	}
	return r.Uncommitted(ctx, abandoned)
}

// reservations parses pairs of order ids and reservations.
func (r *recovery) reservations(ctx context.Context, pairs []string) ([]orders.Reservation, error) {
	var list []orders.Reservation
	for i := 1; i < len(pairs); i += 2 {
		if pairs[i-1] == core.Sentinel {
			continue
		}
		reservation, err := orders.ParseReservation([]byte(pairs[i]))
		if errors.Is(err, orders.ErrLaterVersion) { // this leader would delete it; one of that version rebuilds the sale
			r.Measures.NewerVersion(core.NewerRecord, 1)
			return nil, err
		}
		if err != nil { // logged only, so that it does not keep the sale closed
			id, _ := orders.ParseID(pairs[i-1])
			r.Logger.ErrorContext(ctx, "a reservation cannot be read", slog.String("order_id", r.Shown(id, "").String()),
				slog.Int("bytes", len(pairs[i])), slog.Any("error", err))
			continue
		}
		list = append(list, reservation)
	}
	return list, nil
}

// drop deletes the keys of earlier epochs. Scripts refuse missing keys in the same way as sealed ones.
func (r *recovery) drop(ctx context.Context, old []*catalog.Item) {
	calls := make([]catalog.Call, len(old))
	for i, ci := range old {
		calls[i] = catalog.Call{Item: ci, Args: []any{r.lead.Token}}
	}
	for _, reply := range r.sales.RunAll(ctx, lua.Drop, calls) {
		if err := reply.Err(); err != nil {
			r.Logger.WarnContext(ctx, "keys of an earlier epoch stay until they expire", slog.String("sale", r.lead.Sale), slog.Any("error", err))
			return
		}
	}
}

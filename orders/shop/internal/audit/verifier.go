// Package audit compares what Redis and the database have of a sale with the invariants.
package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/inspection"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
	"github.com/tidegate/tidegate/orders/shop/internal/queue"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
)

// verifyLooks is how often a breach has to be seen. Data in flight moves between the read of Redis and that of the database; a
// real breach stays.
const (
	verifyLooks = 3
	verifyPause = 50 * time.Millisecond
	verifyTries = 4 // of a look that a server does not answer in a request's time, which may be short on a busy host
)

// expiredWithin is how long after the end of its time to pay an order has to be expired.
const expiredWithin = 10 * time.Second

// Verifier compares what Redis and the database have of a sale.
type Verifier struct {
	*core.Core
	sales    *catalog.Watch
	enqueuer *queue.Enqueuer
	notifier *reading.Notifier
}

// New returns the part.
func New(c *core.Core, sales *catalog.Watch, enqueuer *queue.Enqueuer, notifier *reading.Notifier) *Verifier {
	return &Verifier{Core: c, sales: sales, enqueuer: enqueuer, notifier: notifier}
}

// verifyInvariants checks what Redis and the database have of a sale. It returns the errors of Verify. The first look at the sale compares
// sums, and shows in which slots breaches may be. If there are any, further looks compare these element by element.
func (a *Verifier) verifyInvariants(ctx context.Context, sale string) ([]orders.Check, error) {
	l, err := a.sales.Find(ctx, sale)
	if err != nil {
		return nil, err
	}
	stock := 0
	for i := range l.Items {
		stock += l.Items[i].Stock
	}
	s := sieve{units: newSlots(stock), buyers: newSlots(stock)}
	breaches, seen, err := a.look(ctx, l, &s)
	if err != nil {
		return nil, err
	}
	if differ := s.choose(); differ || len(breaches) > 0 {
		breaches = nil
		for range verifyLooks {
			if !periodic.Pause(ctx, verifyPause) {
				return nil, ctx.Err()
			}
			var now map[inspection.Breach]struct{}
			if now, seen, err = a.look(ctx, l, &s); err != nil {
				return nil, err
			}
			if breaches == nil {
				breaches = now
			}
			maps.DeleteFunc(breaches, func(b inspection.Breach, _ struct{}) bool { _, still := now[b]; return !still })
			if len(breaches) == 0 {
				break
			}
		}
	}
	tasks, err := a.enqueuer.Queued(ctx)
	if err != nil {
		return nil, err
	}
	queued := 0
	for _, n := range tasks {
		queued += n
	}
	list := checks(breaches, &seen, queued)
	for i := range list {
		list[i].Detail = a.withoutSecrets(list[i].Detail)
	}
	return list, nil
}

// verifyTotals is the counts of one look.
type verifyTotals struct {
	units    unitCounts
	pending  int // orders
	dead     int // letters
	database inspection.Result
}

// look takes one look, again if a server does not answer in time: reading twice changes nothing.
func (a *Verifier) look(
	ctx context.Context, l *catalog.Listing, s *sieve,
) (breaches map[inspection.Breach]struct{}, sum verifyTotals, err error) {
	for try := 1; ; try++ {
		s.clear()
		breaches, sum, err = a.verifySale(ctx, l, s)
		if !errors.Is(err, orders.ErrUnavailable) || try == verifyTries || !periodic.Pause(ctx, verifyPause) {
			return breaches, sum, err
		}
	}
}

// verifySale reads the returns from the database, then every item in Redis, and then the database.
func (a *Verifier) verifySale(ctx context.Context, l *catalog.Listing, s *sieve) (map[inspection.Breach]struct{}, verifyTotals, error) {
	var sum verifyTotals
	before, err := a.returns(ctx, l.ID)
	if err != nil {
		return nil, sum, err
	}
	all := make(map[string]*verifiedItem, len(l.Items))
	for part := range slices.Chunk(l.All(), core.FullAtOnce) {
		if a.Over(&l.Sale) {
			break
		}
		names := make([]string, len(part))
		for i, ci := range part {
			names[i] = ci.Item.ID
			all[ci.Item.ID] = newVerifiedItem(ci.Item, s, before[ci.Item.ID])
		}
		if err := a.readItems(ctx, part, all); err != nil {
			return nil, sum, err
		}
		if err := a.Store.Owners(ctx, l.ID, names, func(item string, unit int, owner orders.ID) { all[item].addOwner(unit, owner) }); err != nil {
			return nil, sum, err
		}
		for _, name := range names {
			sum.pending += all[name].pending
		}
	}
	after, err := a.returns(ctx, l.ID)
	if err != nil {
		return nil, sum, err
	}
	keys := keyReader{Verifier: a, l: l}
	if err := a.Store.Holdings(ctx, l.ID, func(h storage.Holding) error {
		b, ok := all[h.Item]
		if !ok {
			return nil
		}
		b.addHolding(&h)
		if h.Status == orders.StatusAccepted {
			sum.dead++
		}
		return keys.add(ctx, b, h)
	}); err != nil {
		return nil, sum, err
	}
	if err := keys.read(ctx); err != nil {
		return nil, sum, err
	}
	if sum.database, err = a.Store.Inspect(ctx, l.ID, expiredWithin); err != nil {
		return nil, sum, err
	}
	breaches := make(map[inspection.Breach]struct{})
	for _, found := range sum.database.Breaches {
		if found.Missing != "" {
			found.What += " (" + a.origin(found.Missing) + ")"
		}
		breaches[found] = struct{}{}
	}
	for item, b := range all {
		maps.Copy(b.coming, after[item])
		for _, found := range b.examine() {
			breaches[found] = struct{}{}
		}
		sum.units.add(b.counts)
	}
	return breaches, sum, nil
}

// origin describes which sale an order without a row was placed in: its id contains the number of its item.
func (a *Verifier) origin(order string) string {
	id, err := orders.ParseID(order)
	if err == nil {
		if ci, ok := a.sales.Catalog.Load().ByNumber[id.Item()]; ok {
			return fmt.Sprintf("item %s of sale %s", ci.Item.ID, ci.Sale.ID)
		}
	}
	return "of an unknown sale"
}

// orderIDs finds the ids of orders in a text.
var orderIDs = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)

// withoutSecrets replaces the ids of orders by what Shown returns for those without a buyer: a text does not show which ones have one.
func (a *Verifier) withoutSecrets(text string) string {
	return orderIDs.ReplaceAllStringFunc(text, func(found string) string {
		if id, err := orders.ParseID(found); err == nil {
			return a.Shown(id, "").String()
		}
		return found
	})
}

// returns lists the orders whose units are being returned, by item.
func (a *Verifier) returns(ctx context.Context, sale string) (map[string]map[orders.ID]*storage.Return, error) {
	list, err := a.Store.Returns(ctx, sale, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	coming := make(map[string]map[orders.ID]*storage.Return)
	for i := range list {
		r := &list[i]
		if coming[r.Item] == nil {
			coming[r.Item] = make(map[orders.ID]*storage.Return)
		}
		coming[r.Item][r.ID] = r
	}
	return coming, nil
}

// readItems reads items in Redis.
func (a *Verifier) readItems(ctx context.Context, items []*catalog.Item, into map[string]*verifiedItem) error {
	calls := make([]catalog.Call, len(items))
	for i, ci := range items {
		args := []any{ci.SeenBy(a.Writer)}
		for id, r := range into[ci.Item.ID].coming {
			args = append(args, id.String(), r.BuyerHash)
		}
		calls[i] = catalog.Call{Item: ci, Args: args}
	}
	for i, reply := range a.sales.RunMany(ctx, lua.Verify, calls, 1, false) {
		if catalog.Unanswered(reply) { // the replies may be too long to arrive in time together
			reply = lua.Verify.Run(ctx, a.Base, items[i].KeysWithLead(), calls[i].Args...)
		}
		b := into[items[i].Item.ID]
		buyers, err := a.readItem(reply, items[i], b)
		if err == nil && b.returned+buyers > 0 {
			err = a.readUnitsAndBuyers(ctx, items[i], b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readItem reads an item's counts and reservations in a reply of verify.lua, and returns how many buyers it has.
func (a *Verifier) readItem(d redisscript.Reply, ci *catalog.Item, b *verifiedItem) (buyers int, err error) {
	if err := a.sales.Lost(ci, d); err != nil {
		return 0, core.Unavailable(err)
	}
	if d.Len() == 1 {
		return 0, orders.ErrRecovering
	}
	b.stock, b.next, b.returned = int(d.Int()), int(d.Int()), int(d.Int())
	for _, record := range catalog.WithoutSentinel(d.Texts()) {
		b.addRecord(record)
	}
	b.outbox, b.pending = int(d.Int()), int(d.Int())
	for _, text := range d.Texts() {
		var id orders.ID
		if err := id.UnmarshalText([]byte(text)); err != nil {
			return 0, err
		}
		b.kept = append(b.kept, id)
	}
	n := int(d.Int())
	return n, core.Unavailable(d.Err())
}

// readUnitsAndBuyers reads an item's returned units and buyers from Redis. It takes many round trips, between which the sale goes on:
// reading those of a long sale at once would block Redis for a tenth of a second. What changes after the item's counts were read is
// inconsistent in this look only.
func (a *Verifier) readUnitsAndBuyers(ctx context.Context, ci *catalog.Item, b *verifiedItem) error {
	if err := a.scan(ci, func(cursor uint64) *redis.ScanCmd {
		return a.Base.SScan(ctx, ci.Keys[core.ReturnedKey], cursor, "", core.LoadChunk)
	}, func(units []string) {
		for _, unit := range catalog.WithoutSentinel(units) {
			b.addReturned(unit)
		}
	}); err != nil {
		return err
	}
	return a.scan(ci, func(cursor uint64) *redis.ScanCmd {
		return a.Base.HScan(ctx, ci.Keys[core.BuyersKey], cursor, "", core.LoadChunk)
	}, func(pairs []string) {
		for i := 1; i < len(pairs); i += 2 {
			if pairs[i-1] != core.Sentinel {
				b.addEntry(pairs[i-1], pairs[i])
			}
		}
	})
}

// scan reads a collection in parts. It reads all elements that exist during the whole scan.
func (a *Verifier) scan(ci *catalog.Item, read func(cursor uint64) *redis.ScanCmd, fn func(elements []string)) error {
	for cursor := uint64(0); ; {
		elements, next, err := read(cursor).Result()
		if err := a.collectionError(ci, err); err != nil {
			return err
		}
		fn(elements)
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// collectionError returns the error of a command that reads a collection of an item.
func (a *Verifier) collectionError(ci *catalog.Item, err error) error {
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return a.sales.Forgotten(ci)
	}
	return core.Unavailable(err)
}

// keyReader looks for the keys of orders in Redis, those of many orders at a time.
type keyReader struct {
	*Verifier
	l     *catalog.Listing
	items []*verifiedItem
	list  []storage.Holding
}

// add adds an order. Only rows matter after the first look.
func (k *keyReader) add(ctx context.Context, b *verifiedItem, h storage.Holding) error {
	if !hasKey(&h) || b.buyers.sums == nil && !b.isRow(h.BuyerHash) {
		return nil
	}
	k.items, k.list = append(k.items, b), append(k.list, h)
	if len(k.list) < core.LoadChunk {
		return nil
	}
	return k.read(ctx)
}

// read reads the keys of the orders that were added.
func (k *keyReader) read(ctx context.Context) error {
	byItem := make(map[*verifiedItem][]*storage.Holding)
	for i, b := range k.items {
		byItem[b] = append(byItem[b], &k.list[i])
	}
	items := slices.Collect(maps.Keys(byItem))
	replies := make([]*redis.SliceCmd, len(items))
	_ = k.Pipelined(ctx, len(items), func(p redis.Pipeliner, i int) { // each command has its error
		var fields []string
		for _, h := range byItem[items[i]] {
			fields = append(fields, h.BuyerHash+*h.KeyHash)
		}
		replies[i] = p.HMGet(ctx, k.l.Cached[items[i].item.ID].Keys[core.RequestKey], fields...)
	})
	for i, b := range items {
		entries, err := replies[i].Result()
		if err := k.collectionError(k.l.Cached[b.item.ID], err); err != nil {
			return err
		}
		for n, h := range byItem[b] {
			entry, _ := entries[n].(string)
			b.addKey(h, entry)
		}
	}
	k.items, k.list = k.items[:0], k.list[:0]
	return nil
}

// checks groups breaches by invariant, and describes what was compared if there are none.
func checks(breaches map[inspection.Breach]struct{}, a *verifyTotals, queued int) []orders.Check {
	u, db := a.units, a.database
	list := []orders.Check{
		{Invariant: "I1", Detail: fmt.Sprintf("%d pending, each in the outbox; %d dead letters", a.pending, a.dead)},
		{Invariant: "I2", Detail: "no unit on its way back from an order that there is not; of any sale, no event or payment of one"},
		{Invariant: "I3", Detail: fmt.Sprintf("%d sold of %d", u.sold, u.stock)},
		{Invariant: "I4", Detail: "no buyer above the quota, and all of their orders count"},
		{Invariant: "I5", Detail: "no unit with two owners, no order without its units"},
		{Invariant: "I6", Detail: fmt.Sprintf("%d free + %d reserved + %d sold + %d on their way back + %d in dead letters = %d", u.free,
			u.reserved, u.sold, u.coming, u.dead, u.stock)},
		{Invariant: "I7", Detail: "every key is known, with its order"},
		{Invariant: "I9", Detail: fmt.Sprintf("%d orders, each as its events say", db.Orders)},
		{Invariant: "I10", Detail: "no order ended twice, and no unit was sold before it came back"},
		{Invariant: "I11", Detail: fmt.Sprintf("%d captured = %d paid + %d to be refunded", db.Captured, db.Captured-db.Refunds, db.Refunds)},
		{
			Invariant: "I14", Detail: fmt.Sprintf("no order unpaid %v after its time; %d are being expired", expiredWithin, db.Expiring),
			Waiting: db.Expiring,
		},
	}
	for i := range list {
		c := &list[i]
		var found []string
		for b := range breaches {
			if b.Invariant == c.Invariant {
				found = append(found, b.What)
			}
		}
		slices.Sort(found)
		c.Breaches = len(found)
		if c.OK = len(found) == 0; !c.OK {
			c.Advice = advice[c.Invariant]
			c.Detail = joinSome(found, "; ")
		}
	}
	return append(list, orders.Check{
		Invariant: "I17", OK: true, Waiting: a.pending + queued + a.dead + u.coming,
		Detail: fmt.Sprintf("%d in the outbox, %d tasks in queues, %d dead letters, %d units on their way back", a.pending, queued, a.dead,
			u.coming),
	})
}

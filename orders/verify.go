package orders

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Check is the verdict on one invariant.
type Check struct {
	Invariant string `json:"invariant"`
	OK        bool   `json:"ok"`
	Detail    string `json:"detail"`
	// Waiting is how many orders or tasks are still under way.
	Waiting int `json:"waiting,omitempty"`
}

// verifyLooks is how often a breach has to be seen. What is in flight moves
// between a look at Redis and one at the database; a breach stays.
const (
	verifyLooks = 3
	verifyPause = 50 * time.Millisecond
)

// Verify checks, on the running system, every invariant of a sale that Redis
// and the database can answer together. It changes nothing.
func (s *Service) Verify(ctx context.Context, sale string) ([]Check, error) {
	l, err := s.listing(sale)
	if err != nil {
		return nil, err
	}
	var breaches map[breach]struct{}
	var seen audit
	for range verifyLooks {
		now, a, err := s.audit(ctx, l)
		if err != nil {
			return nil, err
		}
		seen = a
		if breaches == nil {
			breaches = now
		}
		maps.DeleteFunc(breaches, func(b breach, _ struct{}) bool { _, still := now[b]; return !still })
		if len(breaches) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(verifyPause):
		}
	}
	queued, err := s.queued(ctx)
	if err != nil {
		return nil, err
	}
	return checks(breaches, seen, queued), nil
}

// breach is one thing that does not add up. Two looks that see the same one
// make the same value.
type breach struct {
	invariant string
	what      string
}

// audit are the numbers of a look.
type audit struct {
	stock, free, pending, owned, deadLetters int
}

// audit takes one look at every item: first at Redis, then at the database.
func (s *Service) audit(ctx context.Context, l *listing) (map[breach]struct{}, audit, error) {
	var sum audit
	all := make(map[string]*books, len(l.Items))
	for i := range l.Items {
		it := &l.Items[i]
		sh := l.shelves[it.ID]
		if sh.forgottenAt(time.Now()) {
			continue
		}
		reply, err := auditScript.Run(ctx, s.base, sh.keys).Slice()
		if err != nil {
			return nil, sum, unavailable(err)
		}
		if len(reply) == 0 {
			s.suspectForgotten(sh)
			return nil, sum, ErrRecovering
		}
		d := decoder{reply: reply}
		b := &books{
			item: it, stock: int(d.int64()), next: int(d.int64()), returned: d.strings(), records: d.strings(),
			outbox: int(d.int64()), pending: int(d.int64()),
		}
		if d.err != nil {
			return nil, sum, d.err
		}
		if b.owners, err = s.store.Owners(ctx, l.ID, it.ID); err != nil {
			return nil, sum, err
		}
		all[it.ID] = b
		sum.stock += b.stock
		sum.free += b.stock - b.next + len(b.returned)
		sum.pending += b.pending
		sum.owned += len(b.owners)
	}
	if err := s.store.Holdings(ctx, l.ID, func(h Holding) error {
		if b, ok := all[h.Item]; ok && h.Status.Holds() {
			b.holdings = append(b.holdings, h)
			if h.Status == StatusAccepted {
				sum.deadLetters++
			}
		}
		return nil
	}); err != nil {
		return nil, sum, err
	}
	breaches := make(map[breach]struct{})
	for _, b := range all {
		for _, found := range b.examine() {
			breaches[found] = struct{}{}
		}
	}
	return breaches, sum, nil
}

// books are what Redis, and then the database, said of one item.
type books struct {
	item            *Item
	stock, next     int
	returned        []string
	records         []string
	outbox, pending int
	owners          map[int]ID // of order_units
	holdings        []Holding  // orders that hold units, and dead letters
}

// examine names everything in the books that does not add up.
func (b *books) examine() []breach {
	var found []breach
	say := func(invariant, format string, args ...any) {
		found = append(found, breach{invariant, b.item.ID + ": " + fmt.Sprintf(format, args...)})
	}
	where := make(map[int][]string, b.next)
	put := func(unit int, place string) { where[unit] = append(where[unit], place) }
	for _, text := range b.returned {
		d := decoder{reply: []any{text}}
		put(int(d.int64()), "free")
	}
	for _, record := range b.records {
		r, err := ParseReservation([]byte(record))
		if err != nil {
			say("I1", "a reservation cannot be read: %.80s", record)
			continue
		}
		for _, u := range r.Units {
			// Committed, and about to leave the outbox: the same order's in both places.
			if b.owners[u] != r.ID {
				put(u, "reserved by "+r.ID.String())
			}
		}
	}
	held := make(map[string]int)
	seated := 0
	for _, h := range b.holdings {
		held[h.BuyerHash] += h.Quantity
		for _, u := range h.Units {
			if h.Status == StatusAccepted {
				put(u, "in dead letter "+h.ID.String())
			} else if b.owners[u] == h.ID {
				seated++
			} else {
				say("I5", "order %s does not own its unit %d", h.ID, u)
			}
		}
	}
	for u, id := range b.owners {
		put(u, "sold to "+id.String())
	}
	if seated < len(b.owners) {
		say("I5", "%d units are owned by orders that do not hold them", len(b.owners)-seated)
	}
	for u := 1; u <= b.next; u++ {
		switch places := where[u]; {
		case len(places) == 0:
			say("I6", "unit %d was handed out and is nowhere", u)
		case len(places) > 1:
			slices.Sort(places)
			say("I5", "unit %d is %s", u, strings.Join(places, " and "))
		}
		delete(where, u)
	}
	for u := range where {
		say("I6", "unit %d is in use and was never handed out", u)
	}
	if b.next > b.stock || len(b.owners) > b.stock {
		say("I3", "%d units handed out and %d sold of %d", b.next, len(b.owners), b.stock)
	}
	for _, n := range held {
		if n > b.item.QuotaEver {
			say("I4", "a buyer holds %d units, and the quota never was above %d", n, b.item.QuotaEver)
		}
	}
	if b.outbox != b.pending {
		say("I1", "%d outbox entries for %d reservations", b.outbox, b.pending)
	}
	return found
}

// checks sorts breaches by invariant, and says what was compared where there is none.
func checks(breaches map[breach]struct{}, a audit, queued int) []Check {
	list := []Check{
		{Invariant: "I1", Detail: fmt.Sprintf("%d pending, each in the outbox; %d dead letters", a.pending, a.deadLetters)},
		{Invariant: "I3", Detail: fmt.Sprintf("%d sold of %d", a.owned, a.stock)},
		{Invariant: "I4", Detail: "no buyer above the quota"},
		{Invariant: "I5", Detail: "no unit with two owners"},
		{Invariant: "I6", Detail: fmt.Sprintf("%d free + %d pending + %d sold + dead letters' = %d", a.free, a.pending, a.owned, a.stock)},
	}
	for i := range list {
		var said []string
		for b := range breaches {
			if b.invariant == list[i].Invariant {
				said = append(said, b.what)
			}
		}
		slices.Sort(said)
		if list[i].OK = len(said) == 0; !list[i].OK {
			list[i].Detail = strings.Join(said[:min(len(said), 10)], "; ")
			if n := len(said) - 10; n > 0 {
				list[i].Detail += fmt.Sprintf("; and %d more", n)
			}
		}
	}
	return append(list, Check{
		Invariant: "I17", OK: true, Waiting: a.pending + queued + a.deadLetters,
		Detail: fmt.Sprintf("%d in the outbox, %d in queues, %d dead letters", a.pending, queued, a.deadLetters),
	})
}

// queued counts tasks of all sales, in whatever state. It counts Asynq's own
// keys: the inspector knows no queue any more once Redis forgot, and reads far more.
func (s *Service) queued(ctx context.Context) (int, error) {
	var counts []*redis.IntCmd
	_, err := s.queue.Pipelined(ctx, func(p redis.Pipeliner) error {
		for shard := range s.opts.QueueShards {
			prefix := "asynq:{" + s.queueName(shard) + "}:"
			for _, list := range []string{"pending", "active"} {
				counts = append(counts, p.LLen(ctx, prefix+list))
			}
			for _, set := range []string{"scheduled", "retry", "archived"} {
				counts = append(counts, p.ZCard(ctx, prefix+set))
			}
		}
		return nil
	})
	if err != nil {
		return 0, unavailable(err)
	}
	sum := 0
	for _, c := range counts {
		sum += int(c.Val())
	}
	return sum, nil
}

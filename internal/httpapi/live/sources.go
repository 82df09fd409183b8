package live

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/httpapi/charge"
	"github.com/tidegate/tidegate/internal/httpapi/health"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/waitingroom"
)

// Options are the data that only the page shows.
type Options struct {
	Recorder   *livepage.Recorder
	RoundTrips func() uint64   // how often decisions waited for Redis; nil: unknown
	Degraded   func() []string // further degraded parts; nil: none

	// Invariants are the results of verifications; nil: unknown.
	Invariants func() (sales, violations int, latest time.Time)
}

// Orders is what the page reads of a *shop.Service.
type Orders interface {
	Shown(id orders.ID, buyer string) orders.ID
	SaleStates() ([]orders.SaleStatus, error)
	Sale(ctx context.Context, sale string) (orders.SaleStatus, error)
	Backlog(ctx context.Context) (orders.Backlog, error)
	InProgress(ctx context.Context) (int, error)
	DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error)
	Committed() uint64
	Totals(ctx context.Context, sale string) (orders.Totals, error)
	Processes() (list []orders.Process, known bool)
}

// A Collector collects the data of the page. Its fields are set before Feed is called.
type Collector struct {
	Options

	Orders     Orders
	Gate       charge.Gate
	Health     *health.Handlers
	Rules      func() []string                                     // names of the rules in force
	Semaphores func(context.Context) ([]livepage.Semaphore, error) // nil: none
	Rooms      *waitingroom.Service                                // nil: none
}

// Feed returns the feed of the page.
func (p *Collector) Feed(log *slog.Logger) *livepage.Feed {
	sources := livepage.Sources{
		Process: p.process, Health: p.health, Sales: p.sales, Totals: p.totals, Queue: p.queue, Bans: p.bans, Semaphores: p.Semaphores,
		Rules: p.Rules, Committed: p.Orders.Committed, RoundTrips: p.RoundTrips,
	}
	if p.Rooms != nil {
		sources.Rooms = p.rooms
	}
	return livepage.NewFeed(p.Recorder, sources, log)
}

// Maximum number of entries that are read per kind; the page shows fewer.
const (
	mostBans = 100
	mostDead = 21
)

func (p *Collector) process() livepage.Process {
	s := p.Gate.Stats()
	out := livepage.Process{
		Version: p.Health.Version, Rules: s.Version, Processes: max(1, s.Processes), Workers: p.workers(), Degraded: []string{},
	}
	if s.Degraded {
		out.Degraded = append(out.Degraded, "Redis does not answer decisions")
	}
	if s.CleanupOverdue() {
		out.Degraded = append(out.Degraded, "a shard of the counts is not cleaned in time")
	}
	for i := range s.Memory {
		m := &s.Memory[i]
		out.Shards = append(out.Shards, livepage.Shard{
			Subjects: m.Subjects, Reclaimed: m.Reclaimed, Evicted: m.Evicted,
			CleanedMS: m.Cleaned.Milliseconds(), Late: m.Late,
		})
	}
	if outdated := p.Health.OutdatedSettings(); len(outdated) > 0 {
		out.Degraded = append(out.Degraded, "not reloaded, the last good content stays in force: "+strings.Join(outdated, ", "))
	}
	if demo := p.Health.DemoSecrets(); len(demo) > 0 {
		out.Warnings = append(out.Warnings, "these secrets are published: "+strings.Join(demo, ", "))
	}
	if p.Degraded != nil {
		out.Degraded = append(out.Degraded, p.Degraded()...)
	}
	if p.Invariants != nil {
		if sales, violations, latest := p.Invariants(); sales > 0 {
			out.Invariants = &livepage.Invariants{Sales: sales, Violations: violations, VerifiedAt: latest.UTC()}
		}
	}
	return out
}

// programs of this repository that have a listener for orders, or commit them.
const (
	programAPI    = "api"
	programWorker = "worker"
)

// workers counts the processes that commit orders; nil: unknown. An API may commit a few when a sale is rebuilt.
func (p *Collector) workers() *int {
	all, known := p.Orders.Processes()
	if !known {
		return nil
	}
	n := 0
	for _, one := range all {
		if one.Program == programWorker || one.Commits && one.Program != programAPI {
			n++
		}
	}
	return &n
}

func (p *Collector) health(ctx context.Context) ([]string, error) { return p.Health.Describe(ctx), nil }

func (p *Collector) rooms(ctx context.Context) ([]livepage.Room, error) {
	all, err := p.Rooms.Rooms(ctx)
	if err != nil {
		return nil, err
	}
	rooms := make([]livepage.Room, len(all))
	for i := range all {
		s := &all[i]
		pace := waitingroom.Pace{Outlook: waitingroom.OutlookNone}
		if s.Phase != waitingroom.PhaseClosed && s.Phase != waitingroom.PhaseExhausted {
			if pace, err = p.Rooms.Pace(ctx, s.Room); err != nil {
				return nil, err
			}
		}
		rooms[i] = livepage.Room{
			Room: s.Room, Phase: string(s.Phase), Waiting: s.Waiting, Served: s.Served, Admitted: pace.Admitted, Outlook: string(pace.Outlook),
			StartsAt: response.Instant(s.StartsAt), Sale: s.Sale, Item: s.Item,
		}
		if len(s.Lanes) > 0 {
			for _, l := range s.ByLane {
				rooms[i].Lanes = append(rooms[i].Lanes, livepage.Lane{Lane: l.Name, Share: l.Share, Waiting: l.Waiting, Served: l.Served})
			}
		}
	}
	return rooms, nil
}

// sales returns all sales, and the units of those that the page lists.
func (p *Collector) sales(ctx context.Context) ([]livepage.Sale, error) {
	all, err := p.Orders.SaleStates()
	if err != nil {
		return nil, err
	}
	sales := make([]livepage.Sale, len(all))
	for i := range all {
		sales[i] = listed(&all[i])
	}
	slices.SortStableFunc(sales, livepage.CompareSales)
	for i := range sales[:min(len(sales), livepage.MostSales)] {
		s, err := p.Orders.Sale(ctx, sales[i].Sale)
		if err != nil {
			return nil, err
		}
		sales[i] = listed(&s)
		for _, it := range s.Items {
			item := livepage.Item{Item: it.ID, Stock: it.Stock}
			if free, known := s.Free[it.ID]; known {
				item.Free = &free
			}
			sales[i].Items = append(sales[i].Items, item)
		}
	}
	return sales, nil
}

// totals counts the orders of the sales that the page lists, from their start until a day after their end.
func (p *Collector) totals(ctx context.Context) ([]livepage.Totals, error) {
	all, err := p.Orders.SaleStates()
	if err != nil {
		return nil, err
	}
	sales := make([]livepage.Sale, len(all))
	states := make(map[string]*orders.SaleStatus, len(all))
	for i := range all {
		sales[i] = listed(&all[i])
		states[all[i].ID] = &all[i]
	}
	slices.SortStableFunc(sales, livepage.CompareSales)
	var list []livepage.Totals
	for i := range sales[:min(len(sales), livepage.MostSales)] {
		id := sales[i].Sale
		if s := states[id]; s.Now.Before(s.StartsAt) || !shop.VerifiedAt(&s.Sale, s.Now) {
			continue
		}
		t, err := p.Orders.Totals(ctx, id)
		if err != nil {
			return nil, err
		}
		counts := livepage.Totals{Sale: id, Items: make(map[string]livepage.ItemTotals, len(t.Items)), Orders: livepage.Orders{
			Confirmed: t.Orders[orders.StatusConfirmed], Paid: t.Orders[orders.StatusPaid], Cancelled: t.Orders[orders.StatusCancelled],
			Expired: t.Orders[orders.StatusExpired], Rejected: t.Orders[orders.StatusRejected], Refunds: t.Refunds,
		}}
		for item, n := range t.Items {
			counts.Items[item] = livepage.ItemTotals(n)
		}
		list = append(list, counts)
	}
	return list, nil
}

// listed returns a sale without its items.
func listed(s *orders.SaleStatus) livepage.Sale {
	return livepage.Sale{
		Sale: s.ID, State: string(s.State), Draft: s.State == orders.StateScheduled && s.Switch == orders.SwitchDraft,
		StartsAt: response.Instant(s.StartsAt), EndsAt: response.Instant(s.EndsAt), Items: []livepage.Item{},
	}
}

func (p *Collector) queue(ctx context.Context) (livepage.Queue, error) {
	q := livepage.Queue{Dead: []livepage.Dead{}}
	backlog, err := p.Orders.Backlog(ctx)
	if err != nil {
		return q, err
	}
	q.Waiting, q.OldestMS = backlog.Orders, backlog.Oldest.Milliseconds()
	if q.InProgress, err = p.Orders.InProgress(ctx); err != nil {
		return q, err
	}
	letters, err := p.Orders.DeadLetters(ctx, orders.ID{}, mostDead)
	for i := range letters {
		r := &letters[i].Reservation
		q.Dead = append(q.Dead, livepage.Dead{
			OrderID: p.Orders.Shown(r.ID, r.Buyer).String(), Sale: r.Sale, Item: r.Item,
			Reason: letters[i].Reason,
		})
	}
	return q, err
}

func (p *Collector) bans(context.Context) (livepage.Bans, error) {
	all := p.Gate.Bans()
	slices.SortFunc(all, func(x, y bans.Ban) int {
		return cmp.Or(y.Until.Compare(x.Until), strings.Compare(x.Value, y.Value))
	})
	bans := livepage.Bans{Count: len(all), Bans: []livepage.Ban{}}
	for i := range all[:min(len(all), mostBans)] {
		b := &all[i]
		bans.Bans = append(bans.Bans, livepage.Ban{
			Kind: string(b.Kind), Value: b.Value, Reason: b.Reason, Rule: b.Rule,
			Since: response.Instant(b.Since), Until: response.Instant(b.Until),
		})
	}
	return bans, nil
}

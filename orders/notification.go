package orders

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/periodic"
)

// notification is a notification between processes. It only saves time: a process that misses one finds the change by polling.
type notification struct {
	Orders []change `json:"orders,omitempty"`
	Sales  bool     `json:"sales,omitempty"`  // definitions, switches or epochs changed
	Item   int      `json:"item,omitempty"`   // number of an item of which units came back
	Queued bool     `json:"queued,omitempty"` // a task was enqueued after a pause
}

type change struct {
	ID     ID     `json:"id"`
	Status Status `json:"s"`
	Again  bool   `json:"a,omitempty"` // it was committed before
}

func (s *Service) publish(ctx context.Context, b notification) {
	s.receive(b)
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // texts and numbers
	}
	if err := s.base.Publish(ctx, s.notificationChannel(), text).Err(); err != nil {
		s.opts.Logger.DebugContext(ctx, "a notification could not be published", slog.Any("error", err))
	}
}

// listen receives notifications until ctx ends. After each (re)connection it assumes that some were missed.
func (s *Service) listen(ctx context.Context) error {
	for ctx.Err() == nil {
		s.listenTo(ctx, s.base.Subscribe(ctx, s.notificationChannel()))
	}
	return ctx.Err()
}

// listenTo reads one subscription until ctx ends or Redis is replaced by another server. The former server may still run, but
// no process publishes there any more.
func (s *Service) listenTo(ctx context.Context, sub *redis.PubSub) {
	defer sub.Close()
	messages := sub.ChannelWithSubscriptions(redis.WithChannelSize(1024), redis.WithChannelSendTimeout(time.Minute))
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.replaced:
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			switch m := m.(type) {
			case *redis.Subscription:
				poke(s.checkNow)
				s.waiters.wakeAll()
			case *redis.Message:
				var b notification
				if err := json.Unmarshal([]byte(m.Payload), &b); err != nil {
					s.opts.Logger.WarnContext(ctx, "a notification could not be read", slog.Any("error", err))
					continue
				}
				s.receive(b)
				for _, c := range b.Orders {
					if c.Status == StatusConfirmed && !c.Again {
						s.committed.Add(1)
					}
				}
			}
		}
	}
}

func (s *Service) receive(b notification) {
	for _, c := range b.Orders {
		s.ledger.settle(c.ID, c.Status)
		s.waiters.wake(c.ID)
	}
	if len(b.Orders) > 0 {
		s.waiters.wake(anyOrder)
	}
	if b.Sales {
		poke(s.checkNow)
	}
	if b.Queued {
		poke(s.arrived)
	}
	if ci, ok := s.catalog.Load().byNumber[b.Item]; ok {
		ci.forget()
	}
}

// askForCommits asks the database about orders of this process whose commit was not reported, until ctx ends.
func (s *Service) askForCommits(ctx context.Context) error {
	return periodic.Woken(ctx, time.Second, s.asking, func() {
		for s.askForSome(ctx) == askAtOnce && ctx.Err() == nil {
		}
	})
}

// askAtOnce is the maximum number of orders in one query.
const askAtOnce = 1000

// askForSome asks about at most askAtOnce overdue orders, and returns how many it asked about.
func (s *Service) askForSome(ctx context.Context) int {
	late := s.ledger.overdue(3*time.Second, askAtOnce)
	if len(late) == 0 {
		return 0
	}
	ids := make([]ID, len(late))
	for i := range late {
		ids[i] = late[i].ID
	}
	found, err := s.store.Statuses(ctx, ids)
	if err != nil {
		return 0 // asked again soon
	}
	uncommitted := make(map[string][]Reservation) // by the outbox that should have them
	for _, r := range late {
		if status, ok := found[r.ID]; ok {
			s.receive(notification{Orders: []change{{ID: r.ID, Status: status}}})
		} else {
			outbox := s.itemKeys(r.Sale, r.Item, r.Epoch)[3]
			uncommitted[outbox] = append(uncommitted[outbox], r)
		}
	}
	for outbox, list := range uncommitted {
		s.offerLost(ctx, outbox, list)
	}
	return len(late)
}

// offerLost enqueues again the orders that are not in their outbox: this process has the only copy left.
func (s *Service) offerLost(ctx context.Context, outbox string, list []Reservation) {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID.String()
	}
	scores, err := s.base.ZMScore(ctx, outbox, ids...).Result()
	if err != nil {
		return // asked again soon
	}
	for i, score := range scores {
		if score == 0 { // not in the outbox: scores are times in Unix ms, never 0
			s.offer(list[i], trace.SpanContext{})
		}
	}
}

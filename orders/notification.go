package orders

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// notification is a notification between processes. It only saves time: a process that misses one finds the change by polling.
type notification struct {
	Orders []change `json:"orders,omitempty"`
	Sales  bool     `json:"sales,omitempty"`  // definitions, switches or epochs changed
	Item   int      `json:"item,omitempty"`   // number of an item of which units came back
	Queued bool     `json:"queued,omitempty"` // a task was enqueued after a pause

	Verified bool `json:"verified,omitempty"` // a process has verified the sales
}

type change struct {
	ID     ID     `json:"id"`
	Status Status `json:"s"`
	Again  bool   `json:"a,omitempty"` // it was committed before
}

// notifier exchanges notifications with the other processes.
type notifier struct {
	*core
	sales     *catalogWatch
	ledger    *ledger
	waiters   *waiters
	committed atomic.Uint64 // commits that were reported
}

func (n *notifier) publish(ctx context.Context, b notification) {
	n.receive(b)
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // texts and numbers
	}
	if err := n.base.Publish(ctx, n.notificationChannel(), text).Err(); err != nil {
		n.opts.Logger.DebugContext(ctx, "a notification could not be published", slog.Any("error", err))
	}
}

// listen receives notifications until ctx ends. After each (re)connection it assumes that some were missed.
func (n *notifier) listen(ctx context.Context) error {
	for ctx.Err() == nil {
		n.listenTo(ctx, n.base.Subscribe(ctx, n.notificationChannel()))
	}
	return ctx.Err()
}

// listenTo reads one subscription until ctx ends or Redis is replaced by another server. The former server may still run, but
// no process publishes there any more.
func (n *notifier) listenTo(ctx context.Context, sub *redis.PubSub) {
	defer sub.Close()
	messages := sub.ChannelWithSubscriptions(redis.WithChannelSize(1024), redis.WithChannelSendTimeout(time.Minute))
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.replaced:
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			switch m := m.(type) {
			case *redis.Subscription:
				poke(n.checkNow)
				n.waiters.wakeAll()
			case *redis.Message:
				var b notification
				if err := json.Unmarshal([]byte(m.Payload), &b); err != nil {
					n.opts.Logger.WarnContext(ctx, "a notification could not be read", slog.Any("error", err))
					continue
				}
				n.receive(b)
				for _, c := range b.Orders {
					if c.Status == StatusConfirmed && !c.Again {
						n.committed.Add(1)
					}
				}
			}
		}
	}
}

func (n *notifier) receive(b notification) {
	for _, c := range b.Orders {
		n.ledger.settle(c.ID, c.Status)
		n.waiters.wake(c.ID)
	}
	if len(b.Orders) > 0 {
		n.waiters.wake(anyOrder)
	}
	if b.Sales {
		poke(n.checkNow)
	}
	if b.Queued {
		poke(n.arrived)
	}
	if b.Verified {
		poke(n.verifying)
	}
	if ci, ok := n.sales.catalog.Load().byNumber[b.Item]; ok {
		ci.forget()
	}
}

// Committed returns how many orders all processes committed, as far as this process was notified since it started. Commits made
// while Redis is unreachable may be missing.
func (n *notifier) Committed() uint64 { return n.committed.Load() }

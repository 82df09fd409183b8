package shop

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/pubsub"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
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
	ID     orders.ID     `json:"id"`
	Status orders.Status `json:"s"`
	Again  bool          `json:"a,omitempty"` // it was committed before
}

// notifier exchanges notifications with the other processes.
type notifier struct {
	*core
	sales     *catalogWatch
	ledger    *ledger.Ledger
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
		n.logger.DebugContext(ctx, "a notification could not be published", slog.Any("error", err))
	}
}

// listen receives notifications until ctx ends. After each (re)connection it assumes that some were missed.
func (n *notifier) listen(ctx context.Context) error {
	return pubsub.Follow(ctx, listenPause, func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { // a replaced server may still run, but no process publishes there any more
			select {
			case <-ctx.Done():
			case <-n.replaced:
				cancel()
			}
		}()
		return pubsub.Listen(ctx, n.base.Subscribe, n.notificationChannel(), func(message string) { n.received(ctx, message) })
	}, func(err error) {
		n.logger.DebugContext(ctx, "no notifications are received", slog.Any("error", err))
	})
}

const listenPause = 100 * time.Millisecond // after a connection failed

// received takes a message of another process, or of this one; "" if some may have been missed.
func (n *notifier) received(ctx context.Context, message string) {
	if message == "" {
		poke(n.checkNow)
		n.waiters.wakeAll()
		return
	}
	var b notification
	if err := json.Unmarshal([]byte(message), &b); err != nil {
		n.logger.WarnContext(ctx, "a notification could not be read", slog.Any("error", err))
		return
	}
	n.receive(b)
	for _, c := range b.Orders {
		if c.Status == orders.StatusConfirmed && !c.Again {
			n.committed.Add(1)
		}
	}
}

func (n *notifier) receive(b notification) {
	for _, c := range b.Orders {
		n.ledger.Settle(c.ID, c.Status)
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

func (n *notifier) Committed() uint64 { return n.committed.Load() }

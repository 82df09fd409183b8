package reading

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/pubsub"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
)

// Notification is a notification between processes. It only saves time: a process that misses one finds the change by polling.
type Notification struct {
	Orders []Change `json:"orders,omitempty"`
	Sales  bool     `json:"sales,omitempty"` // definitions, switches or epochs changed
	Item   int      `json:"item,omitempty"`  // number of an item of which units came back

	Verified bool `json:"verified,omitempty"` // a process has verified the sales
}

// A Change is an order with another status.
type Change struct {
	ID     orders.ID     `json:"id"`
	Status orders.Status `json:"s"`
	Again  bool          `json:"a,omitempty"` // it was committed before
}

// Notifier exchanges notifications with the other processes.
type Notifier struct {
	*core.Core
	sales     *catalog.Watch
	ledger    *ledger.Ledger
	waiters   *Waiters
	committed atomic.Uint64 // commits that were reported
}

// NewNotifier returns the part that wakes waiters.
func NewNotifier(c *core.Core, sales *catalog.Watch, l *ledger.Ledger, w *Waiters) *Notifier {
	return &Notifier{Core: c, sales: sales, ledger: l, waiters: w}
}

// Publish sends a notification to all processes that need it, this one included.
func (n *Notifier) Publish(ctx context.Context, b Notification) {
	var sent *redis.IntCmd
	_, _ = n.Base.Pipelined(ctx, func(p redis.Pipeliner) error { sent = n.Queue(ctx, p, b); return nil })
	n.Sent(ctx, sent)
}

// Queue is Publish for a pipeline, whose sender passes the result to Sent. This process receives the notification at once.
func (n *Notifier) Queue(ctx context.Context, p redis.Pipeliner, b Notification) *redis.IntCmd {
	n.Receive(b)
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // texts and numbers
	}
	if b.Sales || b.Verified {
		p.Publish(ctx, n.CommitterChannel(), text)
	}
	return p.Publish(ctx, n.NotificationChannel(), text)
}

// Sent logs that a notification could not be published.
func (n *Notifier) Sent(ctx context.Context, cmd *redis.IntCmd) {
	if err := cmd.Err(); err != nil {
		n.Logger.DebugContext(ctx, "a notification could not be published", slog.Any("error", err))
	}
}

// Listen receives notifications until ctx ends; if this process only commits, those of sales and verifications. After each (re)connection it
// assumes that some were missed.
func (n *Notifier) Listen(ctx context.Context, commitOnly bool) error {
	channel := n.NotificationChannel()
	if commitOnly {
		channel = n.CommitterChannel()
	}
	return pubsub.Follow(ctx, listenPause, func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { // a replaced server may still run, but no process publishes there any more
			select {
			case <-ctx.Done():
			case <-n.Replaced:
				cancel()
			}
		}()
		return pubsub.Listen(ctx, n.Base.Subscribe, []string{channel}, func(message string) { n.received(ctx, message) })
	}, func(err error) {
		n.Logger.DebugContext(ctx, "no notifications are received", slog.Any("error", err))
	})
}

const listenPause = 100 * time.Millisecond // after a connection failed

// received takes a message of another process, or of this one; "" if some may have been missed.
func (n *Notifier) received(ctx context.Context, message string) {
	if message == "" {
		core.Poke(n.CheckNow)
		n.waiters.wakeAll()
		return
	}
	var b Notification
	if err := json.Unmarshal([]byte(message), &b); err != nil {
		n.Logger.WarnContext(ctx, "a notification could not be read", slog.Any("error", err))
		return
	}
	n.Receive(b)
	for _, c := range b.Orders {
		if c.Status == orders.StatusConfirmed && !c.Again {
			n.committed.Add(1)
		}
	}
}

// Receive does what a notification of any process calls for.
func (n *Notifier) Receive(b Notification) {
	for _, c := range b.Orders {
		n.ledger.Settle(c.ID, c.Status)
		n.waiters.wake(c.ID)
	}
	if len(b.Orders) > 0 {
		n.waiters.wake(anyOrder)
	}
	if b.Sales {
		core.Poke(n.CheckNow)
	}
	if b.Verified {
		core.Poke(n.Verifying)
	}
	if ci, ok := n.sales.Catalog.Load().ByNumber[b.Item]; ok {
		ci.Forget()
	}
}

// Committed counts the commits that were reported.
func (n *Notifier) Committed() uint64 { return n.committed.Load() }

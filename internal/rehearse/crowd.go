package rehearse

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
)

// longestWait bounds one wait between attempts, whatever Retry-After is, so that a rehearsal ends. The API asks for no more.
const longestWait = 30 * time.Second

// crowd is a run in progress.
type crowd struct {
	o     Options
	head  judge.Head
	apis  []*public // each process, over the connections kept for orders
	rec   *recorder
	tally *tally
	// one per connection for orders: calls wait here, not inside the transport, where the wait would not be measured
	slots        chan struct{}
	paymentAPI   *internal     // takes payments
	paymentSlots chan struct{} // one per connection of paymentAPI
	start        time.Time
	live         sync.WaitGroup // orders that are followed, or whose operation is being carried out

	mu        sync.Mutex
	open      []pendingCall       // clicks whose outcome is unknown; guarded by mu
	known     map[string]struct{} // order ids being followed; guarded by mu
	unplanned int                 // calls that are not in the plan; guarded by mu
	follow    chan *placed        // has room for all orders, so sending never blocks
}

// pendingCall is a click without a definite answer yet.
type pendingCall struct {
	click
	seq      int
	attempts int
	api      int // index of the process to ask next
	wait     time.Duration
}

// placed is an order that was answered with 202.
type placed struct {
	click
	id, user string
	state    orders.Status // as its buyer last saw it
	while    orders.Status // followed until it has another status than this
	api      int
}

func (c *crowd) buyer(n int) string { return c.head.Prefix + strconv.Itoa(n) }

// send makes every planned call at its time and returns when each has a definite answer or is given up for now. A call that
// finds no free connection is sent late; it is never left out.
func (c *crowd) send(ctx context.Context, clicks []click) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for seq, k := range clicks {
		if !periodic.Pause(ctx, k.at-time.Since(c.start)) || !acquire(ctx, c.slots) {
			return
		}
		wg.Go(func() { c.settle(ctx, pendingCall{click: k, seq: seq, api: k.buyer % len(c.apis)}, c.o.Attempts) })
	}
}

// resolve retries all calls whose outcome is still open: those of buyers who hung up, and those without any response.
func (c *crowd) resolve(ctx context.Context) {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	if len(open) == 0 || !periodic.Pause(ctx, 250*time.Millisecond) { // decisions under way when their buyers hung up end within 200 ms
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, a := range open {
		if !acquire(ctx, c.slots) {
			return
		}
		wg.Go(func() { c.settle(ctx, a, a.attempts+c.o.Attempts) })
	}
}

// settle retries until there is a definite answer, upTo attempts were made, or the buyer hung up. It owns a slot, which it
// releases while it waits, and at the end.
func (c *crowd) settle(ctx context.Context, a pendingCall, upTo int) {
	for {
		call := c.attempt(ctx, &a)
		<-c.slots
		switch {
		case call.Outcome != judge.Lost:
			return
		case call.Reason == "hung_up", a.attempts >= upTo:
			c.mu.Lock()
			c.open = append(c.open, a)
			c.mu.Unlock()
			return
		}
		if !periodic.Pause(ctx, a.wait) || !acquire(ctx, c.slots) {
			return
		}
	}
}

// attempt makes one call, records it, and sets the API and the wait of the next.
func (c *crowd) attempt(ctx context.Context, a *pendingCall) judge.Call {
	a.attempts++
	buyer, hangUp := c.buyer(a.buyer), a.hangUp
	if a.attempts > 1 {
		hangUp = -1
	}
	call := judge.Call{
		Seq: a.seq, Attempt: a.attempts, Buyer: buyer, Item: c.o.Items[a.item], Quantity: a.quantity, Key: a.key(buyer), API: a.api,
		Planned: a.at, HungUp: hangUp >= 0, Started: time.Since(c.start),
	}
	c.tally.begin(call)
	r, err := c.apis[a.api].order(ctx, buyer, call.Key, call.Item, call.Quantity, hangUp)
	call.Ended = time.Since(c.start)
	call.Outcome, call.Reason, call.Error = outcomeOf(r, err, hangUp >= 0, r.code == http.StatusAccepted && r.OrderID != "")
	call.Status = r.code
	switch call.Outcome {
	case judge.Admitted:
		call.OrderID, call.State = r.OrderID, r.Status
	case judge.Lost:
		a.api = (a.api + 1) % len(c.apis) // as a load balancer would
		a.wait = c.backoff(a.attempts, r.retryAfter)
	}
	c.rec.record(line{Call: &call})
	c.tally.end(call)
	if call.Outcome == judge.Admitted {
		c.watch(ctx, &placed{click: a.click, id: r.OrderID, user: buyer, state: r.Status, while: orders.StatusAccepted, api: a.api})
	}
	return call
}

// watch passes an order to the followers, once.
func (c *crowd) watch(ctx context.Context, p *placed) {
	c.mu.Lock()
	_, known := c.known[p.id]
	c.known[p.id] = struct{}{}
	c.mu.Unlock()
	if known {
		return
	}
	c.tally.admitted.Add(1)
	c.live.Add(1)
	c.follow <- p
	if p.plan.moment == afterAnswer {
		c.live.Go(func() { c.pay(ctx, p) })
	}
}

// backoff doubles from RetryWait and adds up to a half at random, so that buyers who lost their responses together do not
// return together.
func (c *crowd) backoff(attempts int, retryAfter time.Duration) time.Duration {
	d := c.o.RetryWait << min(attempts-1, 10)
	if retryAfter > 0 && !c.o.Impatient {
		d = retryAfter
	}
	return periodic.Jitter(min(d, longestWait))
}

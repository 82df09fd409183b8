package chaos

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/periodic"
)

// Parameters of the changed sale: more stock of the existing item, and a new item.
const (
	moreStock  = 20
	newStock   = 20
	newBuyers  = 30       // more than there are units
	ourBuyers  = "chaos-" // prefix of the buyers of the new item
	putWithin  = 90 * time.Second
	soldWithin = 20 * time.Second
)

// purchases are the orders of the harness itself. Safe for concurrent use.
type purchases struct {
	mu       sync.Mutex
	items    int                  // put so far; guarded by mu
	promised map[string]time.Time // by order id; guarded by mu
	failed   []error              // errors of putting the sale; guarded by mu
}

func (p *purchases) add(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.promised == nil {
		p.promised = make(map[string]time.Time)
	}
	if _, known := p.promised[id]; !known {
		p.promised[id] = time.Now()
	}
}

// accept adds the order of a response with 202.
func (p *purchases) accept(body []byte) bool {
	var order sales.PlacedOrder
	if json.Unmarshal(body, &order) != nil || order.OrderID == "" {
		return false
	}
	p.add(order.OrderID)
	return true
}

func (p *purchases) newItem() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items++
	return fmt.Sprintf("new-%d", p.items)
}

// before returns the orders that were accepted before a time.
func (p *purchases) before(at time.Time) (ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, promised := range p.promised {
		if promised.Before(at) {
			ids = append(ids, id)
		}
	}
	return ids
}

// failures returns the errors of putting the sale.
func (p *purchases) failures() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

func (p *purchases) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = append(p.failed, err)
}

// putSale puts the sale with more stock and a new item, and sends more buyers for it than it has units.
func (c *cluster) putSale(ctx context.Context, p params) {
	name := c.bought.newItem()
	ctx, cancel := context.WithTimeout(ctx, putWithin)
	defer cancel()
	for {
		err := c.tryPutSale(ctx, c.internal[p.Target-1], name)
		if err == nil {
			break
		}
		if !periodic.Pause(ctx, 100*time.Millisecond) {
			c.bought.fail(fmt.Errorf("the sale could not be put with item %s: %w", name, err))
			return
		}
	}
	until := time.Now().Add(soldWithin)
	for i := range newBuyers {
		if over := c.buy(ctx, name, fmt.Sprintf("%s%s-%d", ourBuyers, name, i), i, until); over {
			return
		}
	}
}

// tryPutSale reads the sale from Postgres, and changes it through one API. It can be repeated after a lost response.
func (c *cluster) tryPutSale(ctx context.Context, internal, name string) error {
	var text []byte
	if err := c.pool.QueryRow(ctx, `
		SELECT json_build_object('starts_at', starts_at, 'ends_at', ends_at, 'requires_user', requires_user, 'hold_ms', hold_ms, 'items',
			(SELECT json_agg(json_build_object('item', item, 'stock', stock, 'quota_per_buyer', quota_per_buyer) ORDER BY number) FROM items WHERE sale = $1))
		FROM sales WHERE sale = $1`, sale).Scan(&text); err != nil {
		return err
	}
	var def sales.SaleDefinition
	if err := json.Unmarshal(text, &def); err != nil {
		return err
	}
	stored := false
	for i := range def.Items {
		stored = stored || def.Items[i].Item == name
	}
	if !stored {
		def.Items[0].Stock += moreStock
		def.Items = append(def.Items, sales.ItemDefinition{Item: name, ItemSettings: sales.ItemSettings{Stock: newStock, QuotaPerBuyer: 1}})
	}
	_, err := apiclient.Call[sales.OperatorSale](ctx, quickly(internal, c.token), http.MethodPut, apiclient.Path("v1", "sales", sale), def)
	return err
}

// buy orders a unit for one buyer, and retries with alternating APIs until the response is definite. It returns true when the
// item is sold out or the time is over.
func (c *cluster) buy(ctx context.Context, name, buyer string, i int, until time.Time) (over bool) {
	key := rand.Text()
	for ; time.Now().Before(until); i++ {
		switch accepted, soldOut := c.order(ctx, c.public[i%len(c.public)], name, buyer, key); {
		case accepted:
			return false
		case soldOut:
			return true
		case !periodic.Pause(ctx, 50*time.Millisecond):
			return true
		}
	}
	return true
}

// order orders a unit of an item, and keeps what was accepted.
func (c *cluster) order(ctx context.Context, public, item, buyer, key string) (accepted, soldOut bool) {
	r, err := sendOrder(ctx, public, item, buyer, key)
	if err != nil {
		return false, false
	}
	return r.StatusCode == http.StatusAccepted && c.bought.accept(r.Body), r.StatusCode == http.StatusConflict && bytes.Contains(r.Body, []byte("sold_out"))
}

func sendOrder(ctx context.Context, public, item, buyer, key string) (apiclient.Response, error) {
	header := http.Header{"X-User-Id": {buyer}, "Idempotency-Key": {key}}
	return quickly(public, "").Do(ctx, http.MethodPost, apiclient.Path("v1", "sales", sale, "orders"), header, sales.OrderRequest{Item: item})
}

// quickly returns a client of a listener whose process may be dead or frozen.
func quickly(base, token string) *apiclient.Client {
	return &apiclient.Client{Transport: quick.Transport, Base: base, Token: token, Timeout: quick.Timeout}
}

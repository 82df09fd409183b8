package chaos

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

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
	var order struct {
		ID string `json:"order_id"`
	}
	if json.Unmarshal(body, &order) != nil || order.ID == "" {
		return false
	}
	p.add(order.ID)
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

// definition is the body of PUT for a sale.
type definition struct {
	StartsAt     time.Time        `json:"starts_at"`
	EndsAt       time.Time        `json:"ends_at"`
	RequiresUser bool             `json:"requires_user"`
	HoldMS       int64            `json:"hold_ms"`
	Items        []itemDefinition `json:"items"`
}

type itemDefinition struct {
	Item  string `json:"item"`
	Stock int    `json:"stock"`
	Quota int    `json:"quota_per_buyer"`
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
	var def definition
	if err := json.Unmarshal(text, &def); err != nil {
		return err
	}
	stored := false
	for i := range def.Items {
		stored = stored || def.Items[i].Item == name
	}
	if !stored {
		def.Items[0].Stock += moreStock
		def.Items = append(def.Items, itemDefinition{name, newStock, 1})
	}
	body, err := json.Marshal(def)
	if err != nil {
		return err
	}
	code, said, err := c.call(ctx, http.MethodPut, internal+"/v1/sales/"+sale, body, "Authorization", "Bearer "+c.token)
	if err == nil && code/100 != 2 {
		err = fmt.Errorf("%d: %s", code, said)
	}
	return err
}

// buy orders a unit for one buyer, and retries with alternating APIs until the response is definite. It returns true when the
// item is sold out or the time is over.
func (c *cluster) buy(ctx context.Context, name, buyer string, i int, until time.Time) (over bool) {
	key, body := rand.Text(), fmt.Appendf(nil, `{"item":%q}`, name)
	for ; time.Now().Before(until); i++ {
		code, said, err := c.call(ctx, http.MethodPost, c.public[i%len(c.public)]+"/v1/sales/"+sale+"/orders", body, "X-User-ID", buyer, "Idempotency-Key", key)
		switch {
		case err == nil && code == http.StatusAccepted && c.bought.accept(said):
			return false
		case err == nil && code == http.StatusConflict && strings.Contains(string(said), "sold_out"):
			return true
		case !periodic.Pause(ctx, 50*time.Millisecond):
			return true
		}
	}
	return true
}

func (c *cluster) call(ctx context.Context, method, url string, body []byte, headers ...string) (code int, said []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 1; i < len(headers); i += 2 {
		req.Header.Set(headers[i-1], headers[i])
	}
	resp, err := quick.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	said, err = io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	return resp.StatusCode, said, err
}

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
)

//go:embed accept.lua
var acceptSource string

const (
	batchMost = 64
	senders   = 2
)

// An order is its record in Redis.
type order struct {
	ID    string `json:"id"`
	Sale  string `json:"sale"`
	Item  string `json:"item"`
	Buyer string `json:"buyer"`
	At    int64  `json:"at"` // Unix ms
	Unit  int64  `json:"unit,omitempty"`
}

// A call is an order that waits for a script.
type call struct {
	order  order
	record []byte
	unit   int64 // 0 or less: refused
	err    error
	done   chan struct{}
}

type api struct {
	rdb    *redis.Client
	script *redis.Script
	calls  chan *call
}

func serve(ctx context.Context, listen string, rdb *redis.Client) error {
	a := &api{rdb: rdb, script: redis.NewScript(acceptSource), calls: make(chan *call, 4096)}
	for range senders {
		go a.send(ctx)
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.GET("/healthz", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	e.PUT("/sales/:sale/items/:item", a.offer)
	e.POST("/sales/:sale/orders", a.order)
	over := context.AfterFunc(ctx, func() { _ = e.Close() })
	defer over()
	if err := e.Start(listen); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (a *api) offer(c echo.Context) error {
	var body struct {
		Stock int `json:"stock"`
	}
	if err := c.Bind(&body); err != nil {
		return err
	}
	if err := a.rdb.HSet(c.Request().Context(), item, "stock", body.Stock, "next", 0).Err(); err != nil {
		return err
	}
	return c.NoContent(http.StatusCreated)
}

func (a *api) order(c echo.Context) error {
	k := &call{done: make(chan struct{})}
	if err := json.NewDecoder(c.Request().Body).Decode(&k.order); err != nil {
		return echo.ErrBadRequest
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	k.order.ID, k.order.Sale, k.order.Buyer, k.order.At = id.String(), c.Param("sale"), c.Request().Header.Get("X-User-ID"), time.Now().UnixMilli()
	if k.record, err = json.Marshal(k.order); err != nil {
		return err
	}
	a.calls <- k
	switch <-k.done; {
	case k.err != nil:
		return echo.ErrServiceUnavailable.WithInternal(k.err)
	case k.unit <= 0:
		return c.NoContent(http.StatusConflict)
	}
	return c.JSON(http.StatusAccepted, map[string]string{"order_id": k.order.ID, "status": "accepted"})
}

// send runs the script for all calls that wait, until ctx ends.
func (a *api) send(ctx context.Context) {
	for {
		var batch []*call
		select {
		case k := <-a.calls:
			batch = append(batch, k)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(batch) < batchMost; {
			select {
			case k := <-a.calls:
				batch = append(batch, k)
			default:
				more = false
			}
		}
		args := make([]any, 0, 3*len(batch))
		for _, k := range batch {
			args = append(args, k.order.ID, k.order.Buyer, k.record[:len(k.record)-1])
		}
		units, err := a.script.Run(ctx, a.rdb, []string{item, buyers, accepted, waiting, wake}, args...).Int64Slice()
		for i, k := range batch {
			if k.err = err; err == nil {
				k.unit = units[i]
			}
			close(k.done)
		}
	}
}

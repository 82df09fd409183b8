package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	limiterredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

//go:embed reserve.lua
var reserveSource string

var reserveScript = redis.NewScript(reserveSource)

const (
	taskType = "order:create"
	queue    = "orders"
)

// A task is an order for the worker.
type task struct {
	OrderID string `json:"order_id"`
	Sale    string `json:"sale"`
	Item    string `json:"item"`
	Buyer   string `json:"buyer"`
}

type api struct {
	rdb   *redis.Client
	pool  *pgxpool.Pool
	tasks *asynq.Client
	limit *limiter.Limiter
}

// serve answers HTTP until ctx ends.
func serve(ctx context.Context, listen string, rdb *redis.Client, pool *pgxpool.Pool) error {
	store, err := limiterredis.NewStore(rdb)
	if err != nil {
		return err
	}
	a := &api{
		rdb: rdb, pool: pool, tasks: asynq.NewClientFromRedisClient(rdb),
		limit: limiter.New(store, limiter.Rate{Period: time.Minute, Limit: 100}),
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Use(middleware.Recover(), middleware.RequestID(), middleware.BodyLimit("4K"))
	e.GET("/healthz", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	e.PUT("/sales/:sale/items/:item", a.offer)
	e.POST("/sales/:sale/orders", a.order, a.limited)
	e.GET("/orders/:id", a.status)
	over := context.AfterFunc(ctx, func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = e.Shutdown(late)
	})
	defer over()
	if err := e.Start(listen); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// offer starts the sale of an item.
func (a *api) offer(c echo.Context) error {
	var item struct {
		Stock int `json:"stock"`
	}
	if err := c.Bind(&item); err != nil {
		return err
	}
	ctx, sale, name := c.Request().Context(), c.Param("sale"), c.Param("item")
	if _, err := a.pool.Exec(ctx, `INSERT INTO stock (sale, item, stock) VALUES ($1, $2, $3)`, sale, name, item.Stock); err != nil {
		return err
	}
	left, _ := keys(sale, name)
	if err := a.rdb.Set(ctx, left, item.Stock, 0).Err(); err != nil {
		return err
	}
	return c.NoContent(http.StatusCreated)
}

// limited lets a user order 100 times a minute.
func (a *api) limited(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		user := c.Request().Header.Get("X-User-ID")
		if user == "" {
			return echo.ErrUnauthorized
		}
		l, err := a.limit.Get(c.Request().Context(), user)
		if err != nil {
			return echo.ErrServiceUnavailable.WithInternal(err)
		}
		h := c.Response().Header()
		h.Set("X-RateLimit-Limit", strconv.FormatInt(l.Limit, 10))
		h.Set("X-RateLimit-Remaining", strconv.FormatInt(l.Remaining, 10))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(l.Reset, 10))
		if l.Reached {
			return echo.ErrTooManyRequests
		}
		return next(c)
	}
}

func (a *api) order(c echo.Context) error {
	var body struct {
		Item string `json:"item"`
	}
	if err := c.Bind(&body); err != nil {
		return err
	}
	ctx := c.Request().Context()
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	t := task{OrderID: id.String(), Sale: c.Param("sale"), Item: body.Item, Buyer: c.Request().Header.Get("X-User-ID")}
	left, buyers := keys(t.Sale, t.Item)
	word, err := reserveScript.Run(ctx, a.rdb, []string{left, buyers}, t.Buyer).Text()
	if err != nil {
		return echo.ErrServiceUnavailable.WithInternal(err)
	}
	if word != "reserved" {
		return c.JSON(http.StatusConflict, map[string]string{"reason": word})
	}
	payload, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = a.tasks.EnqueueContext(ctx, asynq.NewTask(taskType, payload), asynq.TaskID(t.OrderID), asynq.Queue(queue),
		asynq.Timeout(30*time.Second))
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		a.giveBack(ctx, left, buyers, t.Buyer)
		return echo.ErrServiceUnavailable.WithInternal(err)
	}
	return c.JSON(http.StatusAccepted, map[string]string{"order_id": t.OrderID, "status": "accepted"})
}

// giveBack returns the unit of an order that could not be queued.
func (a *api) giveBack(ctx context.Context, left, buyers, buyer string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = a.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, left)
		p.SRem(ctx, buyers, buyer)
		return nil
	})
}

func (a *api) status(c echo.Context) error {
	id, status := c.Param("id"), ""
	err := a.pool.QueryRow(c.Request().Context(), `SELECT status FROM orders WHERE order_id = $1`, id).Scan(&status)
	if errors.Is(err, pgx.ErrNoRows) {
		status, err = "accepted", nil
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]string{"order_id": id, "status": status})
}

func keys(sale, item string) (left, buyers string) {
	return fmt.Sprintf("stock:{%s:%s}", sale, item), fmt.Sprintf("buyers:{%s:%s}", sale, item)
}

package orders_test

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/orders"
)

// hooked is a store whose calls a test can stop or answer itself.
type hooked struct {
	orders.Store
	afterHoldings atomic.Pointer[func()] // what happens between reading the orders and opening the sale
	lead          atomic.Pointer[func() (bool, error)]
}

func (h *hooked) Holdings(ctx context.Context, sale string, fn func(orders.Holding) error) error {
	err := h.Store.Holdings(ctx, sale, fn)
	if after := h.afterHoldings.Load(); after != nil {
		(*after)()
	}
	return err
}

func (h *hooked) Lead(ctx context.Context, sale string, fn func(context.Context) error) (bool, error) {
	if lead := h.lead.Load(); lead != nil {
		return (*lead)()
	}
	return h.Store.Lead(ctx, sale, fn)
}

// afterScript runs fn when a script was answered.
type afterScript struct{ fn func() }

func (a afterScript) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a afterScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		a.fn()
		return err
	}
}

func (a afterScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		a.fn()
		return err
	}
}

package reserve

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// trace returns the span of a reservation or a replay, or noSpan.
func (a *Attempt) trace(ctx context.Context, mode Mode) (context.Context, trace.Span) {
	if a.reserver.Tracer == nil {
		return ctx, core.NoSpan
	}
	name := "reserve"
	if mode == modeRepeat {
		name = "replay"
	}
	return a.reserver.Tracer.Start(ctx, name,
		trace.WithAttributes(core.AttrSale.String(a.cachedItem.Sale.ID), core.AttrItem.String(a.cachedItem.Item.ID)))
}

func (rs *Reserver) endReserve(span trace.Span, out *orders.Outcome, err error) {
	if span.IsRecording() {
		core.Fail(span, err)
		if out.Reason != "" {
			span.SetAttributes(core.AttrReason.String(string(out.Reason)))
		}
		if out.Order.ID != (orders.ID{}) {
			span.SetAttributes(core.AttrOrder.String(rs.Shown(out.Order.ID, out.Order.Buyer).String()), core.AttrReplayed.Bool(out.Replayed))
		}
	}
	span.End()
}

package shop

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders"
)

// trace returns the span of a reservation or a replay, or noSpan.
func (a *Attempt) trace(ctx context.Context, mode reserveMode) (context.Context, trace.Span) {
	if a.reserver.tracer == nil {
		return ctx, noSpan
	}
	name := "reserve"
	if mode == modeRepeat {
		name = "replay"
	}
	return a.reserver.tracer.Start(ctx, name, trace.WithAttributes(attrSale.String(a.cachedItem.sale.ID), attrItem.String(a.cachedItem.item.ID)))
}

func (rs *reserver) endReserve(span trace.Span, out *orders.Outcome, err error) {
	if span.IsRecording() {
		fail(span, err)
		if out.Reason != "" {
			span.SetAttributes(attrReason.String(string(out.Reason)))
		}
		if out.Order.ID != (orders.ID{}) {
			span.SetAttributes(attrOrder.String(rs.Shown(out.Order.ID, out.Order.Buyer).String()), attrReplayed.Bool(out.Replayed))
		}
	}
	span.End()
}

package shop_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// traced enables tracing for a service, and returns the exporter of its spans.
func traced(share sdktrace.Sampler) (func(*shop.Options), *tracetest.InMemoryExporter) {
	kept := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept), sdktrace.WithSampler(share))
	return func(o *shop.Options) { o.Tracer = provider.Tracer("test") }, kept
}

// named returns the spans whose name has a prefix.
func named(kept *tracetest.InMemoryExporter, name string) tracetest.SpanStubs {
	return slices.DeleteFunc(kept.GetSpans(), func(s tracetest.SpanStub) bool { return !strings.HasPrefix(s.Name, name) })
}

func attributes(s tracetest.SpanStub) map[string]string {
	m := make(map[string]string)
	for _, a := range s.Attributes {
		m[string(a.Key)] = a.Value.String()
	}
	return m
}

// pending returns the only task in the queues.
func (in *installation) pending() *asynq.TaskInfo {
	in.t.Helper()
	eventually(in.t, "the order is queued", func() bool { return in.queued() == 1 })
	return in.tasks()[0]
}

func TestAnOrderIsOneTrace(t *testing.T) {
	t.Parallel()
	in := install(t)
	options, kept := traced(sdktrace.AlwaysSample())
	p := in.start(options)
	sale := in.sale(p)
	id := in.order(p, sale.ID, "secret-user", "secret-key", 1).Order.ID
	task := in.pending()
	if names := slices.Collect(maps.Keys(task.Headers)); !slices.Equal(names, []string{"traceparent"}) || strings.Contains(string(task.Payload), "trace") {
		t.Errorf("headers %v, payload %s", names, task.Payload)
	}
	stop := in.work(p)
	in.settled(p, id)
	stop()

	chain := make(map[string]tracetest.SpanStub)
	for _, s := range kept.GetSpans() {
		word, _, _ := strings.Cut(s.Name, " ")
		if _, twice := chain[word]; twice {
			t.Errorf("another %s", s.Name)
		}
		chain[word] = s
		if all := fmt.Sprint(s.Name, attributes(s), s.Events, s.Links, s.Status); strings.Contains(all, "secret") {
			t.Errorf("%s tells too much: %s", s.Name, all)
		}
	}
	for _, want := range []struct {
		name, parent string
		kind         trace.SpanKind
		linked       bool
		attributes   map[string]string
	}{
		{"reserve", "", trace.SpanKindInternal, false, map[string]string{
			"tidegate.sale": sale.ID, "tidegate.item": "shoe", "tidegate.order_id": id.String(), "tidegate.replayed": "false",
		}},
		{"enqueue", "reserve", trace.SpanKindProducer, false, map[string]string{
			"messaging.system": "asynq", "messaging.operation.name": "enqueue", "messaging.operation.type": "send",
			"messaging.destination.name": task.Queue, "messaging.message.id": task.ID, "tidegate.order_id": id.String(),
		}},
		{"handle", "enqueue", trace.SpanKindConsumer, true, map[string]string{
			"messaging.system": "asynq", "messaging.operation.name": "handle", "messaging.operation.type": "process",
			"messaging.destination.name": task.Queue, "messaging.message.id": task.ID, "messaging.batch.message_count": "1",
			"tidegate.order_id": id.String(), "tidegate.sale": sale.ID, "tidegate.item": "shoe",
		}},
		{"commit", "handle", trace.SpanKindInternal, true, map[string]string{"messaging.batch.message_count": "1"}},
	} {
		s, parent := chain[want.name], chain[want.parent]
		if s.Parent.SpanID() != parent.SpanContext.SpanID() || s.SpanContext.TraceID() != chain["reserve"].SpanContext.TraceID() || s.SpanKind != want.kind {
			t.Errorf("%s: parent %v, trace %v, kind %v", want.name, s.Parent.SpanID(), s.SpanContext.TraceID(), s.SpanKind)
		}
		if linked := len(s.Links) == 1 && s.Links[0].SpanContext.SpanID() == parent.SpanContext.SpanID(); linked != want.linked || len(s.Links) > 1 {
			t.Errorf("%s: links %v", want.name, s.Links)
		}
		if got := attributes(s); !maps.Equal(got, want.attributes) {
			t.Errorf("%s: %v\nwant %v", want.name, got, want.attributes)
		}
	}
}

// TestHeadersThatSayNothingBeginATrace: tasks of an older version have no headers, and headers may be damaged. Such tasks are
// committed all the same.
func TestHeadersThatSayNothingBeginATrace(t *testing.T) {
	t.Parallel()
	in := install(t)
	options, kept := traced(sdktrace.ParentBased(sdktrace.AlwaysSample()))
	p := in.start(options)
	sale := in.sale(p)
	id := in.order(p, sale.ID, "ada", "", 1).Order.ID
	payload := in.pending().Payload
	in.work(p)
	in.settled(p, id)
	eventually(t, "its own task is handled", func() bool { return len(named(kept, "handle ")) == 1 })

	kept.Reset()
	client := asynq.NewClientFromRedisClient(p.queue)
	garbage := []map[string]string{
		nil,
		{"traceparent": "garbage", "tracestate": "garbage", "baggage": "garbage"},
		{"traceparent": strings.Repeat("0", 1<<20)},
		{"traceparent": "00-" + strings.Repeat("0", 32) + "-" + strings.Repeat("0", 16) + "-01"},
		{"traceparent": "ff-" + strings.Repeat("1", 32) + "-" + strings.Repeat("1", 16) + "-01"},
	}
	for _, headers := range garbage {
		_, err := client.Enqueue(asynq.NewTaskWithHeaders("orders:commit", payload, headers), asynq.Queue(in.namespace+"-accepted-0"))
		must(t, err)
	}
	eventually(t, "all are handled", func() bool { return len(named(kept, "handle ")) == len(garbage) })
	for _, s := range named(kept, "handle ") {
		if s.Parent.IsValid() || len(s.Links) > 0 || s.Status.Code == codes.Error && attributes(s)["error.type"] != "unavailable" { // another copy is under way
			t.Errorf("%+v", s)
		}
	}
	in.verified(p, sale.ID)
}

// TestABatchIsLinkedToItsOrders: one span stands for a transaction, whatever the number of its orders; unsampled traces get
// none.
func TestABatchIsLinkedToItsOrders(t *testing.T) {
	t.Parallel()
	in := install(t)
	options, kept := traced(sdktrace.ParentBased(sdktrace.AlwaysSample()))
	p := in.start(options)
	unwanted, nothing := traced(sdktrace.ParentBased(sdktrace.NeverSample()))
	q := in.start(unwanted)
	sale := in.sale(p)
	var ids []orders.ID
	for i := range 4 {
		ids = append(ids, in.order(p, sale.ID, fmt.Sprint("user-", i), "", 1).Order.ID)
	}
	ids = append(ids, in.order(q, sale.ID, "nobody", "", 1).Order.ID)
	eventually(t, "all are queued", func() bool { return in.queued() == len(ids) })
	stop := in.work(p)
	for _, id := range ids {
		in.settled(p, id)
	}
	stop()
	linked := make(map[trace.SpanID]bool)
	batches := 0
	for _, s := range named(kept, "commit") {
		var count int
		_, err := fmt.Sscan(attributes(s)["messaging.batch.message_count"], &count)
		must(t, err)
		batches += count
		for _, l := range s.Links {
			linked[l.SpanContext.SpanID()] = true
		}
		if len(s.Links) > 0 && s.Parent.SpanID() != s.Links[0].SpanContext.SpanID() {
			t.Errorf("parent %v, links %v", s.Parent, s.Links)
		}
	}
	tasks, produced := named(kept, "handle "), make(map[trace.SpanID]bool)
	for _, s := range tasks {
		if !linked[s.SpanContext.SpanID()] {
			t.Errorf("no batch is linked to %v", s.SpanContext)
		}
		for _, l := range s.Links {
			produced[l.SpanContext.SpanID()] = true
		}
	}
	for _, s := range named(kept, "enqueue ") {
		if !produced[s.SpanContext.SpanID()] {
			t.Errorf("no task is linked to %v", s.SpanContext)
		}
	}
	if batches != len(ids) || len(linked) != len(tasks) || len(produced) != 4 || len(nothing.GetSpans()) != 0 {
		t.Errorf("%d orders in batches, %d of %d tasks linked, %d of 4 orders traced, %d spans that nobody wanted",
			batches, len(linked), len(tasks), len(produced), len(nothing.GetSpans()))
	}
}

// TestATraceOfWhatFails: a failed span has the kind of the error, and nothing of the database's message.
func TestATraceOfWhatFails(t *testing.T) {
	t.Parallel()
	in := install(t)
	options, kept := traced(sdktrace.AlwaysSample())
	p := in.start(options)
	sale := in.sale(p)
	p.store.fails("commit")
	in.order(p, sale.ID, "ada", "", 1)
	failBatch, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	if err := p.Drain(failBatch); err == nil {
		t.Error("drained")
	}
	p.store.heals()
	must(t, p.Drain(t.Context()))
	commits := named(kept, "commit")
	for i, s := range commits {
		failed := i < len(commits)-1
		if (s.Status.Code == codes.Error) != failed || (attributes(s)["error.type"] == "unavailable") != failed || s.Status.Description != "" || len(s.Events) > 0 {
			t.Errorf("%d of %d: %+v", i, len(commits), s)
		}
		if s.Parent.IsValid() || len(s.Links) > 0 {
			t.Errorf("what nobody asked for in a trace is in one: %+v", s)
		}
	}
	if len(commits) < 2 {
		t.Errorf("%d commits", len(commits))
	}
}

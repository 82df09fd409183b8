package shop_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// A blocked log has no reader: whoever writes a record with this message waits for ever.
type blocked struct {
	slog.Handler
	message string
	over    <-chan struct{}
}

func (l blocked) Enabled(context.Context, slog.Level) bool { return true }

func (l blocked) Handle(_ context.Context, r slog.Record) error {
	if r.Message == l.message {
		<-l.over
	}
	return nil
}

// records passes on the log's records as text.
type records struct {
	slog.Handler
	to chan<- string
}

func (l records) Enabled(context.Context, slog.Level) bool { return true }

func (l records) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	select {
	case l.to <- text:
	default:
	}
	return nil
}

// TestAProcessThatCannotHandOverKeepsNoSaleClosed: it is alive, and stuck. The leader names it after a while, then goes on without it, and it
// accepts nothing until it can hand over again.
func TestAProcessThatCannotHandOverKeepsNoSaleClosed(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	said := make(chan string, 10_000)
	p := in.start(func(o *shop.Options) { o.Logger = slog.New(records{slog.DiscardHandler, said}) })
	ends := make(chan struct{})
	read := sync.OnceFunc(func() { close(ends) })
	defer read()
	stuck := in.start(func(o *shop.Options) {
		o.Program = "api"
		o.Logger = slog.New(blocked{slog.DiscardHandler, "what is remembered could not be handed over yet", ends})
	})
	sale := in.sale(p)
	stuck.follows()
	stuck.store.fails("acknowledge")
	in.work(p)
	accepted := in.accept(p, sale.ID, "early", 3)
	must(t, in.rdb.FlushAll(t.Context()).Err())
	in.opened(p, sale.ID, 2)
	if err := stuck.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), string(orders.CauseLease)) {
		t.Errorf("it is ready: %v", err)
	}
	for named := false; !named; {
		select {
		case text := <-said:
			named = strings.Contains(text, "a sale waits for processes") && strings.Contains(text, "api on ") && strings.Contains(text, sale.ID)
		case <-time.After(time.Second):
			t.Fatal("the leader did not say for whom it waited")
		}
	}
	stuck.store.heals()
	read()
	eventually(t, "it is well again", func() bool { return stuck.Ready(t.Context()) == nil })
	accepted = append(accepted, in.accept(stuck, sale.ID, "late", 3)...)
	if confirmed, late := in.outcomes(p, accepted); confirmed != 6 || late != 0 {
		t.Errorf("%d confirmed and %d late of 6", confirmed, late)
	}
	in.balanced(p, sale.ID)
}

// TestClocksThatDifferAreReported, also while everything else is well.
func TestClocksThatDifferAreReported(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	reported := func() bool {
		for _, c := range p.Conditions(t.Context()) {
			if c.Cause == orders.CauseClocks {
				return c.Serves
			}
		}
		return false
	}
	eventually(t, "both clocks are read", func() bool {
		redis, database := p.ClockOffsets()
		return redis != 0 && database != 0
	})
	if reported() {
		t.Error(p.ClockOffsets())
	}
	eventually(t, "a clock that is a minute ahead is reported", func() bool {
		p.ReadClock(time.Now().Add(time.Minute)) // the next look at Redis' own clock comes within a second
		return reported()
	})
	eventually(t, "all is well again", func() bool { return !reported() })
}

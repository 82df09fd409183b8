package shop

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/asynqueue"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
	"github.com/tidegate/tidegate/redisclient"
)

func TestKeysAreTheseAndShareASlot(t *testing.T) {
	s := &core{opts: Options{Namespace: "tidegate"}}
	want := []string{
		"tidegate:{spring:shoe}:3:item",
		"tidegate:{spring:shoe}:3:returned",
		"tidegate:{spring:shoe}:3:pending",
		"tidegate:{spring:shoe}:3:outbox",
		"tidegate:{spring:shoe}:3:keys",
		"tidegate:{spring:shoe}:3:buyers",
		"tidegate:{spring:shoe}:3:holders",
		"tidegate:{spring:shoe}:3:turns",
	}
	if got := s.itemKeys("spring", "shoe", 3); !slices.Equal(got, want) {
		t.Errorf("keys %v", got)
	}
	if got := s.queueName(2); got != "tidegate-accepted-2" {
		t.Errorf("queue %s", got)
	}
}

func TestNothingACallerSendsGrowsAKey(t *testing.T) {
	sale := orders.Sale{Salt: []byte("0123456789abcdef")}
	other := orders.Sale{Salt: []byte("fedcba9876543210")}
	seen := make(map[string]string)
	for _, value := range []string{"", "u", "{}", "a:b", "a\nb", "a\x00b", "🦆", strings.Repeat("x", 10_000)} {
		for kind, hash := range map[string]string{
			"user":                 hashOf(sale.Salt, hashUser, value),
			"key":                  hashOf(sale.Salt, hashKey, value),
			"user of another sale": hashOf(other.Salt, hashUser, value),
		} {
			what := kind + " " + value
			if before, ok := seen[hash]; ok || len(hash) != 22 {
				t.Errorf("%.20q has hash %q, as has %.20q", what, hash, before)
			}
			seen[hash] = what
		}
	}
}

// newID returns an id of a test.
func newID(at time.Time, item int) orders.ID {
	return (&orders.IDKey{Key: []byte("key")}).New(at, item)
}

// A restored database may give an item's number to an item of another sale: its callers must not join those of the former one.
func TestCachedStateBelongsToTheItemsKeys(t *testing.T) {
	co := &core{opts: Options{}.withDefaults()}
	sale := func(id string, stock int) []orders.Sale {
		return []orders.Sale{{ID: id, Epoch: 1, Items: []orders.Item{{ID: "i", Number: 7, Stock: stock}}}}
	}
	names := []string{"a", "b"}
	before := newCatalog(map[string]*listing{}, map[int]*cachedItem{}).with(co, names, sale("a", 1))
	if same := before.with(co, names, sale("a", 2)); same.byNumber[7].itemState != before.byNumber[7].itemState {
		t.Error("a new definition of an item loses its state")
	}
	if other := before.with(co, names, sale("b", 1)); other.byNumber[7].itemState == before.byNumber[7].itemState {
		t.Error("an item of another sale has the state of the former owner of its number")
	}
}

func TestNewsWakeThoseWhoWait(t *testing.T) {
	s := &notifier{ledger: ledger.New(1), waiters: newWaiters(), sales: &catalogWatch{}}
	s.sales.catalog.Store(&catalog{})
	id, other := newID(time.UnixMilli(1), 1), newID(time.UnixMilli(2), 1)
	mine, done := s.waiters.wait(id)
	defer done()
	others, doneToo := s.waiters.wait(other)
	defer doneToo()
	s.receive(notification{Orders: []change{{ID: id, Status: orders.StatusConfirmed}}})
	select {
	case <-mine:
	default:
		t.Error("nobody told who waits for the order")
	}
	select {
	case <-others:
		t.Error("who waits for another order was woken")
	default:
	}
}

// A task whose reply is lost is sent again under the same id, and is in the queue once.
func TestALostReplyOfTheQueueIsNoFailure(t *testing.T) {
	t.Parallel()
	rdb, err := redisclient.Open(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	lossy := &lossyOnce{}
	rdb.Queue().AddHook(lossy)
	var log bytes.Buffer
	s, err := newService(rdb, nil, asynqueue.New(rdb), Options{Namespace: "lossy" + rand.Text(), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	s.enqueuer.enqueueTask(t.Context(), []offered{{r: orders.Reservation{ID: newID(time.Now(), 1), Sale: "s", Item: "i", Quantity: 1}}})
	tasks, err := asynq.NewInspectorFromRedisClient(rdb.Queue()).ListPendingTasks(s.core.queueName(0))
	if err != nil || len(tasks) != 1 || !lossy.lost.Load() {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
	if strings.Contains(log.String(), "left to the sweeper") {
		t.Error(log.String())
	}
}

// lossyOnce drops the reply of the first script.
type lossyOnce struct{ lost atomic.Bool }

func (*lossyOnce) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*lossyOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lossyOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && strings.HasPrefix(cmd.Name(), "eval") && l.lost.CompareAndSwap(false, true) {
			err = context.DeadlineExceeded
			cmd.SetErr(err)
		}
		return err
	}
}

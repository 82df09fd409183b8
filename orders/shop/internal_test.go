package shop

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/asynqueue"
	"github.com/tidegate/tidegate/orders/shop/internal/queue"
	"github.com/tidegate/tidegate/redisclient"
)

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
	s.enqueuer.EnqueueTask(t.Context(), []queue.Offered{{R: orders.Reservation{ID: (&orders.IDKey{Key: []byte("key")}).New(time.Now(), 1), Sale: "s", Item: "i", Quantity: 1}}})
	tasks, err := asynq.NewInspectorFromRedisClient(rdb.Queue()).ListPendingTasks(s.core.QueueName(0))
	if err != nil || len(tasks) != 1 || !lossy.lost.Load() {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
	if strings.Contains(log.String(), "left to the sweeper") {
		t.Error(log.String())
	}
}

// lossyOnce drops the reply of the first script and of what is sent with it.
type lossyOnce struct{ lost atomic.Bool }

func (*lossyOnce) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lossyOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err == nil && strings.HasPrefix(cmds[0].Name(), "eval") && l.lost.CompareAndSwap(false, true) {
			err = context.DeadlineExceeded
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func (*lossyOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

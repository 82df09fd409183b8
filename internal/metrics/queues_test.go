package metrics_test

import (
	"crypto/rand"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// What Asynq itself has put somewhere is counted there, also when Redis forgot which queues there are.
func TestQueues(t *testing.T) {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	prefix := strings.ToLower(rand.Text()[:10]) + "-"
	client := asynq.NewClientFromRedisClient(rdb)
	for _, opt := range []asynq.Option{asynq.MaxRetry(1), asynq.MaxRetry(1), asynq.ProcessIn(time.Hour)} {
		if _, err := client.EnqueueContext(t.Context(), asynq.NewTask("t", nil), asynq.Queue(prefix+"one"), opt); err != nil {
			t.Fatal(err)
		}
	}
	inspector := asynq.NewInspectorFromRedisClient(rdb)
	tasks, err := inspector.ListPendingTasks(prefix + "one")
	if err != nil || len(tasks) != 2 {
		t.Fatal(tasks, err)
	}
	if err := inspector.ArchiveTask(prefix+"one", tasks[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := rdb.SRem(t.Context(), "asynq:queues", prefix+"one").Err(); err != nil {
		t.Fatal(err)
	}

	if err := rdb.LPush(t.Context(), "asynq:{"+prefix+"two}:pending", "taken meanwhile").Err(); err != nil {
		t.Fatal(err)
	}

	m := metrics.New("test")
	m.Queues(rdb, prefix, []string{prefix + "one", prefix + "two"})
	got := scrape(t, m)
	if oldest := `tidegate_queue_oldest_pending_seconds{queue="one"}`; got[oldest] == "0" || got[oldest] == "" || strings.Contains(got[oldest], "e+") {
		t.Errorf("oldest: %q", got[oldest])
	}
	maps.DeleteFunc(got, func(name, value string) bool { return value == "0" || !strings.Contains(name, "queue_tasks") })
	want := map[string]string{
		`tidegate_queue_tasks{queue="one",state="pending"}`: "1", `tidegate_queue_tasks{queue="one",state="archived"}`: "1",
		`tidegate_queue_tasks{queue="one",state="scheduled"}`: "1", `tidegate_queue_tasks{queue="two",state="pending"}`: "1",
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}

	unknown := func(when string, names ...string) {
		t.Helper()
		m := metrics.New("test")
		m.Queues(rdb, prefix, names)
		for name := range scrape(t, m) {
			if strings.Contains(name, "queue") {
				t.Errorf("%s while %s", name, when)
			}
		}
	}
	if err := rdb.Set(t.Context(), "asynq:{"+prefix+"odd}:retry", "no set", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	unknown("one of them cannot be counted", prefix+"empty", prefix+"odd")
	_ = rdb.Close()
	unknown("nobody knows it", prefix+"one")
}

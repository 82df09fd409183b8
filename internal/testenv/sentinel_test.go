package testenv

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestSentinelFailover(t *testing.T) {
	s := StartSentinel(t)
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Master, SentinelAddrs: s.Sentinels})
	defer rdb.Close()
	if err := rdb.Set(t.Context(), "early", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	old := s.Addr()
	written := make(chan error)
	go func() {
		late := redisClient(old)
		defer late.Close()
		replicas := func() int64 { n, _ := late.Do(t.Context(), "WAIT", 1, 250).Int64(); return n }
		for replicas() > 0 { // until the replica is cut off
			late.Incr(t.Context(), "seen")
		}
		written <- late.Set(t.Context(), "late", 1, 0).Err()
	}()
	failed := make(chan struct{})
	go func() { defer close(failed); s.FailOver(500 * time.Millisecond) }()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	<-failed
	if s.Addr() == old {
		t.Fatal("the master is the one that was killed")
	}
	after := redisClient(s.Addr())
	defer after.Close()
	if n := after.Exists(t.Context(), "early").Val(); n != 1 {
		t.Error("the replica has not what it was told long ago")
	}
	if n := after.Exists(t.Context(), "late").Val(); n != 0 {
		t.Error("the replica has what it was never told")
	}
}

func TestRedisGoesBackInTime(t *testing.T) {
	r := StartRedis(t)
	set := func(key string) {
		t.Helper()
		if err := client(t, r.URL()).Set(t.Context(), key, 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(want int64) {
		t.Helper()
		if n, err := client(t, r.URL()).Exists(t.Context(), "a", "b", "c").Result(); err != nil || n != want {
			t.Errorf("%d keys, %v; want %d", n, err, want)
		}
	}
	set("a")
	snapshot := r.Snapshot()
	set("b")
	size := r.Written()
	set("c")
	r.Kill()
	r.Restart()
	holds(3)
	r.Kill()
	r.Truncate(size)
	r.Restart()
	holds(2)
	r.RestartFrom(snapshot)
	holds(1)
	set("c")
	r.Restart()
	holds(2)
}

package semaphore

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
)

// Tags that callers make up are forgotten.
func TestUnusedShardsAreFreed(t *testing.T) {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	set, err := NewSet(rdb, SetOptions{Namespace: "shards"})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = set.Run(t.Context()) }()
	kept, err := set.Semaphore("kept:x")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		s, err := set.Semaphore(fmt.Sprintf("t%d:x", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.TryAcquire(t.Context()); err == nil {
			t.Fatal("an unknown semaphore")
		}
	}
	for left := 0; left != 1; { // it hangs where they are kept
		runtime.GC()
		set.mu.Lock()
		left = len(set.shards)
		set.mu.Unlock()
	}
	if again, err := set.Semaphore("kept:y"); err != nil || again.shard != kept.shard {
		t.Errorf("another shard for the same tag: %v", err)
	}
}

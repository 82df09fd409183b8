package rehearseroom_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
)

// stored returns how many keys a Redis has, and how many bytes they take.
func stored(t *testing.T, rdb *redis.Client) (keys, bytes int64) {
	t.Helper()
	all := rdb.Scan(t.Context(), 0, "", 1000).Iterator()
	for all.Next(t.Context()) {
		n, err := rdb.MemoryUsage(t.Context(), all.Val(), 0).Result()
		if err != nil && !errors.Is(err, redis.Nil) { // it has expired
			t.Fatal(err)
		}
		keys, bytes = keys+1, bytes+n
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return keys, bytes
}

// W34: a thousand places in the room of a sale, joined and read again, leave nothing in Redis.
func TestPlacesCostRedisNothing(t *testing.T) {
	t.Parallel()
	h := prepare(t)
	server := testenv.StartRedis(t)
	h.env["REDIS_URL"] = server.URL()
	h.startAPI()
	h.startWorker()
	h.sell(1, 1, 0)
	h.room(`"sale":"gala","item":"ticket"`)
	h.join("first")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	keys, bytes := stored(t, rdb)
	const places = 1000
	var crowd sync.WaitGroup
	for worker := range 50 {
		crowd.Go(func() {
			for i := worker; i < places; i += 50 {
				user := fmt.Sprint("user-", i)
				if a := h.as(user, 0, "POST", place, ""); a.Status != http.StatusCreated {
					t.Errorf("%s: %v", user, a)
				}
				h.as(user, 0, "GET", place, "")
			}
		})
	}
	crowd.Wait()
	if p := h.look("user-0"); p.Number < 2 {
		t.Errorf("%+v", p)
	}
	nowKeys, nowBytes := stored(t, rdb)
	if nowKeys > keys+20 || nowBytes > bytes+3*places { // other parts of the programs note the time and who is alive, some for the first time
		t.Errorf("%d keys of %d bytes before %d places, %d keys of %d bytes after them", keys, bytes, places, nowKeys, nowBytes)
	}
}

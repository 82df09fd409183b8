package semaphore_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

// A Redis user that may not read the run id would never notice a restart: it gets an error, and nothing is granted.
func TestUserWithoutInfo(t *testing.T) {
	opts, err := redis.ParseURL(testenv.StartRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(opts)
	defer admin.Close()
	for _, allowed := range []bool{false, true} {
		rule := "-info"
		if allowed {
			rule = "+info"
		}
		if err := admin.Do(t.Context(), "ACL", "SETUSER", "shop", "on", ">secret", "~*", "&*", "+@all", "-@dangerous", rule).Err(); err != nil {
			t.Fatal(err)
		}
		as := *opts
		as.Username, as.Password = "shop", "secret"
		rdb := redis.NewClient(&as)
		defer rdb.Close()
		sem, err := semaphore.New(rdb, "report", semaphore.Options{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		running(t, sem)
		p, _, err := sem.TryAcquire(t.Context())
		if allowed != (err == nil) || !allowed && !strings.Contains(err.Error(), "+info") {
			t.Errorf("allowed %t: %v", allowed, err)
		}
		if p != nil {
			release(t, p)
		}
	}
}

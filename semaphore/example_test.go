package semaphore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/semaphore"
)

// Two reports may be built at once. The third caller does not wait for its permit.
func Example() {
	server, err := miniredis.Run() // in production, Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	sem, err := semaphore.New(rdb, "report", semaphore.Options{Limit: 2})
	if err != nil {
		panic(err)
	}
	defer sem.Close()
	ctx := context.Background()
	var last int64
	for range 2 {
		permit, err := sem.Acquire(ctx)
		if err != nil {
			panic(err)
		}
		defer permit.Release() //nolint:errcheck // the lease ends if it fails
		fmt.Println("acquired, token grows:", permit.Token() > last)
		last = permit.Token()
	}
	_, err = sem.AcquireWith(ctx, semaphore.Request{Try: true})
	fmt.Println("at capacity:", errors.Is(err, semaphore.ErrAtCapacity))
	// Output:
	// acquired, token grows: true
	// acquired, token grows: true
	// at capacity: true
}

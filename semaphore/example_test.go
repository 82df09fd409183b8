package semaphore_test

import (
	"context"
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
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go sem.Run(ctx) //nolint:errcheck // it returns nil when ctx ends
	var last int64
	for range 2 {
		permit, _, err := sem.Acquire(ctx)
		if err != nil {
			panic(err)
		}
		defer permit.Release() //nolint:errcheck // the lease ends if it fails
		fmt.Println("acquired, token grows:", permit.Token() > last)
		last = permit.Token()
	}
	_, full, err := sem.TryAcquire(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("refused, at position:", full.Position)
	// Output:
	// acquired, token grows: true
	// acquired, token grows: true
	// refused, at position: 1
}

package admission_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/redisclient"
)

func ExampleGate_Charge() {
	rules, err := admission.ParseRules("rules.yaml", []byte(`
version: 1
rules:
  - name: orders
    match: {route: "/v1/sales/*/orders", method: POST}
    subject: [caller]
    limit: {registered: 2, anonymous: 1}
    window: 1m
`))
	if err != nil {
		panic(err)
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	store := admission.NewMemoryStore(admission.MemoryOptions{Now: func() time.Time { return now }})
	gate, err := admission.New(store, rules, admission.Options{Secret: []byte("16 random bytes or more")})
	if err != nil {
		panic(err)
	}
	req := admission.Request{
		User: "ann", IP: netip.MustParseAddr("192.0.2.1"),
		Route: "/v1/sales/spring/orders", Method: "POST",
	}
	for range 3 {
		d, err := gate.Charge(context.Background(), req)
		if err != nil {
			panic(err) // no decision; never "no"
		}
		fmt.Println(d.Action, d.Reason, d.Remaining, "of", d.Limit, "left, again in", d.RetryAfter)
		now = now.Add(10 * time.Second)
	}
	// Output:
	// allow  1 of 2 left, again in 0s
	// allow  0 of 2 left, again in 0s
	// deny rate_limited 0 of 2 left, again in 40s
}

func ExampleParseRules() {
	_, err := admission.ParseRules("rules.yaml", []byte(`version: 1
rules:
  - name: orders
    subject: [caller]
    limit: 10
    window: 1 minute
`))
	fmt.Println(err)
	// Output:
	// admission: parse rules: rules.yaml:6:13: window should be a duration of whole milliseconds from 1ms to 8784h, such as 10s, 1m or 24h, or minute, hour, day or month, here is "1 minute"
}

// A gate over Redis, or over a Redis Cluster if the URL has several addresses.
func ExampleNewRedisStore() {
	opts, err := redisclient.ParseURL("redis://localhost:6379")
	if err != nil {
		panic(err)
	}
	rdb := redis.NewUniversalClient(opts)
	defer rdb.Close()

	shared, err := redisclient.AutoPipeline(rdb) // concurrent requests share round trips
	if err != nil {
		panic(err)
	}
	gate, err := admission.New(admission.NewRedisStore(shared), admission.DefaultRules(), admission.Options{
		Secret: []byte("the same in every process"),
	})
	if err != nil {
		panic(err)
	}
	_ = gate
}

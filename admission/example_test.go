package admission_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

func ExampleGate_Charge() {
	set, err := rules.Parse("rules.yaml", []byte(`
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
	store := memorystore.New(memorystore.Options{Now: func() time.Time { return now }})
	gate, err := admission.NewWithStore(store, set, admission.Options{Secret: []byte("16 random bytes or more")})
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

func Example_wrongRules() {
	_, err := rules.Parse("rules.yaml", []byte(`version: 1
rules:
  - name: orders
    subject: [caller]
    limit: 10
    window: 1 minute
`))
	fmt.Println(err)
	// Output:
	// rules: parse: rules.yaml:6:13: window should be a duration of whole milliseconds from 1ms to 8784h, such as 10s, 1m or 24h, or minute, hour, day or month, here is "1 minute"
}

// A program that limits each user to 100 requests in a minute, with counts in Redis.
func Example() {
	if err := serve(context.Background(), "redis://localhost:6379", []byte("the same in every process")); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, url string, key []byte) error {
	rdb, err := redisclient.Open(url)
	if err != nil {
		return err
	}
	defer rdb.Close()
	rules := admission.Rules(rules.Rule{Name: "api", Subject: rules.User, Limit: 100, Window: time.Minute})
	gate, err := admission.New(rdb, rules, admission.Options{Secret: key, Timeout: time.Second})
	if err != nil {
		return err
	}
	d, err := gate.Charge(ctx, admission.Request{User: "ann", Route: "/buy"})
	if err != nil {
		return err // no decision; never "no"
	}
	fmt.Println(d.Action, d.Remaining, "of", d.Limit, "left")
	if d.Degraded || !d.Admitted || d.Remaining != 99 {
		return fmt.Errorf("unexpected decision %+v", d)
	}
	return gate.Refund(ctx, d)
}

// TestExample runs the example with a real server.
func TestExample(t *testing.T) {
	if err := serve(t.Context(), testenv.StartRedis(t).URL(), secret); err != nil {
		t.Fatal(err)
	}
}

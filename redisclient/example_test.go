package redisclient_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/redisclient"
)

// A gate whose concurrent requests share round trips. Several addresses separated by commas select a Redis Cluster.
func ExampleOpen() {
	server, err := miniredis.Run() // in production, Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb, err := redisclient.Open("redis://" + server.Addr())
	if err != nil {
		panic(err)
	}
	defer rdb.Close()

	gate, err := admission.NewWithStore(redisstore.New(rdb.Batched), rules.Default(), admission.Options{
		Secret: []byte("the same in every process"),
	})
	if err != nil {
		panic(err)
	}
	d, err := gate.Charge(context.Background(), admission.Request{User: "ann", Route: "/v1/sales/s/orders", Method: "POST"})
	fmt.Println(d.Admitted, err)
	// Output: true <nil>
}

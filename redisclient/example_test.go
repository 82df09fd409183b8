package redisclient_test

import (
	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/redisclient"
)

// A gate whose concurrent requests share round trips. Several addresses separated by commas select a Redis Cluster.
func ExampleOpen() {
	rdb, err := redisclient.Open("redis://localhost:6379")
	if err != nil {
		panic(err)
	}
	defer rdb.Close()

	gate, err := admission.New(admission.NewRedisStore(rdb.Batched), admission.DefaultRules(), admission.Options{
		Secret: []byte("the same in every process"),
	})
	if err != nil {
		panic(err)
	}
	_ = gate
}

package bans_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/tidegate/tidegate/bans"
)

// An operator bans a network, and an address in it is excluded.
func Example() {
	list := bans.NewList(bans.NewMemoryStore(nil), bans.Options{})
	ban, err := list.Ban(context.Background(), bans.Order{
		Target: bans.Target{Kind: bans.Network, Value: "203.0.113.77/24"}, Reason: "scalpers", For: time.Hour,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(ban.Kind, ban.Value)
	found, _ := list.Find("ann", "", netip.MustParseAddr("203.0.113.9"))
	fmt.Println(found.Reason)
	// Output:
	// network 203.0.113.0/24
	// scalpers
}

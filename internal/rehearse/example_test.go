package rehearse_test

import (
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/rehearse"
)

// ExampleJudge judges a history from any source: here a buyer got a 202, and the order is missing.
func ExampleJudge() {
	opens := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	history := &rehearse.History{
		Head: rehearse.Head{Prefix: "crowd-", Planned: 1},
		Calls: []rehearse.Call{{
			Attempt: 1, Buyer: "crowd-1", Item: "shoe", Quantity: 1, Key: "k", Outcome: rehearse.Admitted, Status: 202, OrderID: "42",
		}},
	}
	sale := rehearse.Sale{StartsAt: opens, EndsAt: opens.Add(time.Hour), Items: []rehearse.Item{{Item: "shoe", Stock: 10}}}
	for _, f := range rehearse.Judge(history, rehearse.Evidence{Orders: []rehearse.Order{}, Sale: sale}) {
		if f.Verdict == rehearse.Breach {
			fmt.Println(f.Invariant, f.Examples[0])
		}
	}
	// Output: I1 order 42 of crowd-1 (key k) was answered 202 but is not listed
}

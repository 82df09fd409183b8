package judge_test

import (
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
)

// ExampleFindings judges a history from any source: here a buyer got a 202, and the order is missing.
func ExampleFindings() {
	opens := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	history := &judge.History{
		Head: judge.Head{Prefix: "crowd-", Planned: 1},
		Calls: []judge.Call{{
			Attempt: 1, Buyer: "crowd-1", Item: "shoe", Quantity: 1, Key: "k", Outcome: judge.Admitted, Status: 202, OrderID: "42",
		}},
	}
	sale := judge.Sale{StartsAt: opens, EndsAt: opens.Add(time.Hour), Items: []judge.Item{{Item: "shoe", Stock: 10}}}
	for _, f := range judge.Findings(history, judge.Evidence{Orders: []judge.Order{}, Sale: sale}) {
		if f.Verdict == judge.Breach {
			fmt.Println(f.Invariant, f.Examples[0])
		}
	}
	// Output: I1 order 42 of crowd-1 (key k) was answered 202 but is not listed
}

package rules_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
)

// Typed rules are the same as those of a file, which Source returns.
func ExampleOf() {
	set := rules.Of(
		rules.Rule{
			Name: "block-bots", Algorithm: rules.Direct, Action: rules.Deny,
			Match: rules.Match{"route": rules.In("/v1/**"), "device": rules.Not(rules.Present())},
		},
		rules.Rule{
			Name: "orders", Subject: rules.User, Algorithm: store.GCRA, Limit: 60, Window: time.Minute, Burst: 5,
			OnExceed: rules.Exceed{Action: rules.Ban, After: 100, For: time.Hour},
		},
	)
	if err := set.Err(); err != nil {
		fmt.Println(err)
	}
	fmt.Print(string(set.Source()))
	// Output:
	// version: 1
	// rules:
	// - name: block-bots
	//   match: {device: {not: {present: true}}, route: ["/v1/**"]}
	//   action: deny
	//   algorithm: direct
	// - name: orders
	//   subject: [user]
	//   limit: 60
	//   window: 1m0s
	//   algorithm: gcra
	//   burst: 5
	//   on_exceed: {action: ban, after: 100, for: 1h0m0s}
}

// An error has the name of the rule, and says what would be right.
func ExampleSet_Err() {
	set := rules.Of(rules.Rule{
		Name: "api", Subject: rules.User,
		Windows: []rules.Window{{Limit: 10, Window: time.Second}, {Limit: 100, Calendar: rules.Day, Algorithm: store.GCRA}},
	})
	fmt.Println(set.Err())
	// Output:
	// rules: rule "api", Windows[1]: a window of the calendar is for algorithm: fixed_window; gcra needs a duration such as 24h
}

// The same of a file has its line and column.
func ExampleParse() {
	_, err := rules.Parse("rules.yaml", []byte(`version: 1
rules:
  - {name: api, subject: user, limit: 100, window: 1 minute}
`))
	fmt.Println(err)
	var wrong *rules.Error
	if errors.As(err, &wrong) {
		fmt.Println("line", wrong.Line)
	}
	// Output:
	// rules: parse: rules.yaml:3:52: window should be a duration of whole milliseconds from 1ms to 8784h, such as 10s, 1m or 24h, or minute, hour, day or month, here is "1 minute"
	// line 3
}

// A linter finds rules that are valid and probably not meant.
func ExampleLint() {
	set := rules.Of(
		rules.Rule{Name: "all", Algorithm: rules.Direct, Action: rules.Allow},
		rules.Rule{Name: "api", Subject: rules.Caller, Limit: 100, Window: time.Minute},
	)
	for _, w := range rules.Lint(set, rules.Server{TrustedProxies: true}) {
		fmt.Printf("%s: %s\n", w.Rule, w.Text)
	}
	// Output:
	// api: it never decides: rule all before it decides every request (allow). Move it up, or give all a match
}

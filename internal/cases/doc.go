// Package cases runs the test cases of a rules file: it decides requests by the rules and compares the decisions with the expected ones. It
// needs no server and does not wait, because each case has its own counters and clock.
//
//	cases:
//	  - name: a guest searches 20 times a minute
//	    request: {ip: 192.0.2.1, route: /search}
//	    times: 20
//	    expect: allow
//	    then:
//	      - expect: {action: deny, rule: search, retry_after: 1m}
//	      - {wait: 1m, expect: allow}
//
// A step without a request repeats that of the step before. A ban applies at once after the refusal that caused it; a server takes up to a
// second longer.
package cases

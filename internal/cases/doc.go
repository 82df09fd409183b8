// Package cases tries requests against rules and compares what comes of them with what a file expects, without a server and without waiting: each
// case has counters and a clock of its own.
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
// A step without a request repeats that of the step before. A ban is there with the refusal that it follows; a server takes up to a second longer.
package cases

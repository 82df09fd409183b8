package cases

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/bounded"
)

// A Case is a row of requests and what is expected of them.
type Case struct {
	Name  string
	Line  int // of the file, from 1
	at    time.Time
	steps []step
}

// A step is one request, sent some times in one moment.
type step struct {
	line    int
	wait    time.Duration // before it
	request admission.Request
	times   int
	expect  expectation
}

// An expectation is what a decision must be. What is nil is not looked at.
type expectation struct {
	action     string // of an rules.Action, or invalid; empty: any
	rule       *string
	reason     *string
	remaining  *int
	retryAfter *time.Duration
}

// invalid is expected of a request that cannot be decided.
const invalid = "invalid"

// beginning is when a case begins that does not say: always the same, so that windows of the calendar end when they ended before.
var beginning = time.Date(2026, time.January, 5, 12, 0, 0, 0, time.UTC)

// Bounds of a file.
const (
	maxFile  = 1 << 20
	maxTimes = 100_000
)

// Load reads a file of cases. An error names the place in the file, and what would be right.
func Load(path string) ([]Case, error) {
	src, err := bounded.File(path, maxFile)
	if err != nil {
		return nil, err
	}
	return Parse(path, src)
}

// Parse reads the content of a file.
func Parse(file string, src []byte) ([]Case, error) {
	r := reader{file}
	root, err := r.root(src)
	if err != nil {
		return nil, err
	}
	top, err := r.mapping(root, "the file", "cases")
	if err != nil {
		return nil, err
	}
	list, ok := top["cases"].(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return nil, r.wrong(root, `should have "cases:" with a list of them`)
	}
	cases := make([]Case, len(list.Values))
	for i, n := range list.Values {
		if cases[i], err = r.read(n); err != nil {
			return nil, err
		}
	}
	return cases, nil
}

// parts are those of a request that are no attributes.
var parts = []string{"user", "ip", "device", "session", "route", "method", "tier", "caller", "network"}

// read reads one case.
func (r *reader) read(n ast.Node) (c Case, err error) {
	fields, err := r.mapping(n, "a case", "name", "at", "request", "times", "expect", "then")
	if err != nil {
		return c, err
	}
	c.Line, c.at = line(n), beginning
	if c.Name, err = r.text(fields["name"]); err != nil {
		return c, err
	}
	if c.Name == "" {
		c.Name = fmt.Sprintf("of line %d", c.Line)
	}
	if at := fields["at"]; at != nil {
		text, err := r.text(at)
		if err != nil {
			return c, err
		}
		if c.at, err = time.Parse(time.RFC3339, text); err != nil {
			return c, r.wrong(at, "at is %q, should be a time such as 2026-03-01T23:59:00+01:00", text)
		}
	}
	if fields["request"] == nil {
		return c, r.wrong(n, "the case has no request")
	}
	first, err := r.step(n, fields, admission.Request{})
	if err != nil {
		return c, err
	}
	c.steps = []step{first}
	if fields["then"] == nil {
		return c, nil
	}
	then, ok := fields["then"].(*ast.SequenceNode)
	if !ok {
		return c, r.wrong(fields["then"], "then should be a list of steps, such as [{wait: 1m, expect: allow}]")
	}
	for _, n := range then.Values {
		fields, err := r.mapping(n, "a step", "wait", "request", "times", "expect")
		if err != nil {
			return c, err
		}
		s, err := r.step(n, fields, c.steps[len(c.steps)-1].request)
		if err != nil {
			return c, err
		}
		c.steps = append(c.steps, s)
	}
	return c, nil
}

func (r *reader) step(n ast.Node, fields map[string]ast.Node, before admission.Request) (s step, err error) {
	s = step{line: line(n), request: before, times: 1}
	if at := fields["wait"]; at != nil {
		if s.wait, err = r.duration(at, "wait"); err != nil {
			return s, err
		}
	}
	if at := fields["request"]; at != nil {
		if s.request, err = r.request(at); err != nil {
			return s, err
		}
	}
	if at := fields["times"]; at != nil {
		if s.times, err = r.number(at, "times", 1, maxTimes); err != nil {
			return s, err
		}
	}
	if fields["expect"] == nil {
		return s, r.wrong(n, "expect is missing, should be allow, deny, challenge, ban or invalid, or a map such as {action: deny, rule: search}")
	}
	s.expect, err = r.expectation(fields["expect"])
	return s, err
}

func (r *reader) request(n ast.Node) (req admission.Request, err error) {
	fields, err := r.mapping(n, "a request", "user", "ip", "device", "session", "route", "method", "tier", "cost", "solved", "attributes")
	if err != nil {
		return req, err
	}
	for name, to := range map[string]*string{
		"user": &req.User, "device": &req.Device, "session": &req.Session, "route": &req.Route, "method": &req.Method, "tier": &req.Tier,
	} {
		if *to, err = r.text(fields[name]); err != nil {
			return req, err
		}
	}
	if at := fields["ip"]; at != nil {
		text, err := r.text(at)
		if err != nil {
			return req, err
		}
		if req.IP, err = netip.ParseAddr(text); err != nil {
			return req, r.wrong(at, "ip is %q, should be an address such as 192.0.2.1", text)
		}
	}
	if at := fields["cost"]; at != nil {
		if req.Cost, err = r.number(at, "cost", 1, rules.MaxCost); err != nil {
			return req, err
		}
	}
	if at := fields["solved"]; at != nil {
		solved, ok := at.(*ast.BoolNode)
		if !ok {
			return req, r.wrong(at, "solved should be true or false")
		}
		req.Solved = solved.Value
	}
	if at := fields["attributes"]; at != nil {
		attributes, err := r.mapping(at, "attributes")
		if err != nil {
			return req, err
		}
		req.Attributes = make(map[string]string, len(attributes))
		for name, value := range attributes {
			if slices.Contains(parts, name) {
				return req, r.wrong(value, "%s is no attribute, it stands beside attributes or is found out from what does", name)
			}
			if req.Attributes[name], err = r.text(value); err != nil {
				return req, err
			}
		}
	}
	return req, nil
}

func (r *reader) expectation(n ast.Node) (e expectation, err error) {
	if _, ok := n.(ast.MapNode); !ok {
		e.action, err = r.action(n)
		return e, err
	}
	fields, err := r.mapping(n, "expect", "action", "rule", "reason", "remaining", "retry_after")
	if err != nil {
		return e, err
	}
	if len(fields) == 0 {
		return e, r.wrong(n, "expect is empty, should have action, rule, reason, remaining or retry_after")
	}
	if at := fields["action"]; at != nil {
		if e.action, err = r.action(at); err != nil {
			return e, err
		}
	}
	for name, to := range map[string]**string{"rule": &e.rule, "reason": &e.reason} {
		if at := fields[name]; at != nil {
			text, err := r.text(at)
			if err != nil {
				return e, err
			}
			*to = &text
		}
	}
	if at := fields["remaining"]; at != nil {
		left, err := r.number(at, "remaining", 0, store.MaxLimit)
		if err != nil {
			return e, err
		}
		e.remaining = &left
	}
	if at := fields["retry_after"]; at != nil {
		wait, err := r.duration(at, "retry_after")
		if err != nil {
			return e, err
		}
		e.retryAfter = &wait
	}
	return e, nil
}

func (r *reader) action(n ast.Node) (string, error) {
	text, err := r.text(n)
	if err != nil {
		return "", err
	}
	switch text {
	case string(rules.Allow), string(rules.Deny), string(rules.Challenge), string(rules.Ban), invalid:
		return text, nil
	}
	return "", r.wrong(n, "the action is %q, should be allow, deny, challenge, ban or invalid", text)
}

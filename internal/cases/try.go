package cases

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

// A Failure is what came of a request instead of what was expected.
type Failure struct {
	Line int // of the step
	Text string
}

// Try sends the requests of a case to rules that have counted nothing yet. Nil: all was as expected. An error means that they
// could not be sent.
func (c *Case) Try(ctx context.Context, rules *rules.Set) (*Failure, error) {
	now := c.at
	clock := func() time.Time { return now }
	gate, err := admission.NewWithStore(memorystore.New(memorystore.Options{Now: clock}), rules, admission.Options{
		Secret: []byte("of counters that only a test uses"), Now: clock,
		Timeout:   time.Minute, // of a real clock, and nothing here waits
		DenyCache: -1,          // or who waits would be refused by the real one
	})
	if err != nil {
		return nil, err
	}
	for _, s := range c.steps {
		now = now.Add(s.wait)
		for i := range s.times {
			d, err := gate.Charge(ctx, s.request)
			if err != nil && !errors.Is(err, admission.ErrInvalidRequest) {
				return nil, err
			}
			if differs := s.expect.differs(&d, err); differs {
				text := fmt.Sprintf("got %s, expected %s", describe(&d, err), s.expect.describe())
				if s.times > 1 {
					text = fmt.Sprintf("request %d of %d: %s", i+1, s.times, text)
				}
				return &Failure{Line: s.line, Text: text}, nil
			}
		}
	}
	return nil, nil
}

func (e *expectation) differs(d *admission.Decision, err error) bool {
	if err != nil {
		return e.action != invalid
	}
	return e.action != "" && e.action != string(d.Action) || e.rule != nil && *e.rule != d.Rule || e.reason != nil &&
		*e.reason != string(d.Reason) ||
		e.remaining != nil && *e.remaining != d.Remaining || e.retryAfter != nil && *e.retryAfter != d.RetryAfter
}

func (e *expectation) describe() string {
	parts := []string{}
	add := func(name string, value any) { parts = append(parts, fmt.Sprintf("%s %v", name, value)) }
	if e.action != "" {
		parts = append(parts, e.action)
	}
	if e.rule != nil {
		add("rule", *e.rule)
	}
	if e.reason != nil {
		add("reason", *e.reason)
	}
	if e.remaining != nil {
		add("remaining", *e.remaining)
	}
	if e.retryAfter != nil {
		add("retry after", *e.retryAfter)
	}
	return strings.Join(parts, ", ")
}

// describe states the result of a request, in the words of expectations.
func describe(d *admission.Decision, err error) string {
	if err != nil {
		return fmt.Sprintf("%s (%v)", invalid, err)
	}
	parts := []string{string(d.Action)}
	add := func(name string, value any) { parts = append(parts, fmt.Sprintf("%s %v", name, value)) }
	if d.Rule != "" {
		add("rule", d.Rule)
	}
	if d.Reason != "" {
		add("reason", d.Reason)
	}
	if d.Remaining != rules.Unlimited {
		add("remaining", d.Remaining)
	}
	if d.RetryAfter > 0 {
		add("retry after", d.RetryAfter)
	}
	return strings.Join(parts, ", ")
}

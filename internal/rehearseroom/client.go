package rehearseroom

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

// place is what the crowd reads of a place, an order or a problem.
type place struct {
	State       string    `json:"state"`
	Number      int64     `json:"number"`
	Position    int64     `json:"position"`
	Ahead       int64     `json:"ahead"`
	Outlook     string    `json:"outlook"`
	PollAfterMS int64     `json:"poll_after_ms"`
	TurnUntil   time.Time `json:"turn_until"`
	Token       string    `json:"token"`
	Receipt     string    `json:"receipt"`
	OrderID     string    `json:"order_id"`
	Reason      string    `json:"reason"`
}

// caller calls one listener.
type caller struct {
	client *http.Client
	base   string
	token  string
}

// call sends a request and decodes the answer. It repeats what got no answer, or 429 or 503, until ctx ends.
func (c *caller) call(ctx context.Context, method, path string, header map[string]string, body, into any) (status int, err error) {
	for {
		var wait time.Duration
		status, wait, err = c.once(ctx, method, path, header, body, into)
		if err == nil && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
			return status, nil
		}
		if !periodic.Pause(ctx, max(wait, 100*time.Millisecond)) {
			if err == nil {
				err = context.Cause(ctx)
			}
			return status, fmt.Errorf("rehearse: %s %s: status %d: %w", method, path, status, err)
		}
	}
}

// change is a call by an operator. The error names a refusal.
func (c *caller) change(ctx context.Context, method, path string, body any) error {
	var problem struct {
		Title, Detail string
	}
	status, err := c.call(ctx, method, path, nil, body, &problem)
	if err == nil && status >= 300 {
		err = fmt.Errorf("rehearse: %s %s: status %d: %s %s", method, path, status, problem.Title, problem.Detail)
	}
	return err
}

// hangUp sends a request and closes the connection without reading the answer.
func (c *caller) hangUp(ctx context.Context, method, path string, header map[string]string, body any) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }})
	_, _, _ = c.once(ctx, method, path, header, body, nil) // whatever came of it, the caller does not know
}

func (c *caller) once(ctx context.Context, method, path string, header map[string]string, body, into any) (status int, wait time.Duration, err error) {
	text := []byte(nil)
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, 0, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.base, "/")+path, bytes.NewReader(text))
	if err != nil {
		return 0, 0, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return 0, 0, err
	}
	if d, err := time.ParseDuration(res.Header.Get("Retry-After") + "s"); err == nil {
		wait = d
	}
	if raw, ok := into.(*[]byte); ok {
		*raw = answer
		return res.StatusCode, wait, nil
	}
	if into != nil && len(answer) > 0 {
		err = json.Unmarshal(answer, into)
	}
	return res.StatusCode, wait, err
}

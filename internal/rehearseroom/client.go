package rehearseroom

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/periodic"
)

// place is what the crowd reads of a place, and of a problem: its reason, and when to read the place again.
type place = rooms.PlaceView

// caller calls listeners, one after the other.
type caller struct {
	apis []apiclient.Client
	turn atomic.Uint64
}

// call sends a request and decodes the answer. It repeats what got no answer, or 429 or 503, until ctx ends.
func (c *caller) call(ctx context.Context, method, path string, header http.Header, body, into any) (status int, err error) {
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
	var p problem.Problem
	status, err := c.call(ctx, method, path, nil, body, &p)
	if err == nil && status >= 300 {
		err = fmt.Errorf("rehearse: %s %s: status %d: %s %s", method, path, status, p.Title, p.Detail)
	}
	return err
}

// hangUp sends a request and closes the connection without reading the answer.
func (c *caller) hangUp(ctx context.Context, method, path string, header http.Header, body any) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }})
	_, _, _ = c.once(ctx, method, path, header, body, nil) // whatever came of it, the caller does not know
}

func (c *caller) once(
	ctx context.Context, method, path string, header http.Header, body, into any,
) (status int, wait time.Duration, err error) {
	api := &c.apis[c.turn.Add(1)%uint64(len(c.apis))]
	r, err := api.Do(ctx, method, path, header, body)
	if err != nil {
		return 0, 0, err
	}
	if raw, ok := into.(*[]byte); ok {
		*raw = r.Body
	} else if into != nil && len(r.Body) > 0 {
		err = json.Unmarshal(r.Body, into)
	}
	return r.StatusCode, r.RetryAfter(), err
}

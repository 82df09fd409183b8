// Package apiclient sends single requests to a listener of Tidegate, for the crowds of rehearsals. It hides nothing: it does not
// retry, follow redirects or keep cookies, so that a crowd sees each response that the server gave.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds how much of a response body is read.
const maxBody = 64 << 20

// Client calls one listener. The zero value is not usable: Transport and Base are required. Safe for concurrent use.
type Client struct {
	Transport http.RoundTripper
	Base      string // URL, with or without a trailing slash
	Token     string // bearer token; "" sends none
}

// Response is a response whose body was read and closed.
type Response struct {
	*http.Response // nil if there was none

	Body []byte
}

// Do sends a request, with in as its JSON body unless it is nil. A response body that ends early is an error, returned together
// with the part that arrived.
func (c *Client) Do(ctx context.Context, method, path string, header http.Header, in any) (r Response, err error) {
	var content []byte
	if in != nil {
		if content, err = json.Marshal(in); err != nil {
			return r, fmt.Errorf("apiclient: encode %s %s: %w", method, path, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.Base, "/")+path, bytes.NewReader(content))
	if err != nil {
		return r, fmt.Errorf("apiclient: %w", err)
	}
	req.GetBody = nil // otherwise the transport may repeat a request that the crowd's history would not have
	maps.Copy(req.Header, header)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	res, err := c.Transport.RoundTrip(req)
	if err != nil {
		return r, err
	}
	defer res.Body.Close()
	r.Response = res
	r.Body, err = io.ReadAll(io.LimitReader(res.Body, maxBody))
	return r, err
}

// RetryAfter returns the wait that the response asks for, in whole seconds as the API sends it; 0 = none.
func (r *Response) RetryAfter() time.Duration {
	s, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || s < 0 {
		return 0
	}
	return time.Duration(s) * time.Second
}

// Package apiclient calls the listeners of Tidegate, with the types of the handlers. It hides nothing: it does not retry, follow redirects
// or keep cookies, so that the caller sees each response that the server gave. A redirect would turn a change into a GET, whose success
// would hide that nothing was changed.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/response"
)

// maxBody is more bytes than a response has: a page of 1,000 sales, of which a hundred have 10,000 items.
const maxBody = 256 << 20

// Client calls one listener. The zero value is not usable: Base is required. Safe for concurrent use.
type Client struct {
	Transport http.RoundTripper // nil: http.DefaultTransport
	Base      string            // URL, with or without a trailing slash
	Token     string            // bearer token; "" sends none
	Timeout   time.Duration     // of a call, with its body; 0: none
}

// Response is a response whose body was read and closed.
type Response struct {
	*http.Response // nil if there was none

	Body []byte
}

// Path returns the path of these segments, which need no escaping.
func Path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		if s == "." || s == ".." { // would change the path
			b.WriteString(strings.ReplaceAll(s, ".", "%2E"))
		} else {
			b.WriteString(url.PathEscape(s))
		}
	}
	return b.String()
}

// open sends a request, with in as its JSON body unless it is nil. The caller closes the body of the response.
func (c *Client) open(ctx context.Context, method, path string, header http.Header, in any) (*http.Response, error) {
	var content []byte
	if in != nil {
		var err error
		if content, err = json.Marshal(in); err != nil {
			return nil, fmt.Errorf("apiclient: encode %s %s: %w", method, path, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.Base, "/")+path, bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("apiclient: %w", err)
	}
	req.GetBody = nil // otherwise the transport may repeat a request that the caller's history would not have
	maps.Copy(req.Header, header)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	direct := http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return direct.Do(req)
}

// Do sends a request, with in as its JSON body unless it is nil. A response body that ends early is an error, returned together with the
// part that arrived.
func (c *Client) Do(ctx context.Context, method, path string, header http.Header, in any) (r Response, err error) {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	resp, err := c.open(ctx, method, path, header, in)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	r.Response = resp
	r.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if len(r.Body) == maxBody {
		err = fmt.Errorf("%w: %s %s: more than %d MiB", ErrUnexpected, method, resp.Request.URL, maxBody>>20)
	}
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

// Stream gets a body that has no end, within no timeout; the caller closes it. A response that reports no success is a *Refused.
func (c *Client) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := c.open(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // on error the status remains
	return nil, refused(Response{resp, body})
}

// ErrUnexpected means that a response is not one of Tidegate's.
var ErrUnexpected = errors.New("unexpected response")

// Call sends a request and decodes the response, which may be empty. One that reports no success is a *Refused.
func Call[T any](ctx context.Context, c *Client, method, path string, in any) (out T, err error) {
	r, err := c.Do(ctx, method, path, nil, in)
	switch {
	case r.Response != nil && r.StatusCode/100 != 2: // even a partial body helps
		return out, refused(r)
	case err != nil || len(r.Body) == 0 && method != http.MethodGet:
		return out, err
	}
	if err = json.Unmarshal(r.Body, &out); err != nil {
		err = fmt.Errorf("%w from %s: %w", ErrUnexpected, c.Base, err)
	}
	return out, err
}

// Each calls fn for each item of a list, page by page, until fn returns an error.
func Each[T any](ctx context.Context, c *Client, path string, query url.Values, fn func(*T) error) error {
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	if !query.Has("limit") {
		query.Set("limit", "1000")
	}
	for {
		page, err := Call[response.Page[T]](ctx, c, http.MethodGet, path+"?"+query.Encode(), nil)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if err := fn(&page.Items[i]); err != nil {
				return err
			}
		}
		switch next := page.NextCursor; {
		case next == nil || *next == "":
			return nil
		case *next == query.Get("cursor"):
			return fmt.Errorf("%w: GET %s: cursor %q repeats", ErrUnexpected, path, *next)
		default:
			query.Set("cursor", *next)
		}
	}
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
)

// internalAPI is a client of the internal API.
type internalAPI struct {
	getenv     func(string) string
	base, flag string
}

// addFlags adds the flags for address and token, which override the environment.
func (a *internalAPI) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.base, "internal", cmp.Or(a.getenv("TIDEGATE_INTERNAL_URL"), "http://127.0.0.1:8081"),
		"URL of the internal listener [TIDEGATE_INTERNAL_URL]")
	// Not as the flag's default, which the help would print.
	cmd.Flags().StringVar(&a.flag, "token", "", "token to send [TIDEGATE_TOKEN, else INTERNAL_TOKEN]")
}

// token returns the token to send, and where it was set. INTERNAL_TOKEN is the token that a server requires: in the environment of a server,
// such as its container, commands need no other.
func (a *internalAPI) token() (token, from string) {
	for _, t := range [][2]string{{a.flag, "--token"}, {a.getenv("TIDEGATE_TOKEN"), "TIDEGATE_TOKEN"}, {a.getenv("INTERNAL_TOKEN"), "INTERNAL_TOKEN"}} {
		if t[0] != "" {
			return t[0], t[1]
		}
	}
	return "", ""
}

// call makes a call and decodes its answer. Elements of the path need no escaping.
func (a *internalAPI) call(ctx context.Context, method string, answer any, path ...string) error {
	return a.ask(ctx, method, nil, answer, path...)
}

func (a *internalAPI) ask(ctx context.Context, method string, query url.Values, answer any, path ...string) error {
	body, err := a.send(ctx, method, query, nil, path...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("unexpected response from %s: %w; is it Tidegate's internal listener?", a.base, err)
	}
	return nil
}

// callWithin is the timeout of a call.
const callWithin = 30 * time.Second

// answerMost is more bytes than an answer has: a page of 1,000 sales, of which a hundred have 10,000 items.
const answerMost = 256 << 20

// send makes a call, with body as JSON unless it is nil, and returns the raw answer.
func (a *internalAPI) send(ctx context.Context, method string, query url.Values, body any, path ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	resp, err := a.open(ctx, method, query, body, path...)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerMost))
	if err != nil {
		return nil, a.unanswered(resp.Request, err)
	}
	if len(answer) == answerMost {
		return nil, fmt.Errorf("%s %s: the answer has more than %d MiB", method, resp.Request.URL, answerMost>>20)
	}
	return answer, nil
}

// unanswered returns an error that says what is known about a call without an answer, and what to do.
func (a *internalAPI) unanswered(req *http.Request, err error) error {
	var network *net.OpError
	away := errors.As(err, &network) && network.Op == "dial"
	cause, then := context.Cause(req.Context()), ""
	if !away && req.Method != http.MethodGet {
		then = "; " + unsure
	}
	if errors.Is(cause, context.Canceled) {
		return fmt.Errorf("%w%s", cause, then)
	}
	if then != "" {
		then += ": tidegate audit lists completed changes"
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%s %s: no answer within %v%s; %s", req.Method, req.URL, callWithin, then, a.readyz())
	}
	return fmt.Errorf("%w%s; is the server running? --internal or TIDEGATE_INTERNAL_URL sets the URL of its internal listener", err, then)
}

func (a *internalAPI) readyz() string {
	return strings.TrimSuffix(a.base, "/") + "/readyz shows what is unavailable"
}

// direct follows no redirects: a redirect would turn a change into a GET, whose success would hide that nothing was changed.
var direct = http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// open makes a call and returns its response unless that is an error status. The caller closes the body.
func (a *internalAPI) open(ctx context.Context, method string, query url.Values, body any, path ...string) (*http.Response, error) {
	req, err := a.request(ctx, method, query, body, path...)
	if err != nil {
		return nil, err
	}
	resp, err := direct.Do(req)
	if err != nil {
		return nil, a.unanswered(req, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // on error the status remains
	return nil, a.refused(resp, answer)
}

// pages calls fn for each item of a paginated list.
func (a *internalAPI) pages(ctx context.Context, query url.Values, fn func(json.RawMessage) error, path ...string) error {
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	if !query.Has("limit") {
		query.Set("limit", "1000")
	}
	for {
		var page struct {
			Items []json.RawMessage
			Next  string `json:"next_cursor"`
		}
		if err := a.ask(ctx, http.MethodGet, query, &page, path...); err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := fn(item); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		query.Set("cursor", page.Next)
	}
}

func (a *internalAPI) request(ctx context.Context, method string, query url.Values, body any, path ...string) (*http.Request, error) {
	escaped := make([]string, len(path))
	for i, part := range path {
		switch escaped[i] = url.PathEscape(part); part {
		case "":
			return nil, errors.New("arguments must not be empty")
		case ".", "..": // would change the path
			escaped[i] = strings.ReplaceAll(part, ".", "%2E")
		}
	}
	at, err := url.Parse(a.base)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return nil, fmt.Errorf("--internal must be a URL such as http://127.0.0.1:8081, got %q", a.base)
	}
	token, from := a.token()
	if strings.ContainsFunc(token, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return nil, fmt.Errorf("the token in %s must not contain spaces or line breaks (value not shown)", from)
	}
	at = at.JoinPath(escaped...)
	if len(query) > 0 {
		at.RawQuery = query.Encode()
	}
	content := []byte(nil)
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// A refusedError is a problem response of the server.
type refusedError struct {
	status               int
	reason, detail, text string
}

func (e *refusedError) Error() string { return e.text }

// hasStatus reports whether err is a response of the server with that status.
func hasStatus(err error, status int) bool {
	var refused *refusedError
	return errors.As(err, &refused) && refused.status == status
}

// hasReason reports whether err is a response of the server with that reason.
func hasReason(err error, reason string) bool {
	var refused *refusedError
	return errors.As(err, &refused) && refused.reason == reason
}

// refused converts a problem response to an error, with advice on what to do.
func (a *internalAPI) refused(resp *http.Response, body []byte) error {
	var problem struct {
		Title, Detail, Reason string
		Errors                []struct {
			Location, Message, File string
			Line, Column            int
		}
	}
	_ = json.Unmarshal(body, &problem)
	text := harmless(fmt.Sprintf("%s %s: %d %s", resp.Request.Method, resp.Request.URL, resp.StatusCode, cmp.Or(problem.Title, http.StatusText(resp.StatusCode))))
	if problem.Detail != "" {
		text += ": " + harmless(problem.Detail)
	}
	for _, e := range problem.Errors {
		at := e.Location
		if e.File != "" {
			at = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
		}
		text += "\n" + harmless(at+": "+e.Message)
	}
	switch advice := a.advice(resp, problem.Reason); {
	case advice == "":
	case len(problem.Errors) > 0:
		text += "\n" + advice
	default:
		text += "; " + advice
	}
	return &refusedError{resp.StatusCode, problem.Reason, problem.Detail, text}
}

func (a *internalAPI) advice(resp *http.Response, reason string) string {
	if elsewhere, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		return harmless(fmt.Sprintf("redirected to %s; use --internal %s://%s", elsewhere, elsewhere.Scheme, elsewhere.Host))
	}
	token, from := a.token()
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized && token == "":
		return "set TIDEGATE_TOKEN or --token to an operator token"
	case status == http.StatusUnauthorized:
		return "the server does not accept the token in " + from
	case status == http.StatusForbidden && token == "":
		return "without tokens the server requires a loopback address, such as http://127.0.0.1:8081"
	case status == http.StatusForbidden:
		return "the token in " + from + " must have the role operator"
	case status == http.StatusNotFound && (reason == "unknown_route" || reason == ""), status == http.StatusMethodNotAllowed:
		return "is --internal the internal listener of a server of the same version?"
	case status == http.StatusServiceUnavailable:
		return "try again; " + a.readyz()
	}
	return ""
}

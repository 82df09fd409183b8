package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/input"
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

// token returns the token to send, and where it was set. INTERNAL_TOKEN is the token that a server requires: in the environment
// of a server, such as its container, commands need no other.
func (a *internalAPI) token() (token, from string) {
	for _, t := range [][2]string{
		{a.flag, "--token"},
		{a.getenv("TIDEGATE_TOKEN"), "TIDEGATE_TOKEN"},
		{a.getenv("INTERNAL_TOKEN"), "INTERNAL_TOKEN"},
	} {
		if t[0] != "" {
			return t[0], t[1]
		}
	}
	return "", ""
}

// ask makes a call and decodes its answer. Elements of the path need no escaping.
func ask[T any](ctx context.Context, a *internalAPI, method string, query url.Values, body any, path ...string) (answer T, err error) {
	c, at, err := a.client(query, path)
	if err != nil {
		return answer, err
	}
	answer, err = apiclient.Call[T](ctx, c, method, at, body)
	return answer, a.advised(ctx, method, at, err)
}

// send is ask for an answer that is not decoded.
func (a *internalAPI) send(ctx context.Context, method string, query url.Values, body any, path ...string) ([]byte, error) {
	return ask[json.RawMessage](ctx, a, method, query, body, path...)
}

// pages calls fn for each item of a paginated list.
func (a *internalAPI) pages(ctx context.Context, query url.Values, fn func(json.RawMessage) error, path ...string) error {
	c, at, err := a.client(nil, path)
	if err != nil {
		return err
	}
	var stopped error
	err = apiclient.Each(ctx, c, at, query, func(item *json.RawMessage) error {
		stopped = fn(*item)
		return stopped
	})
	if stopped != nil {
		return stopped
	}
	return a.advised(ctx, http.MethodGet, at, err)
}

// callWithin is the timeout of a call.
const callWithin = 30 * time.Second

// client returns a client of the server, and the path of a call.
func (a *internalAPI) client(query url.Values, path []string) (c *apiclient.Client, at string, err error) {
	if slices.Contains(path, "") {
		return nil, "", errors.New("arguments must not be empty")
	}
	if base, err := url.Parse(a.base); err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, "", fmt.Errorf("--internal must be a URL such as http://127.0.0.1:8081, got %q", a.base)
	}
	token, from := a.token()
	if strings.ContainsFunc(token, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return nil, "", fmt.Errorf("the token in %s must not contain spaces or line breaks (value not shown)", from)
	}
	if at = apiclient.Path(path...); len(query) > 0 {
		at += "?" + query.Encode()
	}
	return &apiclient.Client{Base: a.base, Token: token, Timeout: callWithin}, at, nil
}

// advised adds to the error of a call what is known about its outcome, and what to do.
func (a *internalAPI) advised(ctx context.Context, method, path string, err error) error {
	var refused *apiclient.Refused
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return a.refused(err)
	case errors.Is(err, apiclient.ErrUnexpected):
		return fmt.Errorf("%w; is it Tidegate's internal listener?", err)
	}
	var network *net.OpError
	away, then := errors.As(err, &network) && network.Op == "dial", ""
	if !away && method != http.MethodGet {
		then = "; " + unsure
	}
	if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) {
		return fmt.Errorf("%w%s", cause, then)
	}
	if then != "" {
		then += ": tidegate audit lists completed changes"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s %s: no answer within %v%s; %s", method, strings.TrimSuffix(a.base, "/")+path, callWithin, then, a.readyz())
	}
	return fmt.Errorf("%w%s; is the server running? --internal or TIDEGATE_INTERNAL_URL sets the URL of its internal listener", err, then)
}

// refused adds to an error what to do if it is a refusal.
func (a *internalAPI) refused(err error) error {
	refused, ok := errors.AsType[*apiclient.Refused](err)
	if !ok {
		return err
	}
	switch advice := a.advice(refused.Response, refused.Reason); {
	case advice == "":
		return err
	case len(refused.Errors) > 0:
		return fmt.Errorf("%w\n%s", err, advice)
	default:
		return fmt.Errorf("%w; %s", err, advice)
	}
}

func (a *internalAPI) readyz() string {
	return strings.TrimSuffix(a.base, "/") + "/readyz shows what is unavailable"
}

func (a *internalAPI) advice(resp *http.Response, reason string) string {
	if elsewhere, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		return input.Harmless(fmt.Sprintf("redirected to %s; use --internal %s://%s", elsewhere, elsewhere.Scheme, elsewhere.Host))
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

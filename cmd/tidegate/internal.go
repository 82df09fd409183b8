package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// internalAPI is where the operator's calls go.
type internalAPI struct {
	base, token string
}

// addFlags lets flags say where it is; the environment says it otherwise.
func (a *internalAPI) addFlags(cmd *cobra.Command, getenv func(string) string) {
	cmd.Flags().StringVar(&a.base, "internal", orElse(getenv("TIDEGATE_INTERNAL_URL"), "http://127.0.0.1:8081"),
		"URL of the internal listener [TIDEGATE_INTERNAL_URL]")
	// Not as a default, which the help would print.
	cmd.Flags().StringVar(&a.token, "token", "", "token of an operator [INTERNAL_TOKEN]")
	cmd.PreRun = func(*cobra.Command, []string) { a.token = orElse(a.token, getenv("INTERNAL_TOKEN")) }
}

// call makes a call and reads its answer. What stands in the path needs no escapes.
func (a *internalAPI) call(ctx context.Context, method string, answer any, path ...string) error {
	return a.ask(ctx, method, nil, answer, path...)
}

func (a *internalAPI) ask(ctx context.Context, method string, query url.Values, answer any, path ...string) error {
	body, err := a.send(ctx, method, query, nil, path...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("%s answers with something else than expected: %w; is it Tidegate's internal listener?", a.base, err)
	}
	return nil
}

// send makes a call, with a body as JSON unless that is nil, and returns the answer as it came.
func (a *internalAPI) send(ctx context.Context, method string, query url.Values, body any, path ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := a.request(ctx, method, query, body, path...)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w; is the server running, and --internal its internal listener?", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.URL, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, refusal(req.URL.String(), resp.StatusCode, answer)
	}
	return answer, nil
}

func (a *internalAPI) request(ctx context.Context, method string, query url.Values, body any, path ...string) (*http.Request, error) {
	escaped := make([]string, len(path))
	for i := range path {
		escaped[i] = url.PathEscape(path[i])
	}
	at, err := url.JoinPath(a.base, escaped...)
	if err != nil {
		return nil, fmt.Errorf("--internal: %w; name a URL such as http://127.0.0.1:8081", err)
	}
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	content := []byte(nil)
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("--internal: %w; name a URL such as http://127.0.0.1:8081", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	return req, nil
}

func refusal(at string, status int, body []byte) error {
	var problem struct{ Title, Detail string }
	_ = json.Unmarshal(body, &problem) // whatever it is, there is the status
	said := strings.TrimSpace(problem.Title + " " + problem.Detail)
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s: %d %s; set INTERNAL_TOKEN to a token of an operator", at, status, said)
	case http.StatusServiceUnavailable:
		return fmt.Errorf("%s: %d %s; readyz says what is missing", at, status, said)
	}
	return fmt.Errorf("%s: %d %s", at, status, said)
}

func healthCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health URL",
		Short: "Succeed if a GET of the URL does; for the health checks of containers",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], http.NoBody)
			if err != nil {
				return fmt.Errorf("%w; name a URL such as http://127.0.0.1:8081/readyz", err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
			if resp.StatusCode/100 != 2 {
				return fmt.Errorf("%s: %s: %s", args[0], resp.Status, strings.TrimSpace(string(body)))
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

func orElse(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

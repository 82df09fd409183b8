package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// A tidegate is a client of Tidegate's internal listener, which browsers must not reach.
type tidegate struct {
	base, token string
	client      *http.Client
}

func newTidegate(base, token string) *tidegate {
	// Tidegate normally answers within milliseconds. But if CAPTCHA is a third-party provider such as turnstile, it has 3 s to verify a
	// solution, so the timeout must be longer. Without a timeout a hanging call would hang the login.
	return &tidegate{strings.TrimSuffix(base, "/"), token, &http.Client{Timeout: 5 * time.Second}}
}

// An attempt is the description of a login attempt for Tidegate. It does not contain the password.
type attempt struct {
	Name    string     `json:"name"`
	IP      netip.Addr `json:"ip"`
	Device  string     `json:"device,omitempty"`  // token from the cookie
	Captcha string     `json:"captcha,omitempty"` // the widget's solution
	Mode    string     `json:"mode,omitempty"`
	// RequestID is an idempotency key for retries.
	RequestID string `json:"request_id,omitempty"`
}

// A decision is what to do with an attempt. Tidegate also sends a reason, for operators only: clients must not learn what was counted.
type decision struct {
	AttemptID    string `json:"attempt_id"`
	Decision     string `json:"decision"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	Challenge    struct {
		Provider string `json:"provider"`
		URL      string `json:"url"`
	} `json:"challenge"`
}

// errInvalid means that the browser sent an invalid login name, or a challenge that was never offered.
var errInvalid = errors.New("tidegate: invalid")

// decide returns the decision on an attempt. On error the caller must deny the login.
func (t *tidegate) decide(ctx context.Context, a attempt) (d decision, err error) {
	err = t.post(ctx, "/v1/login/attempts", a, &d)
	if err == nil && d.Decision == "challenge" && d.Challenge.Provider != "altcha" {
		err = fmt.Errorf("tidegate: CAPTCHA is %q, and this page has only the widget of altcha", d.Challenge.Provider)
	}
	return d, err
}

// settle reports the result of an allowed attempt: success, failure, or error if the password could not be checked. After a success it
// returns a token for the browser to keep, unless the browser has a valid one.
func (t *tidegate) settle(ctx context.Context, id, result string) (device string, err error) {
	var answer struct {
		Device string `json:"device"`
	}
	err = t.post(ctx, "/v1/login/attempts/"+url.PathEscape(id)+"/outcome", map[string]string{"result": result}, &answer)
	return answer.Device, err
}

// challenge returns a challenge for a login, in the widget's format. whom is from the URL of a decision, and signed by Tidegate.
func (t *tidegate) challenge(ctx context.Context, whom string) ([]byte, error) {
	query := url.Values{"purpose": {"login"}, "for": {whom}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base+"/v1/captcha/challenge?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return t.do(req)
}

// post retries once if there is no answer. The RequestID of an attempt and the id of a settlement ensure that it counts only once.
func (t *tidegate) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	answer, err := t.send(ctx, path, body)
	if err != nil && !errors.Is(err, errInvalid) {
		answer, err = t.send(ctx, path, body)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, out)
}

func (t *tidegate) send(ctx context.Context, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return t.do(req)
}

func (t *tidegate) do(req *http.Request) ([]byte, error) {
	if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // drops the URL: an attempt's id is a secret, and errors are logged
		}
		return nil, fmt.Errorf("tidegate: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusUnprocessableEntity:
		return nil, fmt.Errorf("%w: %.300s", errInvalid, answer)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("tidegate: %s: %.300s", resp.Status, answer)
	}
	return answer, nil
}

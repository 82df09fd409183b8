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

// A tidegate is a client of Tidegate's internal listener. No browser may reach that one.
type tidegate struct {
	base, token string
	client      *http.Client
}

func newTidegate(base, token string) *tidegate {
	// A login waits for Tidegate, which answers within milliseconds; but where CAPTCHA is turnstile or the like, that provider has 3 s to verify a
	// solution, and who hangs up before gets no answer at all. Without a bound here, what hangs there would hang here.
	return &tidegate{strings.TrimSuffix(base, "/"), token, &http.Client{Timeout: 5 * time.Second}}
}

// An attempt is what Tidegate is told of somebody who wants to log in. The password is none of its business.
type attempt struct {
	Name    string     `json:"name"`
	IP      netip.Addr `json:"ip"`
	Device  string     `json:"device,omitempty"`  // the token in the cookie
	Captcha string     `json:"captcha,omitempty"` // the widget's solution
	Mode    string     `json:"mode,omitempty"`
	// RequestID makes it harmless to send the same twice.
	RequestID string `json:"request_id,omitempty"`
}

// A decision is what to do with it. It also has a reason, for operators: who tries to log in must not learn what was counted.
type decision struct {
	AttemptID    string `json:"attempt_id"`
	Decision     string `json:"decision"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	Challenge    struct {
		Provider string `json:"provider"`
		URL      string `json:"url"`
	} `json:"challenge"`
}

// errInvalid: what the browser sent is no login name, or no challenge that was ever offered.
var errInvalid = errors.New("tidegate: invalid")

// decide says what to do with an attempt. Of an error nothing follows but that nobody gets in.
func (t *tidegate) decide(ctx context.Context, a attempt) (d decision, err error) {
	err = t.post(ctx, "/v1/login/attempts", a, &d)
	if err == nil && d.Decision == "challenge" && d.Challenge.Provider != "altcha" {
		err = fmt.Errorf("tidegate: CAPTCHA is %q, and this page has only the widget of altcha", d.Challenge.Provider)
	}
	return d, err
}

// settle says how an attempt that was allowed has ended: success, failure, or error if the password could not be checked. After a success it
// returns a token for the browser to keep, unless that one has a good one.
func (t *tidegate) settle(ctx context.Context, id, result string) (device string, err error) {
	var answer struct {
		Device string `json:"device"`
	}
	err = t.post(ctx, "/v1/login/attempts/"+url.PathEscape(id)+"/outcome", map[string]string{"result": result}, &answer)
	return answer.Device, err
}

// challenge returns one for a login, as the widget reads it. For whom stands in the URL of a decision, signed by Tidegate.
func (t *tidegate) challenge(ctx context.Context, whom string) ([]byte, error) {
	query := url.Values{"purpose": {"login"}, "for": {whom}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base+"/v1/captcha/challenge?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return t.do(req)
}

// post sends once more what got no answer: an attempt's RequestID and the id of one that is settled make sure that it counts once.
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
			err = failed.Err // without the URL: an attempt's id is a secret, and errors are logged
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

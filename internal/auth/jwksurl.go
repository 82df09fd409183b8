package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/tidegate/tidegate/internal/bounded"
)

const (
	fetchWithin  = 5 * time.Second
	maxKeySet    = 1 << 20 // bytes
	maxRedirects = 3
)

// CheckJWKSURL returns an error unless keys may be fetched from a URL: https, or http from this machine.
// Otherwise they could be replaced on the way.
func CheckJWKSURL(value string) error {
	u, err := url.Parse(value)
	switch {
	case err != nil, u.User != nil:
		return errors.New("must be a URL without a password (value not shown, it may contain one)")
	case u.Hostname() == "", u.Fragment != "", u.Scheme != "https" && !(u.Scheme == "http" && local(u.Hostname())):
		return fmt.Errorf("must be a URL with https, or with http of this machine, such as "+
			"https://id.example.com/realms/shop/protocol/openid-connect/certs, got %q", value)
	}
	return nil
}

func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// fetchKeys returns a function that fetches a JWK set. Its errors do not contain the URL.
func fetchKeys(from string) func(context.Context) ([]byte, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true // it is used every few minutes
	transport.MaxResponseHeaderBytes = 64 << 10
	client := &http.Client{Transport: transport, Timeout: fetchWithin, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects || req.URL.Scheme != via[0].URL.Scheme || CheckJWKSURL(req.URL.String()) != nil {
			return fmt.Errorf("the redirect to %s is not followed", req.URL.Redacted())
		}
		return nil
	}}
	return func(ctx context.Context) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
		if err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
		req.Header.Set("Accept", "application/jwk-set+json, application/json")
		resp, err := client.Do(req)
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err
		}
		if err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("auth: the answer has the status %d, and must have 200", resp.StatusCode)
		}
		content, err := bounded.Read(resp.Body, maxKeySet)
		if err != nil {
			return nil, fmt.Errorf("auth: the answer %w", err)
		}
		return content, nil
	}
}

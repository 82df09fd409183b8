package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestStreamsOfAnAddress: one address takes the streams of neither the others nor the shop's servers.
func TestStreamsOfAnAddress(t *testing.T) {
	b := setup(t, withTokens(t), withRooms(t), func(cfg *Config) { cfg.TrustedProxies = prefixes("127.0.0.0/8") })
	call(b.Internal(), "PUT", door, definitionOf("fifo", -time.Minute, ""), "X-Tidegate-Token", "operator-token-of-tests")
	public, internal := httptest.NewServer(b.Public()), httptest.NewServer(b.Internal())
	defer public.Close()
	defer internal.Close()
	defer b.Drain()
	open := func(url, address string, want int) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", url+door+"/events", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", address)
		req.Header.Set("X-Tidegate-Token", "operator-token-of-tests")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Errorf("%s from %s: %d, want %d", url, address, resp.StatusCode, want)
		}
		return resp
	}
	streams := make([]*http.Response, 200)
	for i := range streams {
		streams[i] = open(public.URL, "192.0.2.1", 200)
		defer streams[i].Body.Close()
	}
	open(public.URL, "192.0.2.1", 429).Body.Close()
	open(public.URL, "192.0.2.2", 200).Body.Close()
	open(internal.URL, "192.0.2.1", 200).Body.Close()
}

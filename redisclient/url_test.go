package redisclient_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/redisclient"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		url   string
		addrs string
		tls   bool
		err   bool
	}{
		{"redis://localhost", "localhost:6379", false, false},
		{"redis://user:word@db:7000/3", "db:7000", false, false},
		{"rediss://db:7000", "db:7000", true, false},
		{"redis://a:1,b:2,c:3", "a:1 b:2 c:3", false, false},
		{"rediss://a:1,rediss://b:2", "a:1 b:2", true, false},
		{"redis://a:1/2,b:2", "", false, true},
		{"redis://a:1,,b:2", "", false, true},
		{"redis+sentinel://user:word@a:1,b:2,c:3/main", "a:1 b:2 c:3", false, false},
		{"rediss+sentinel://a:1/main/3", "a:1", true, false},
		{"redis+sentinel://a:1,b:2", "", false, true},
		{"redis+sentinel://a:1,b:2/main/x", "", false, true},
		{"http://a", "", false, true},
		{"", "", false, true},
	} {
		opts, err := redisclient.ParseURL(c.url)
		if (err != nil) != c.err {
			t.Errorf("%q: %v", c.url, err)
		}
		if err != nil {
			continue
		}
		if got := strings.Join(opts.Addrs, " "); got != c.addrs || (opts.TLSConfig != nil) != c.tls {
			t.Errorf("%q: addresses %s, TLS %v", c.url, got, opts.TLSConfig != nil)
		}
		if sentinels := strings.Contains(c.url, "+sentinel:"); (opts.MasterName == "main") != sentinels || sentinels && strings.Contains(c.url, "/3") != (opts.DB == 3) {
			t.Errorf("%q: master %q, database %d", c.url, opts.MasterName, opts.DB)
		}
		if opts.MaxRetries != -1 || opts.DialerRetries != 1 || !opts.ContextTimeoutEnabled || opts.ReadTimeout > 100*time.Millisecond {
			t.Errorf("%q: not the settings of a decision: %+v", c.url, opts)
		}
	}
}

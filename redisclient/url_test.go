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
		{"redis+cluster://user:word@a:1", "a:1", false, false},
		{"rediss+cluster://a:1", "a:1", true, false},
		{"redis+cluster://a:1/2", "", false, true},
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
		if opts.IsClusterMode != strings.Contains(c.url, "+cluster:") {
			t.Errorf("%q: cluster %v", c.url, opts.IsClusterMode)
		}
		if opts.MaxRetries != -1 || opts.DialerRetries != 1 || !opts.ContextTimeoutEnabled || opts.ReadTimeout > 100*time.Millisecond {
			t.Errorf("%q: not the settings of a decision: %+v", c.url, opts)
		}
	}
}

// TestOptionsOfAURL: each option of go-redis has an effect, or its name is in the error.
func TestOptionsOfAURL(t *testing.T) {
	const options = "client_name=shop&protocol=2&pool_size=7&pool_fifo=true&min_idle_conns=1&max_idle_conns=2&max_active_conns=9&max_concurrent_dials=3" +
		"&conn_max_idle_time=1m&conn_max_lifetime=2m&conn_max_lifetime_jitter=1s&pipeline_pool_size=4&pipeline_read_buffer_size=1024&pipeline_write_buffer_size=2048"
	for _, url := range []string{"redis://a:1", "redis://a:1,b:2", "redis+cluster://a:1", "redis+sentinel://a:1,b:2/main"} {
		o, err := redisclient.ParseURL(url + "?" + options)
		if err != nil {
			t.Fatal(err)
		}
		if o.ClientName != "shop" || o.Protocol != 2 || o.PoolSize != 7 || !o.PoolFIFO || o.MinIdleConns != 1 || o.MaxIdleConns != 2 || o.MaxActiveConns != 9 || o.MaxConcurrentDials != 3 ||
			o.ConnMaxIdleTime != time.Minute || o.ConnMaxLifetime != 2*time.Minute || o.ConnMaxLifetimeJitter != time.Second ||
			o.PipelinePoolSize != 4 || o.PipelineReadBufferSize != 1024 || o.PipelineWriteBufferSize != 2048 {
			t.Errorf("%s: %+v", url, o)
		}
	}
	if o, err := redisclient.ParseURL("rediss://a:1,b:2?skip_verify=true"); err != nil || !o.TLSConfig.InsecureSkipVerify {
		t.Errorf("skip_verify: %v", err)
	}
	o, err := redisclient.ParseURL("redis+sentinel://user:word@a:1,b:2/main?sentinel_username=guard&sentinel_password=p%40%2C")
	if err != nil || o.SentinelUsername != "guard" || o.SentinelPassword != "p@," || o.Username != "user" || o.Password != "word" {
		t.Errorf("sentinels: %+v %v", o, err)
	}
	for _, name := range []string{
		"dial_timeout", "read_timeout", "write_timeout", "pool_timeout", "max_retries", "min_retry_backoff", "max_retry_backoff", "pool_sise", "sentinel_password",
	} {
		if _, err := redisclient.ParseURL("redis://a:1?" + name + "=1"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, option := range []string{"pool_size=-1", "pool_size=x", "min_idle_conns=-2", "pool_size=%zz"} {
		if _, err := redisclient.ParseURL("redis://a:1?" + option); err == nil {
			t.Errorf("%s has no error", option)
		}
	}
}

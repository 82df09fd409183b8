package redisclient

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// DefaultTimeout is the timeout of ParseURL's settings for connecting, reading, writing and waiting for a connection, each.
const DefaultTimeout = 100 * time.Millisecond

const poolSize = 64 // connections to one server

// SetTimeout sets the timeouts for connecting, reading, writing and waiting for a connection. It must exceed the round trip to
// the server several times: with TLS, connecting takes up to three.
func SetTimeout(opts *redis.UniversalOptions, timeout time.Duration) {
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = timeout, timeout, timeout, timeout
}

// ParseURL returns the client settings for decisions, for NewUniversal: short timeouts, because late decisions are useless, and no
// retries, because a resent command counts twice. The forms of a URL are:
//
//	redis://[user:password@]host:port[/db]                       a server, or after DetectCluster any node of a Redis Cluster
//	redis+cluster://[user:password@]host:port                    a Redis Cluster behind one address
//	redis://[user:password@]a:6379,b:6379,c:6379                 a Redis Cluster
//	redis+sentinel://[user:password@]a:26379,b:26379/name[/db]   the master that these sentinels monitor under name
//
// User and password are those of the server or master. rediss instead of redis uses TLS, also for sentinels. Options are the URL's
// query: those of redis.ParseURL, except for the ones that opts below sets itself, and sentinel_username and sentinel_password.
func ParseURL(text string) (*redis.UniversalOptions, error) {
	text, query, _ := strings.Cut(text, "?")
	options, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("redisclient: url: special characters of options must be percent-encoded")
	}
	scheme, rest, cluster := strings.Cut(text, "+cluster://")
	if cluster {
		text = scheme + "://" + rest
	}
	master, text, err := cutMaster(text)
	if err != nil {
		return nil, err
	}
	var guard struct{ user, password string }
	if master != "" {
		guard.user, guard.password = options.Get("sentinel_username"), options.Get("sentinel_password")
		options.Del("sentinel_username")
		options.Del("sentinel_password")
	}
	if err := refuse(options); err != nil {
		return nil, err
	}
	first, others, several := strings.Cut(text, ",")
	one, err := redis.ParseURL(first + "?" + options.Encode())
	if err != nil {
		return nil, fmt.Errorf("redisclient: url: %w", err)
	}
	if one.DB != 0 && master == "" && (several || cluster) {
		return nil, errors.New("redisclient: url: a cluster has no databases but 0")
	}
	addrs := []string{one.Addr}
	if several {
		for addr := range strings.SplitSeq(others, ",") {
			if addr == "" {
				return nil, errors.New("redisclient: url: an address between commas is empty")
			}
			if !strings.Contains(addr, "://") {
				scheme, _, _ := strings.Cut(first, "://")
				addr = scheme + "://" + addr
			}
			other, err := redis.ParseURL(addr)
			if err != nil {
				return nil, fmt.Errorf("redisclient: url: %w", err)
			}
			addrs = append(addrs, other.Addr)
		}
	}
	opts := &redis.UniversalOptions{
		Addrs:            addrs,
		IsClusterMode:    cluster,
		MasterName:       master,
		SentinelUsername: guard.user,
		SentinelPassword: guard.password,
		Username:         one.Username,
		Password:         one.Password,
		DB:               one.DB,
		TLSConfig:        one.TLSConfig,
		ClientName:       one.ClientName,
		Protocol:         one.Protocol,

		PoolSize:                cmp.Or(one.PoolSize, poolSize),
		PoolFIFO:                one.PoolFIFO,
		MinIdleConns:            one.MinIdleConns,
		MaxIdleConns:            one.MaxIdleConns,
		MaxActiveConns:          one.MaxActiveConns,
		MaxConcurrentDials:      one.MaxConcurrentDials,
		ConnMaxIdleTime:         one.ConnMaxIdleTime,
		ConnMaxLifetime:         one.ConnMaxLifetime,
		ConnMaxLifetimeJitter:   one.ConnMaxLifetimeJitter,
		PipelinePoolSize:        one.PipelinePoolSize,
		PipelineReadBufferSize:  one.PipelineReadBufferSize,
		PipelineWriteBufferSize: one.PipelineWriteBufferSize,

		MaxRetries:            -1,
		DialerRetries:         1, // five by default, 100 ms apart
		DialerRetryTimeout:    time.Millisecond,
		ContextTimeoutEnabled: true,

		// Only Redis Enterprise sends these; requesting them costs a round trip for every connection.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if min(opts.PoolSize, opts.MinIdleConns+1, opts.MaxIdleConns+1, opts.MaxActiveConns+1) < 1 {
		return nil, errors.New("redisclient: url: numbers of connections must not be negative")
	}
	SetTimeout(opts, DefaultTimeout)
	return opts, nil
}

// cutMaster returns the name of the master and the URL of the sentinels without it. The name is empty if the URL is another server's.
func cutMaster(text string) (master, server string, err error) {
	scheme, rest, ok := strings.Cut(text, "+sentinel://")
	if !ok {
		return "", text, nil
	}
	hosts, path, _ := strings.Cut(rest, "/")
	name, db, _ := strings.Cut(path, "/")
	if name == "" {
		return "", "", errors.New("redisclient: url: the sentinels' name of the master is missing, as in redis+sentinel://a:26379,b:26379/name")
	}
	first, others, several := strings.Cut(hosts, ",")
	server = scheme + "://" + first + "/" + db
	if several {
		server += "," + others
	}
	return name, server, nil
}

// refuse returns an error for options of redis.ParseURL that a client for decisions sets itself.
func refuse(options url.Values) error {
	for name := range options {
		switch name {
		case "dial_timeout", "read_timeout", "write_timeout", "pool_timeout":
			return fmt.Errorf("redisclient: url: %s must not be set there: REDIS_TIMEOUT, or SetTimeout in Go, sets all timeouts", name)
		case "max_retries", "min_retry_backoff", "max_retry_backoff":
			return fmt.Errorf("redisclient: url: %s must not be set there: a command that is sent again counts twice", name)
		}
	}
	return nil
}

package redisclient

import (
	"errors"
	"fmt"
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

// ParseURL returns the client settings for decisions, for redis.NewUniversalClient: short timeouts, because late decisions are
// useless, and no retries, because a resent command counts twice. url is redis://[user:password@]host:port[/db] or rediss:// for TLS.
// Several addresses separated by commas (redis://a:6379,b:6379,c:6379) select a Redis Cluster. For a cluster behind one address set
// IsClusterMode in the result. redis+sentinel://[user:password@]a:26379,b:26379,c:26379/name[/db] selects the master that these sentinels
// monitor under name. User and password are those of the master. rediss+sentinel:// uses TLS for master and sentinels.
func ParseURL(url string) (*redis.UniversalOptions, error) {
	master := ""
	if scheme, rest, ok := strings.Cut(url, "+sentinel://"); ok {
		hosts, path, _ := strings.Cut(rest, "/")
		name, db, _ := strings.Cut(path, "/")
		if name == "" {
			return nil, errors.New("redisclient: url: the sentinels' name of the master is missing, as in redis+sentinel://a:26379,b:26379/name")
		}
		first, others, several := strings.Cut(hosts, ",")
		master, url = name, scheme+"://"+first+"/"+db
		if several {
			url += "," + others
		}
	}
	first, rest, several := strings.Cut(url, ",")
	one, err := redis.ParseURL(first)
	if err != nil {
		return nil, fmt.Errorf("redisclient: url: %w", err)
	}
	addrs := []string{one.Addr}
	if several {
		if one.DB != 0 && master == "" {
			return nil, errors.New("redisclient: url: a cluster has no databases but 0")
		}
		for addr := range strings.SplitSeq(rest, ",") {
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
		Addrs:      addrs,
		MasterName: master,
		Username:   one.Username,
		Password:   one.Password,
		DB:         one.DB,
		TLSConfig:  one.TLSConfig,
		ClientName: one.ClientName,

		MaxRetries:            -1,
		DialerRetries:         1, // five by default, 100 ms apart
		DialerRetryTimeout:    time.Millisecond,
		ContextTimeoutEnabled: true,
		PoolSize:              poolSize,

		// Only Redis Enterprise sends these; requesting them costs a round trip for every connection.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	SetTimeout(opts, DefaultTimeout)
	return opts, nil
}

package admission

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	redisTimeout = 100 * time.Millisecond // of connecting, reading, writing and waiting for a connection, each
	poolSize     = 64                     // connections to one server
	maxQueued    = 16384                  // commands waiting in an auto-pipeline
)

// RedisOptions returns what a client for decisions needs, for redis.NewUniversalClient: a decision that comes late is worth
// nothing, and one sent twice counts twice. url is redis://[user:password@]host:port[/db] or rediss:// for TLS; with several
// addresses divided by commas (redis://a:6379,b:6379,c:6379) it is a Redis Cluster. For a cluster behind one address set
// IsClusterMode in the result. redis+sentinel://[user:password@]a:26379,b:26379,c:26379/name[/db] is the master that these
// sentinels know by that name; user and password are the master's, and rediss+sentinel:// is TLS with all of them.
func RedisOptions(url string) (*redis.UniversalOptions, error) {
	master := ""
	if scheme, rest, ok := strings.Cut(url, "+sentinel://"); ok {
		hosts, path, _ := strings.Cut(rest, "/")
		name, db, _ := strings.Cut(path, "/")
		if name == "" {
			return nil, errors.New("admission: redis url: the sentinels' name of the master is missing, as in redis+sentinel://a:26379,b:26379/name")
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
		return nil, fmt.Errorf("admission: redis url: %w", err)
	}
	addrs := []string{one.Addr}
	if several {
		if one.DB != 0 && master == "" {
			return nil, errors.New("admission: redis url: a cluster has no databases but 0")
		}
		for addr := range strings.SplitSeq(rest, ",") {
			if addr == "" {
				return nil, errors.New("admission: redis url: an address between commas is empty")
			}
			if !strings.Contains(addr, "://") {
				scheme, _, _ := strings.Cut(first, "://")
				addr = scheme + "://" + addr
			}
			other, err := redis.ParseURL(addr)
			if err != nil {
				return nil, fmt.Errorf("admission: redis url: %w", err)
			}
			addrs = append(addrs, other.Addr)
		}
	}
	return &redis.UniversalOptions{
		Addrs:      addrs,
		MasterName: master,
		Username:   one.Username,
		Password:   one.Password,
		DB:         one.DB,
		TLSConfig:  one.TLSConfig,
		ClientName: one.ClientName,

		MaxRetries:            -1,
		DialTimeout:           redisTimeout,
		DialerRetries:         1, // five by default, 100 ms apart
		DialerRetryTimeout:    time.Millisecond,
		ReadTimeout:           redisTimeout,
		WriteTimeout:          redisTimeout,
		PoolTimeout:           redisTimeout,
		ContextTimeoutEnabled: true,
		PoolSize:              poolSize,

		// Only Redis Enterprise sends these; asking for them costs every connection a round trip.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, nil
}

// A pipeline is an auto-pipelined client that remembers what it stands on.
type pipeline struct {
	*redis.AutoPipeliner
	rdb redis.UniversalClient
}

// AutoPipeline returns a view of rdb in which concurrent callers share round trips, which pays under load. It belongs to
// rdb and ends when that is closed. go-redis marks auto-pipelines as experimental, hence this one place to make them.
// More than 16384 waiting commands are refused with redis.ErrAutoPipelineQueueFull.
func AutoPipeline(rdb redis.UniversalClient) (redis.UniversalClient, error) {
	p, err := rdb.AutoPipelineWithOptions(&redis.AutoPipelineOptions{
		MaxBatchSize:         300,
		MaxConcurrentBatches: 1, // the next batch fills while one is under way: deeper batches, lower latency
		MaxQueuedCommands:    maxQueued,
	})
	if err != nil {
		return nil, fmt.Errorf("admission: auto-pipeline: %w", err)
	}
	return &pipeline{p, rdb}, nil
}

// spreads reports whether rdb spreads keys over several servers, so that one script cannot have keys of two slots.
func spreads(rdb Client) bool {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return true
	case *pipeline:
		return spreads(rdb.rdb)
	}
	return false
}

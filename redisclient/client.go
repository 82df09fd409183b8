package redisclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client is a client for decisions. The embedded client sends one command at a time; it is for subscriptions, scans and
// transactions. The zero value is not usable: use Open or New. Safe for concurrent use.
type Client struct {
	redis.UniversalClient
	// Batched is a view of the client in which concurrent callers share round trips. It ignores contexts.
	Batched redis.UniversalClient
	// RunIDs watches the connections of the client.
	RunIDs *RunIDWatcher

	opts  redis.UniversalOptions
	mu    sync.Mutex
	queue redis.UniversalClient // guarded by mu
}

// Open returns a client with the settings of ParseURL. It does not connect yet, so a Redis Cluster behind one address needs
// redis+cluster://. The caller closes it.
func Open(url string) (*Client, error) {
	opts, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	return New(opts)
}

// New is Open for changed settings. It replaces opts.OnConnect. Without retries no command runs twice; set MaxRetries only if
// that is harmless.
func New(opts *redis.UniversalOptions) (*Client, error) {
	c := &Client{RunIDs: newRunIDWatcher(isCluster(opts)), opts: *opts}
	c.opts.OnConnect = c.RunIDs.onConnect
	c.UniversalClient = NewUniversal(&c.opts)
	var err error
	if c.Batched, err = AutoPipeline(c.UniversalClient); err != nil {
		_ = c.UniversalClient.Close() // it has no connection yet
		return nil, err
	}
	return c, nil
}

// clusterStateAge is how old a client's view of a cluster may get. A master that is dead or cut off sends no redirection, so
// without this its clients would ask it for up to a minute after its replica has taken over.
const clusterStateAge = time.Second

// NewUniversal is redis.NewUniversalClient, and a client of a cluster notices within a second that a slot has another master,
// also if the former one does not answer.
func NewUniversal(opts *redis.UniversalOptions) redis.UniversalClient {
	if opts.MasterName != "" || !isCluster(opts) {
		return redis.NewUniversalClient(opts)
	}
	o := opts.Cluster()
	o.ClusterStateReloadInterval = clusterStateAge
	return redis.NewClusterClient(o)
}

func isCluster(opts *redis.UniversalOptions) bool {
	return opts.IsClusterMode || opts.MasterName == "" && len(opts.Addrs) > 1
}

// ErrClusterNode is the error of a client for one server that is connected to a node of a Redis Cluster.
var ErrClusterNode = errors.New("redisclient: the server is a node of a Redis Cluster: use redis+cluster:// in the URL, or DetectCluster")

// DetectCluster sets IsClusterMode if the only address in opts is that of a node of a Redis Cluster. It connects to ask the server, unless
// opts are those of a cluster or of sentinels already.
func DetectCluster(ctx context.Context, opts *redis.UniversalOptions) error {
	if opts.MasterName != "" || isCluster(opts) {
		return nil
	}
	rdb := redis.NewUniversalClient(opts)
	defer rdb.Close()
	p, err := ask(ctx, rdb)
	opts.IsClusterMode = p.cluster
	return err
}

// Queue returns a client of the same servers for Asynq: with longer timeouts and with retries, because no request waits for
// its replies and its callers do not retry. It is the same client for all callers, and closed together with c.
func (c *Client) Queue() redis.UniversalClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil {
		opts := c.opts
		opts.OnConnect = nil
		opts.MaxRetries = 3
		opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = 2*time.Second, 3*time.Second, 3*time.Second, 4*time.Second
		c.queue = NewUniversal(&opts)
	}
	return c.queue
}

// Close closes the client and the one that Queue returned.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil {
		_ = c.queue.Close() // it writes nothing
	}
	return c.UniversalClient.Close()
}

// Unwrap returns the client of go-redis.
func (c *Client) Unwrap() redis.UniversalClient { return c.UniversalClient }

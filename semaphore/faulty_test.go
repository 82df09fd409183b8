package semaphore_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// faults are those of the way to Redis.
type faults struct {
	lossy float64
	deaf  bool
}

// dialWith is dial over a way with faults.
func dialWith(addr string, f faults) client {
	var dialer net.Dialer
	way := func(ctx context.Context, network, to string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, to)
		if err != nil {
			return nil, err
		}
		return &faultyConn{Conn: conn, faults: f}, nil
	}
	if !strings.HasPrefix(addr, "redis://") {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(addr, ","), ContextTimeoutEnabled: true, Dialer: way})
	}
	opts, err := redis.ParseURL(addr)
	if err != nil {
		panic(err)
	}
	opts.ContextTimeoutEnabled, opts.Dialer = true, way
	return redis.NewClient(opts)
}

// A faultyConn loses replies: what Redis has done is done, and its client hears nothing of it, or that the connection is broken.
type faultyConn struct {
	net.Conn
	faults faults
}

func (c *faultyConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		switch {
		case err != nil:
			return n, err
		case c.faults.deaf && bytes.Contains(b[:n], []byte("message\r\n$")):
			continue
		case rand.Float64() >= c.faults.lossy:
			return n, nil
		case rand.IntN(2) == 0:
			_ = c.Close()
			return 0, io.ErrUnexpectedEOF
		}
	}
}

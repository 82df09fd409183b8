package testenv

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Distance forwards connections to a server as if it were far away: what is sent arrives later, in both directions, however
// much is under way. Connections themselves are made at once.
type Distance struct {
	listen    net.Listener
	target    atomic.Pointer[string]
	roundTrip atomic.Int64
	wg        sync.WaitGroup
}

// NewDistance starts a Distance to a server, which ends with the test.
func NewDistance(t testing.TB, target string, roundTrip time.Duration) *Distance {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // nothing to wait for
	if err != nil {
		t.Fatal(err)
	}
	d := &Distance{listen: l}
	d.MoveTo(target)
	d.Set(roundTrip)
	d.wg.Go(d.accept)
	t.Cleanup(func() {
		_ = l.Close()
		d.wg.Wait() // the programs have ended, and with them their connections
	})
	return d
}

// Addr is where the server seems to be.
func (d *Distance) Addr() string { return d.listen.Addr().String() }

// Set changes the round trip for what is sent from now on.
func (d *Distance) Set(roundTrip time.Duration) { d.roundTrip.Store(int64(roundTrip)) }

// MoveTo makes new connections reach another server.
func (d *Distance) MoveTo(target string) { d.target.Store(&target) }

func (d *Distance) accept() {
	for {
		client, err := d.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", *d.target.Load()) //nolint:noctx // on the loopback it connects or is refused
		if err != nil {
			_ = client.Close()
			continue
		}
		d.wg.Go(func() { d.forward(server, client) })
		d.wg.Go(func() { d.forward(client, server) })
	}
}

// forward ends with the connection.
func (d *Distance) forward(to, from net.Conn) {
	type part struct {
		bytes []byte
		due   time.Time
	}
	parts := make(chan part, 1024)
	d.wg.Go(func() {
		defer close(parts)
		for {
			buffer := make([]byte, 32<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				parts <- part{buffer[:n], time.Now().Add(time.Duration(d.roundTrip.Load()) / 2)}
			}
			if err != nil {
				return
			}
		}
	})
	for p := range parts {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.bytes); err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
	for range parts { // so that the reader ends
	}
}

// Package connections bounds the connections that clients hold, so that those to Redis and Postgres, and those of other
// listeners, always find a file descriptor.
package connections

import (
	"container/list"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/netaddr"
)

const (
	idleLeast   = time.Second // a connection that is idle for less is in use
	errorsEvery = time.Second // least time between two records of failed accepts
	refusing    = 16          // refusals that are being sent; further ones are closed without an answer
	refuseIn    = 250 * time.Millisecond
)

// Options of a Bound.
type Options struct {
	Name       string                // of the listener, for the log
	Most       int                   // connections, at least 1
	PerAddress int                   // connections of one IPv4 address or IPv6 /64; 0: no bound of its own
	Exempt     func(netip.Addr) bool // addresses that PerAddress does not bound; nil: none
	Refusal    []byte                // HTTP response to a connection that is refused
	Log        *slog.Logger
}

// Stats are the numbers of a Bound. All but Open and Most only grow.
type Stats struct {
	Open, Most                  int
	RefusedFull, RefusedAddress uint64 // connections that were refused by Most, and by PerAddress
	Reclaimed                   uint64 // idle connections that were closed to make room for new ones
	AcceptErrors                uint64 // failed accepts, for lack of descriptors for example
}

// A Bound counts the connections of one listener. A new connection beyond the bound takes the place of the one that has been idle
// for longest, or is refused if none has been idle for a second. Make it with New; it is safe for concurrent use.
type Bound struct {
	opts Options

	refusals chan struct{} // one for each that is being sent

	mu        sync.Mutex
	stats     Stats
	idle      list.List           // of *conn, the longest idle first; active ones stay in it until longest unlists them
	addresses map[string]*address // by netaddr.Address
	logged    time.Time           // last record of failed accepts
	failed    int                 // accepts since then
}

// address are the connections of one address.
type address struct {
	open int
	idle list.List // like Bound.idle
}

// New returns the Bound of a listener.
func New(opts Options) *Bound {
	return &Bound{opts: opts, refusals: make(chan struct{}, refusing), stats: Stats{Most: opts.Most}, addresses: make(map[string]*address)}
}

// Stats returns the current numbers.
func (b *Bound) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// Listener returns l with the bound. Its server must call State for each change of a connection.
func (b *Bound) Listener(l net.Listener) net.Listener { return listener{l, b} }

type listener struct {
	net.Listener

	b *Bound
}

// Accept returns the next connection that is not refused.
func (l listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			l.b.fail(err)
			return nil, err
		}
		if c := l.b.admit(inner); c != nil {
			return c, nil
		}
		l.b.refuse(inner)
	}
}

// fail counts and logs an error of Accept, unless the listener was closed.
func (b *Bound) fail(err error) {
	if temporary, ok := err.(interface{ Temporary() bool }); !ok || !temporary.Temporary() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.AcceptErrors++
	b.failed++
	if now := time.Now(); now.Sub(b.logged) >= errorsEvery {
		b.opts.Log.Error("connections cannot be accepted", slog.String("listener", b.opts.Name), slog.Any("error", err),
			slog.Int("attempts", b.failed))
		b.logged, b.failed = now, 0
	}
}

// admit returns a connection with the bound, or nil if it must be refused.
func (b *Bound) admit(inner net.Conn) *conn {
	c := &conn{Conn: inner, b: b}
	remote, _ := netip.ParseAddrPort(inner.RemoteAddr().String()) // invalid on other networks, which have no addresses to bound
	bounded := b.opts.PerAddress > 0 && remote.IsValid() && (b.opts.Exempt == nil || !b.opts.Exempt(remote.Addr()))
	if bounded {
		c.address = netaddr.Address(remote.Addr())
	}
	victim, ok := b.take(c)
	if victim != nil {
		_ = victim.Close() // its server notices, and closes it again
	}
	if !ok {
		return nil
	}
	return c
}

// take counts a connection if there is room for it, and returns the idle connection that must be closed first, if any.
func (b *Bound) take(c *conn) (victim *conn, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	full, of := &b.stats.RefusedFull, &b.idle
	over := b.stats.Open >= b.opts.Most
	if a := b.addresses[c.address]; c.address != "" && a != nil && a.open >= b.opts.PerAddress {
		full, of, over = &b.stats.RefusedAddress, &a.idle, true
	}
	if over {
		if victim = b.longest(of); victim == nil {
			*full++
			return nil, false
		}
		b.stats.Reclaimed++
		b.remove(victim)
	}
	b.stats.Open++
	if c.address != "" {
		if b.addresses[c.address] == nil {
			b.addresses[c.address] = &address{}
		}
		b.addresses[c.address].open++
	}
	b.rest(c) // until its first request has arrived
	return victim, true
}

// longest returns the connection of a list that has been idle for longest, or nil if that is less than idleLeast. It unlists the active
// ones in front of it, each once for a request. The caller holds mu.
func (b *Bound) longest(idle *list.List) *conn {
	for front := idle.Front(); front != nil; front = idle.Front() {
		switch c := front.Value.(*conn); {
		case c.active.Load():
			b.unlist(c)
		case time.Since(c.since) < idleLeast:
			return nil
		default:
			return c
		}
	}
	return nil
}

// State is for http.Server.ConnState. An active connection stays listed, because it is idle again soon in most cases: so each request locks
// mu once.
func (b *Bound) State(nc net.Conn, state http.ConnState) {
	c, ok := nc.(*conn)
	switch {
	case !ok:
	case state == http.StateActive:
		c.active.Store(true)
	case state == http.StateIdle:
		b.mu.Lock()
		defer b.mu.Unlock()
		if !c.gone {
			b.rest(c)
		}
	}
}

// rest makes c the last of the idle connections. The caller holds mu.
func (b *Bound) rest(c *conn) {
	c.since = time.Now()
	c.active.Store(false)
	if c.inAll == nil {
		c.inAll = b.idle.PushBack(c)
		if c.address != "" {
			c.inAddress = b.addresses[c.address].idle.PushBack(c)
		}
		return
	}
	b.idle.MoveToBack(c.inAll)
	if c.address != "" {
		b.addresses[c.address].idle.MoveToBack(c.inAddress)
	}
}

// unlist takes c out of the lists of idle connections. The caller holds mu.
func (b *Bound) unlist(c *conn) {
	if c.inAll == nil {
		return
	}
	b.idle.Remove(c.inAll)
	if c.address != "" {
		b.addresses[c.address].idle.Remove(c.inAddress)
	}
	c.inAll, c.inAddress = nil, nil
}

// remove stops counting c. The caller holds mu.
func (b *Bound) remove(c *conn) {
	if c.gone {
		return
	}
	c.gone = true
	b.unlist(c)
	b.stats.Open--
	if c.address == "" {
		return
	}
	if a := b.addresses[c.address]; a.open > 1 {
		a.open--
	} else {
		delete(b.addresses, c.address)
	}
}

// refuse answers a connection with the refusal and closes it.
func (b *Bound) refuse(c net.Conn) {
	select {
	case b.refusals <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	go func() {
		defer func() { <-b.refusals }()
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(refuseIn))
		if _, err := c.Write(b.opts.Refusal); err != nil {
			return
		}
		if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, c) // closing with unread bytes could take the answer from the client
		}
	}()
}

// conn is a connection that is counted until it is closed.
type conn struct {
	net.Conn

	b       *Bound
	address string      // "": no bound per address
	active  atomic.Bool // a request has arrived and is answered; set without mu

	// Guarded by the Bound's mu.
	since            time.Time     // when it last became idle
	inAll, inAddress *list.Element // nil: not listed, see unlist
	gone             bool
}

// Close closes the connection.
func (c *conn) Close() error {
	c.b.mu.Lock()
	c.b.remove(c)
	c.b.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets net/http half-close the connection before it closes it, so that the response arrives.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

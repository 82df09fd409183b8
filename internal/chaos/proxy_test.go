package chaos

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy forwards connections between the product and a server. It can cut all connections, refuse new ones, and drop the
// server's replies. Safe for concurrent use.
type proxy struct {
	target string
	listen net.Listener

	mu    sync.Mutex
	pairs map[*pair]struct{} // guarded by mu
	deaf  bool               // guarded by mu
	away  bool               // new connections are refused; guarded by mu
	wg    sync.WaitGroup
}

// pair is one connection through the proxy.
type pair struct {
	client, server net.Conn
	deaf           bool // a reply was dropped, so later ones match no request any more. Guarded by proxy.mu
}

// newProxy listens on a free loopback port.
func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{target: target, listen: l, pairs: make(map[*pair]struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns the address of the proxy.
func (p *proxy) Addr() string { return p.listen.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		away := p.away
		p.mu.Unlock()
		if away { // the server must not have to do with it
			reset(client)
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			reset(client)
			continue
		}
		c := &pair{client: client, server: server}
		p.mu.Lock()
		p.pairs[c] = struct{}{}
		away = p.away
		p.mu.Unlock()
		if away {
			p.drop(c)
			continue
		}
		p.wg.Go(func() {
			_, _ = io.Copy(server, client) // the other direction notices
			p.drop(c)
		})
		p.wg.Go(func() {
			_, _ = io.Copy(&replies{p, c}, server)
			p.drop(c)
		})
	}
}

// replies is the direction from server to client.
type replies struct {
	p *proxy
	c *pair
}

func (r *replies) Write(b []byte) (int, error) {
	r.p.mu.Lock()
	r.c.deaf = r.c.deaf || r.p.deaf
	deaf := r.c.deaf
	r.p.mu.Unlock()
	if deaf {
		return len(b), nil
	}
	return r.c.client.Write(b)
}

// drop ends a connection on both sides.
func (p *proxy) drop(c *pair) {
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
	reset(c.client)
	reset(c.server)
}

// reset closes a connection with a RST, as a crash does.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// Cut ends all current connections; new ones are accepted.
func (p *proxy) Cut() int {
	p.mu.Lock()
	var all []*pair
	for c := range p.pairs {
		all = append(all, c)
	}
	p.mu.Unlock()
	for _, c := range all {
		p.drop(c)
	}
	return len(all)
}

// Deafen drops all replies from now on: the server executes requests, and the client gets no response.
func (p *proxy) Deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = true
}

// Hear ends Deafen, and closes the connections that lack a reply.
func (p *proxy) Hear() {
	p.mu.Lock()
	p.deaf = false
	var lacking []*pair
	for c := range p.pairs {
		if c.deaf {
			lacking = append(lacking, c)
		}
	}
	p.mu.Unlock()
	for _, c := range lacking {
		p.drop(c)
	}
}

// Refuse cuts all connections and resets new ones, as if the server were down, until Admit.
func (p *proxy) Refuse() {
	p.mu.Lock()
	p.away = true
	p.mu.Unlock()
	p.Cut()
}

// Admit ends Refuse.
func (p *proxy) Admit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = false
}

func (p *proxy) close() {
	_ = p.listen.Close()
	p.Refuse()
	p.wg.Wait()
}

// echo answers each byte with the same.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

func TestProxy(t *testing.T) {
	p, err := newProxy(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		return c
	}
	ask := func(c net.Conn) error {
		if _, err := c.Write([]byte{1}); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	first := dial()
	if err := ask(first); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if ask(first) == nil {
		t.Error("a connection that was cut answers")
	}
	second := dial()
	if err := ask(second); err != nil {
		t.Fatalf("after a cut: %v", err)
	}
	p.Deafen()
	answered := make(chan error)
	go func() { answered <- ask(second) }()
	third := dial()
	_ = third.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if ask(third) == nil {
		t.Error("a reply came through")
	}
	p.Hear()
	if <-answered == nil {
		t.Error("a connection that lacks a reply goes on")
	}
	fourth := dial()
	if err := ask(fourth); err != nil {
		t.Errorf("after the replies are heard again: %v", err)
	}
	p.Refuse()
	if ask(fourth) == nil {
		t.Error("a server that is away answers an old connection")
	}
	if fifth, err := net.Dial("tcp", p.Addr()); err == nil { // it may be reset before
		_ = fifth.SetDeadline(time.Now().Add(10 * time.Second))
		if ask(fifth) == nil {
			t.Error("a server that is away answers a new connection")
		}
		_ = fifth.Close()
	}
	p.Admit()
	if err := ask(dial()); err != nil {
		t.Errorf("when it is back: %v", err)
	}
}

package chaos

import (
	"io"
	"net"
	"testing"
	"time"
)

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

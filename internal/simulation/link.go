package simulation

import (
	"bytes"
	"errors"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var errCut = errors.New("simulation: the link is cut")

// links are the connections of a process with Redis.
type links struct {
	chance *chance
	slow   atomic.Int64 // how long a message takes at most, in addition, in nanoseconds
	cutIn  atomic.Int64 // a message is lost once in so many, with its connection; 0: never
	down   atomic.Bool  // no connection can be made
	until  atomic.Int64 // nothing arrives before this time, in nanoseconds since 1970

	mu   sync.Mutex
	open []*link // in the order in which they were made; guarded by mu
}

func (l *links) dial(to *redisServer) (net.Conn, error) {
	time.Sleep(l.chance.upTo(time.Millisecond) + l.held())
	if l.down.Load() {
		return nil, errCut
	}
	conn, err := to.Dial()
	if err != nil {
		return nil, err
	}
	made := &link{Conn: conn, of: l, to: to, more: make(chan struct{}, 1)}
	l.mu.Lock()
	l.open = append(l.open, made)
	l.mu.Unlock()
	go made.receive()
	return made, nil
}

// held returns how long a message takes that is on its way now, because nothing arrives.
func (l *links) held() time.Duration {
	return max(0, time.Duration(l.until.Load()-time.Now().UnixNano()))
}

// hold lets nothing arrive for a while.
func (l *links) hold(d time.Duration) { l.until.Store(time.Now().Add(d).UnixNano()) }

// delay is how long a message takes.
func (l *links) delay() time.Duration {
	return l.chance.upTo(300*time.Microsecond+time.Duration(l.slow.Load())) + l.held()
}

// cut closes all connections.
func (l *links) cut() { l.cutIf(func(*link) bool { return true }) }

// cutFrom closes the connections with a server.
func (l *links) cutFrom(r *redisServer) { l.cutIf(func(of *link) bool { return of.to == r }) }

func (l *links) cutIf(meant func(*link) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = slices.DeleteFunc(l.open, func(of *link) bool {
		if !meant(of) {
			return false
		}
		_ = of.Conn.Close()
		return true
	})
}

// link is one connection. What the server sends is received at once and kept, as a kernel would: a pipe without a buffer blocks a server
// whose client is still sending, and then both. A reply on its way does not delay those that follow it.
type link struct {
	net.Conn

	of   *links
	to   *redisServer
	more chan struct{} // something was received

	mu       sync.Mutex
	received []message // in the order in which they arrive; guarded by mu
	deadline time.Time // of reading; guarded by mu
}

// message is what the server sent at once.
type message struct {
	arrives time.Time
	data    []byte
	err     error // after the data
}

// receive gives each message the time when it arrives, and loses some replies: all of it, or all but its beginning.
func (l *link) receive() {
	b := make([]byte, 1<<14)
	var last time.Time
	for {
		n, err := l.Conn.Read(b)
		if err == nil && l.of.chance.oneIn(int(l.of.cutIn.Load())) {
			n, err = l.of.chance.between(0, n-1), errCut
			_ = l.Close()
		}
		if arrives := time.Now().Add(l.of.delay()); arrives.After(last) {
			last = arrives
		}
		if n == 0 && err == nil {
			continue
		}
		l.mu.Lock()
		l.received = append(l.received, message{last, bytes.Clone(b[:n]), err})
		l.mu.Unlock()
		select {
		case l.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (l *link) Read(b []byte) (int, error) {
	for {
		n, wait, err := l.arrived(b)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-l.more:
		case <-time.After(wait):
		}
	}
}

// arrived reads what has arrived, or returns after what time to try again.
func (l *link) arrived(b []byte) (n int, wait time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait = math.MaxInt64
	if len(l.received) > 0 {
		first := &l.received[0]
		if wait = max(time.Until(first.arrives), l.of.held()); wait <= 0 {
			n = copy(b, first.data)
			first.data = first.data[n:]
			if n == 0 {
				return 0, 0, first.err // and for each Read that follows
			}
			if len(first.data) == 0 && first.err == nil {
				l.received = l.received[1:]
			}
			return n, 0, nil
		}
	}
	if !l.deadline.IsZero() {
		left := time.Until(l.deadline)
		if left <= 0 {
			return 0, 0, os.ErrDeadlineExceeded
		}
		wait = min(wait, left)
	}
	return 0, wait, nil
}

// Write takes a while, and loses some requests: all of it, or all but its beginning.
func (l *link) Write(b []byte) (int, error) {
	time.Sleep(l.of.delay())
	if l.of.chance.oneIn(int(l.of.cutIn.Load())) {
		_, _ = l.Conn.Write(b[:l.of.chance.between(0, len(b)-1)]) // whether it arrives or not
		_ = l.Close()
		return 0, errCut
	}
	return l.Conn.Write(b)
}

// SetDeadline sets those of reading and of writing.
func (l *link) SetDeadline(at time.Time) error {
	return errors.Join(l.SetReadDeadline(at), l.SetWriteDeadline(at))
}

// SetReadDeadline is for the next Read.
func (l *link) SetReadDeadline(at time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = at
	return nil
}

func (l *link) Close() error {
	l.of.mu.Lock()
	l.of.open = slices.DeleteFunc(l.of.open, func(other *link) bool { return other == l })
	l.of.mu.Unlock()
	return l.Conn.Close()
}

package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
)

// Listener turns the errors that net/http answers by itself, without calling a handler, into problems: for requests that it
// cannot read, and for unknown expectations. It has no hook for that, so they are recognized as they are written. A request
// whose header does not arrive in time gets no response.
func Listener(l net.Listener) net.Listener { return problemListener{l} }

type problemListener struct{ net.Listener }

func (l problemListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &problemConn{Conn: c}, nil
}

type problemConn struct {
	net.Conn

	late atomic.Bool // the latest read ended at its deadline
}

func (c *problemConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.late.Store(errors.Is(err, os.ErrDeadlineExceeded))
	return n, err
}

func (c *problemConn) Write(b []byte) (int, error) {
	answer := ownProblem(b)
	switch {
	case answer == nil:
		return c.Conn.Write(b)
	case c.late.Load(): // net/http takes the part that has arrived for the request, and clients must not: they may send it again
		return 0, os.ErrDeadlineExceeded
	}
	if _, err := c.Conn.Write(answer); err != nil {
		return 0, err
	}
	return len(b), nil
}

// CloseWrite lets net/http half-close the connection before it closes it, so that the response arrives.
func (c *problemConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// What net/http writes in one piece. Handlers write nothing like it: none sends these statuses as plain text, or 417 at all.
const (
	ownStatusLine = "HTTP/1.1 "
	ownFields     = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	ownMost       = 512 // bytes
)

// reasonsOfOwn are the problems for the statuses that net/http sends by itself.
var reasonsOfOwn = map[string]string{
	"400": problem.Malformed, "417": problem.Expectation, "431": problem.HeaderTooLarge, "501": problem.TransferCoding,
	"505": problem.HTTPVersion,
}

// ownProblem returns the response that replaces what net/http is about to write, or nil if a handler wrote that.
func ownProblem(b []byte) []byte {
	if len(b) < len(ownStatusLine)+3 || len(b) > ownMost || !bytes.HasPrefix(b, []byte(ownStatusLine)) {
		return nil
	}
	reason, ok := reasonsOfOwn[string(b[len(ownStatusLine):len(ownStatusLine)+3])]
	if !ok {
		return nil // almost every answer, so nothing may be allocated before
	}
	line, _, _ := strings.Cut(string(b), "\r\n")
	code := line[len(ownStatusLine) : len(ownStatusLine)+3]
	if code != strconv.Itoa(http.StatusExpectationFailed) && !bytes.Contains(b, []byte(ownFields)) {
		return nil
	}
	p := problem.New(reason)
	if _, detail, ok := strings.Cut(line, ": "); ok {
		p.Detail = detail
	}
	return raw(code, p, "")
}

// raw returns a problem as it is sent over a connection that then ends; fields are further header fields, each with its line end.
func raw(code string, p *problem.Problem, fields string) []byte {
	body, _ := json.Marshal(p) // of strings and a number: cannot fail
	return fmt.Appendf(nil, "%s%s %s\r\nContent-Type: application/problem+json\r\nCache-Control: no-store\r\n%sConnection: "+
		"close\r\nContent-Length: %d\r\n\r\n%s",
		ownStatusLine, code, http.StatusText(p.Status), fields, len(body), body)
}

// TooManyConnections returns the response to a connection that a listener has no room for.
func TooManyConnections() []byte {
	p := problem.New(problem.AtCapacity)
	p.Detail = "Too many connections are open."
	return raw(strconv.Itoa(p.Status), p, "Retry-After: 1\r\n")
}

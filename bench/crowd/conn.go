// Package crowd sends HTTP requests from within the process, with as little CPU as Go allows, since it shares the machine with the
// measured programs.
package crowd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// answerWithin is the timeout of a request.
const answerWithin = 30 * time.Second

// Answer is the response to a request.
type Answer struct {
	Status     int           // 0: no response
	RetryAfter time.Duration // 0: not in the response
	Body       []byte        // valid until the connection's next request
}

// A conn sends requests one after the other over one connection, which it opens on demand. It must not be used concurrently.
type conn struct {
	addr string
	c    net.Conn
	r    *bufio.Reader
	body []byte
}

func (c *conn) close() {
	if c.c != nil {
		_ = c.c.Close()
		c.c = nil
	}
}

// do sends a request and reads its response. After an error the next request opens a new connection.
func (c *conn) do(ctx context.Context, request []byte) (a Answer, err error) {
	if c.c == nil {
		if c.c, err = (&net.Dialer{Timeout: answerWithin}).DialContext(ctx, "tcp", c.addr); err != nil {
			c.c = nil
			return a, err
		}
		c.r = bufio.NewReader(c.c)
	}
	if err = c.c.SetDeadline(time.Now().Add(answerWithin)); err == nil {
		if _, err = c.c.Write(request); err == nil {
			a, err = c.read()
		}
	}
	if err != nil {
		c.close()
	}
	return a, err
}

var errNotHTTP = errors.New("the answer is not HTTP/1.1 with a Content-Length")

// read parses responses of the measured programs: HTTP/1.1, with a Content-Length if there is a body.
func (c *conn) read() (a Answer, err error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return a, errNotHTTP
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return a, errNotHTTP
	}
	length, last := -1, false
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return a, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return a, errNotHTTP
			}
		case bytes.EqualFold(name, []byte("Retry-After")):
			seconds, err := strconv.Atoi(string(value))
			if err != nil {
				return a, fmt.Errorf("Retry-After: %q", value)
			}
			a.RetryAfter = time.Duration(seconds) * time.Second
		case bytes.EqualFold(name, []byte("Connection")):
			last = bytes.EqualFold(value, []byte("close"))
		}
	}
	if length < 0 && status != 204 && status != 304 {
		return a, errNotHTTP
	}
	if length > cap(c.body) {
		c.body = make([]byte, length)
	}
	a.Body = c.body[:max(0, length)]
	if _, err = io.ReadFull(c.r, a.Body); err != nil {
		return a, err
	}
	if a.Status = status; last {
		c.close()
	}
	return a, nil
}

// Request builds a request. headers are alternating names and values; a body is sent as JSON.
func Request(method, path, body string, headers ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	for i := 0; i < len(headers); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", headers[i], headers[i+1])
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

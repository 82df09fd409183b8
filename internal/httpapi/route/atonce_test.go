package route

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAtOnce(t *testing.T) {
	n := NewAtOnce(3, 2)
	for i, step := range []struct {
		address string
		ends    bool
		status  int // 0: it begins
	}{
		{"a", false, 0},
		{"a", false, 0},
		{"a", false, 429},
		{"b", false, 0},
		{"c", false, 503},
		{"a", false, 429},
		{"a", true, 0},
		{"c", false, 0},
		{"b", false, 503},
		{"c", true, 0},
		{"b", true, 0},
		{"a", true, 0},
	} {
		if step.ends {
			n.End(step.address)
			continue
		}
		status := 0
		if err := n.Begin(step.address); err != nil {
			status = problem.Of(err).Status
		}
		if status != step.status {
			t.Errorf("step %d: %d, want %d", i, status, step.status)
		}
	}
	if n.Len() != 0 || len(n.byAddress) != 0 {
		t.Errorf("%d, %v are counted after their end", n.Len(), n.byAddress)
	}
}

// lastingServer serves an answer that lasts at /open for a stranger, and at /revoked for a caller whose token is in no list any more.
func lastingServer(t *testing.T, answer echo.HandlerFunc) *httptest.Server {
	t.Helper()
	tokens, err := auth.NewTokens("token-of-an-operator", "")
	if err != nil {
		t.Fatal(err)
	}
	e := echo.New()
	for path, guard := range map[string]*auth.Guard{"/open": nil, "/revoked": auth.NewGuard(tokens, nil, auth.Proxies{})} {
		e.GET(path, answer, func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				r := &request.Info{Guard: guard, HTTP: c.Request(), Echo: c}
				c.SetRequest(c.Request().WithContext(request.NewContext(c.Request().Context(), r)))
				return next(c)
			}
		}, lasting)
	}
	s := httptest.NewUnstartedServer(e)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// TestALastingAnswerNotRead: a client that reads nothing does not keep an answer beyond its token.
func TestALastingAnswerNotRead(t *testing.T) {
	ended := make(chan error, 1)
	s := lastingServer(t, func(c echo.Context) error {
		var err error
		for err == nil {
			if err = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(time.Minute)); err == nil {
				_, err = c.Response().Write(make([]byte, 1<<20))
			}
		}
		ended <- err
		return nil
	})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "GET /revoked HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the answer goes on")
	}
}

// TestLastingAnswersLeft: clients leave answers at any moment, also while these end, over HTTP/2, where nothing may touch a response after its
// handler: the server would crash.
func TestLastingAnswersLeft(t *testing.T) {
	s := lastingServer(t, func(c echo.Context) error {
		if _, err := c.Response().Write([]byte("first")); err != nil {
			return err
		}
		c.Response().Flush()
		<-c.Request().Context().Done()
		return nil
	})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	visit := func(path string, leave time.Duration) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		time.Sleep(leave)
	}
	var g sync.WaitGroup
	for n := range 20 {
		g.Go(func() {
			for range 50 {
				visit("/open", 0)
			}
			visit("/revoked", 490*time.Millisecond+time.Duration(n)*time.Millisecond) // which is asked after 500
		})
	}
	g.Wait()
}

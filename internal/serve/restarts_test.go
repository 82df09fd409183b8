package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// Two APIs are restarted in turn, with SLOW=1 ten times each, while buyers order, read and wait: bare, and behind the proxies of docs/proxies.md. No answer
// is 5xx, and no connection breaks under a request; Caddy is only shown to pass on orders.
func TestRollingRestarts(t *testing.T) {
	t.Parallel()
	addrs := []string{testenv.FreeAddr(), testenv.FreeAddr()}
	installation := environment(testenv.Redis(t), databases.Postgres(t))
	env := func(i int) func(string) string {
		return func(name string) string {
			switch name {
			case "LISTEN":
				return addrs[i]
			case "REDIS_TIMEOUT": // a busy machine is no restart
				return "1s"
			case "TRUSTED_PROXIES":
				return "127.0.0.1"
			}
			return installation(name)
		}
	}
	startWorker(t, installation)
	apis := [2]*servetest.Program{startAPI(t, env(0)), startAPI(t, env(1))}
	s := openShop(t, apis[0], 1_000_000)
	servetest.AwaitOpen(t, apis[1].URL("internal"), "concert")
	began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	if a := servetest.Call("PUT", s.URL("internal")+"/v1/rooms/concert", fmt.Sprintf(`{"mode":"fifo","starts_at":%q,"rate_per_min":600000}`, began)); a.Status/100 != 2 {
		t.Fatal(a)
	}

	nginx, caddy := startNginx(t, addrs), startCaddy(t, addrs)
	for try := 0; ; try++ {
		crowds := []*crowd{{name: "bare", addrs: addrs}, {name: "nginx", addrs: []string{nginx}}, {name: "Caddy", addrs: []string{caddy}, lossy: true}}
		stop := make(chan struct{})
		var buying sync.WaitGroup
		for _, c := range crowds {
			for i := range 4 {
				buying.Go(func() { c.buy(stop, fmt.Sprintf("%s-%d-%d", c.name, try, i)) })
			}
		}
		var slowest time.Duration
		buying.Go(func() { slowest = slowestAnswer(t, installation("REDIS_URL"), stop) })
		for i := range testenv.Size(6, 20) {
			if err := apis[i%2].Stop(); err != nil {
				t.Error(err)
			}
			apis[i%2] = startAPI(t, env(i%2))
			apis[i%2].Addr("public")
			for _, c := range crowds { // both take orders between two restarts
				until := c.accepted.Load() + 8
				servetest.Until(t, http.StatusOK, func() servetest.Answer {
					if c.accepted.Load() < until {
						return servetest.Answer{}
					}
					return servetest.Answer{Status: http.StatusOK}
				})
			}
		}
		close(stop)
		buying.Wait()
		broken := 0
		for _, c := range crowds {
			t.Logf("%s: %d calls, %d orders, %d refused connections", c.name, c.calls.Load(), c.accepted.Load(), c.refused.Load())
			for what, n := range c.broken {
				if t.Logf("%s: %d times %s", c.name, n, what); !c.lossy {
					broken += n
				}
			}
		}
		if broken == 0 {
			return
		}
		if t.Logf("Redis answered within %v", slowest); slowest < 300*time.Millisecond || try == 2 {
			t.Fatalf("%d requests broke", broken)
		}
	}
}

// slowestAnswer returns how long Redis' slowest answer took until stop: on a machine that stands still for a while, requests break without a restart.
func slowestAnswer(t *testing.T, url string, stop <-chan struct{}) (slowest time.Duration) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Error(err)
		return 0
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-stop:
			return slowest
		case <-time.After(5 * time.Millisecond):
		}
		_ = rdb.Ping(t.Context()).Err() // as slow as an answer
		slowest = max(slowest, time.Since(last))
	}
}

// crowd is buyers who keep their connections, as browsers do.
type crowd struct {
	name                     string
	addrs                    []string // where they call; one that refuses a connection is passed over
	lossy                    bool     // the proxy itself answers 5xx if it was too busy to look at the servers
	calls, accepted, refused atomic.Int64

	mu     sync.Mutex
	broken map[string]int // what happened, and how often; guarded by mu
}

func (c *crowd) buy(stop <-chan struct{}, name string) {
	var conn *kept
	defer func() { conn.close() }()
	for n := 0; ; n++ {
		user := fmt.Sprintf("%s-%d", name, n)
		if n%3 == 0 { // somebody else, who may find a server that is about to close
			conn.close()
			conn = nil
		}
		for _, call := range []struct{ method, path, body string }{
			{"POST", "/v1/sales/concert/orders", `{"item":"ticket"}`},
			{"GET", "/v1/sales/concert", ""},
			{"POST", "/v1/rooms/concert/place", "{}"},
			{"GET", "/v1/rooms/concert/place?wait_ms=20", ""},
		} {
			select {
			case <-stop:
				return
			default:
			}
			if conn == nil {
				if conn = c.dial(); conn == nil {
					time.Sleep(time.Millisecond) // neither takes connections, which is no broken one
					continue
				}
			}
			c.calls.Add(1)
			status, body, closes, err := conn.call(call.method, call.path, call.body, user)
			switch {
			case err != nil:
				c.broke(fmt.Sprintf("%s %s: %v", call.method, call.path, err))
			case status >= 500:
				c.broke(fmt.Sprintf("%s %s: %d %s", call.method, call.path, status, body))
			case status == http.StatusAccepted:
				c.accepted.Add(1)
			}
			if err != nil || closes {
				conn.close()
				conn = nil
			}
		}
	}
}

func (c *crowd) broke(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.broken = make(map[string]int)
	}
	c.broken[what]++
}

// dial connects to one of the addresses; nil: none takes connections.
func (c *crowd) dial() *kept {
	for _, i := range rand.Perm(len(c.addrs)) {
		conn, err := net.Dial("tcp", c.addrs[i])
		if err == nil {
			return &kept{conn, bufio.NewReader(conn)}
		}
		// A connection that was made as the listener closed is reset before anything is sent, which is a refusal too.
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) {
			c.broke(err.Error())
		}
		c.refused.Add(1)
	}
	return nil
}

// kept is a connection over which one request follows the other. net/http's client would repeat a request that it got no answer to.
type kept struct {
	net.Conn
	answers *bufio.Reader
}

func (k *kept) close() {
	if k != nil {
		_ = k.Close()
	}
}

func (k *kept) call(method, path, body, user string) (status int, answer string, closes bool, err error) {
	req, err := http.NewRequest(method, "http://"+k.RemoteAddr().String()+path, strings.NewReader(body))
	if err != nil {
		return 0, "", false, err
	}
	req.Header = http.Header{"X-User-Id": {user}, "Content-Type": {"application/json"}}
	_ = k.SetDeadline(time.Now().Add(time.Minute))
	if err := req.Write(k); err != nil {
		return 0, "", false, err
	}
	resp, err := http.ReadResponse(k.answers, req)
	if err != nil {
		return 0, "", false, err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(read), resp.Close, err
}

// proxyRecipe returns the block of docs/proxies.md in a language, for two APIs.
func proxyRecipe(t *testing.T, language string, apis []string) string {
	t.Helper()
	blocks := servetest.Recipes(t, "proxies.md", language)
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of %s", len(blocks), language)
	}
	return servetest.Replace(t, blocks[0], "10.0.0.11:8080", apis[0], "10.0.0.12:8080", apis[1])
}

func startNginx(t *testing.T, apis []string) (addr string) {
	addr, dir := testenv.FreeAddr(), t.TempDir()
	servetest.Write(t, dir, "recipe.conf", servetest.Replace(t, proxyRecipe(t, "nginx", apis), "listen 80;", "listen "+addr+";", `X-User-ID ""`, "X-User-ID $http_x_user_id"))
	servetest.Nginx(t, addr, dir)
	return addr
}

func startCaddy(t *testing.T, apis []string) (addr string) {
	addr, dir := testenv.FreeAddr(), t.TempDir()
	recipe := servetest.Replace(t, proxyRecipe(t, "caddyfile", apis), "http://:80", "http://"+addr, "header_up -X-User-ID", "header_up +X-Seen 1")
	servetest.Caddy(t, addr, dir, recipe)
	return addr
}

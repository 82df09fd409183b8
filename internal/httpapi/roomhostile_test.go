package httpapi

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/waitingroom"
)

// counting opens connections to a database, and counts their statements and transactions.
type counting struct {
	driver driver.Driver
	dsn    string
	n      *atomic.Int64
}

func (c counting) Driver() driver.Driver { return c.driver }

func (c counting) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	return countingConn{conn, c.n}, err
}

type countingConn struct {
	driver.Conn

	n *atomic.Int64
}

func (c countingConn) Prepare(query string) (driver.Stmt, error) {
	c.n.Add(1)
	return c.Conn.Prepare(query)
}

func (c countingConn) Begin() (driver.Tx, error) {
	c.n.Add(1)
	return c.Conn.Begin() //nolint:staticcheck // the one that every driver has
}

// W34: requests with names, bodies or tokens that nobody can have are refused without a statement of the database.
func TestHostileRequestsCostNothing(t *testing.T) {
	plain, err := sql.Open("sqlite", "")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	var statements atomic.Int64
	db := sql.OpenDB(counting{plain.Driver(), databases.SQLite(t), &statements})
	defer db.Close()
	rooms := waitingroom.New(waitingroom.SQLite(db, &sync.Mutex{}), waitingroom.Options{Secret: []byte(strings.Repeat("r", 32))})
	b := setup(t, func(cfg *Config) { cfg.Rooms = rooms })
	h, operate := b.Public(), b.Internal()
	call(operate, "PUT", door, definitionOf("fifo", -time.Minute, ""))
	call(operate, "PUT", "/v1/rooms/open", definitionOf("fifo", -time.Minute, `,"requires_user":false`))
	const open = "/v1/rooms/open/place"
	long := strings.Repeat("x", 5000)
	nobody := []string{"X-User-ID", ""}
	byToken := func(token string) []string { return append(nobody[:2:2], "X-Place-Token", token) }
	token := into[seen](t, call(h, "POST", open, "", nobody...)).Token
	forged := token[:10] + map[bool]string{true: "B", false: "A"}[token[10] == 'A'] + token[11:]
	for _, tt := range []struct {
		method, path, body string
		fields             []string
	}{
		{"GET", "/v1/rooms/UPPER", "", nil},
		{"GET", "/v1/rooms/UPPER/place", "", nil},
		{"POST", "/v1/rooms/UPPER/place", "", nil},
		{"POST", "/v1/rooms/UPPER/place/claim", "", nil},
		{"DELETE", "/v1/rooms/UPPER/place", "", nil},
		{"GET", "/v1/rooms/UPPER/events", "", nil},
		{"GET", "/v1/rooms/UPPER/draw.csv", "", nil},
		{"GET", "/v1/rooms/%00%ff%2F..", "", nil},
		{"GET", "/v1/rooms/%27%20OR%201=1--", "", nil},
		{"GET", "/v1/rooms/" + long, "", nil},
		{"POST", "/v1/rooms/" + long + "/place", "", nil},
		{"POST", doorPlace, "", nobody},
		{"GET", doorPlace, "", nobody},
		{"POST", doorPlace + "/claim", "", nobody},
		{"DELETE", doorPlace, "", nobody},
		{"GET", doorPlace, "", []string{"X-User-ID", "a\u200bb"}},
		{"POST", doorPlace, "", []string{"X-User-ID", long}},
		{"DELETE", doorPlace, "", []string{"X-User-ID", "a\xffb"}},
		{"POST", doorPlace, `{"quantity":0}`, nil},
		{"POST", doorPlace, `{"quantity":1e99}`, nil},
		{"POST", doorPlace, `{"quantity":1,"quantity":2}`, nil},
		{"POST", doorPlace, `{"user":"bob"}`, nil},
		{"POST", doorPlace, strings.Repeat(`{"a":`, 10_000), nil},
		{"POST", doorPlace, strings.Repeat(" ", 70_000), nil},
		{"POST", doorPlace, `{}`, []string{"Content-Type", "text/plain"}},
		{"POST", doorPlace, "", []string{"Sec-Fetch-Site", "cross-site"}},
		{"GET", doorPlace + "?wait_ms=-1", "", nil},
		{"GET", doorPlace + "?while=asleep", "", nil},
		{"GET", open, "", byToken(strings.Repeat("A", 9000))},
		{"GET", open, "", byToken(forged)},
		{"POST", open + "/claim", "", byToken(forged)},
		{"DELETE", open, "", byToken(forged)},
		{"DELETE", open, "", byToken("%00")},
		{"DELETE", open, "", nobody},
	} {
		if _, err := rooms.Rooms(t.Context()); err != nil { // reads them: the copy is new
			t.Fatal(err)
		}
		statements.Store(0)
		w := call(h, tt.method, tt.path, tt.body, tt.fields...)
		if n := statements.Load(); w.Code < 400 || w.Code >= 500 || n > 0 {
			t.Errorf("%s %.60s %.40s %.40q: %d after %d statements: %.200s", tt.method, tt.path, tt.body, tt.fields, w.Code, n, w.Body)
		}
	}
	if call(h, "GET", doorPlace, "", "X-User-ID", "bob"); statements.Load() != 1 {
		t.Errorf("%d statements of somebody who has not joined", statements.Load())
	}
}

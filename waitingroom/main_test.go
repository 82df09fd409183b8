package waitingroom_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
	"github.com/tidegate/tidegate/waitingroom/memory"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// shop is a Stock with one item, in memory.
type shop struct {
	mu        sync.Mutex
	free      int
	final     bool
	unsettled bool
	away      bool
	sale      waitingroom.SaleState
	lag       time.Duration
	room      string
	admitted  map[string]int       // user → units
	revoked   map[string]time.Time // user → when the user was admitted
	orders    map[string]string    // user → order
	admitting func()               // called before each Admit
	guarding  func()               // called before each Guard
	stuck     bool                 // Unguard fails
	looks     int                  // calls of Look
	deaf      string               // user, of whom nothing can be revoked
}

func newShop(free int) *shop {
	return &shop{free: free, admitted: map[string]int{}, revoked: map[string]time.Time{}, orders: map[string]string{}}
}

func (s *shop) Quota(context.Context, string, string) (int, error) { return 4, nil }

func (s *shop) Guard(_ context.Context, _, _, room string) error {
	if s.guarding != nil {
		s.guarding()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = room
	return nil
}

func (s *shop) Unguard(context.Context, string, string, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck {
		return waitingroom.ErrUnavailable
	}
	s.room = ""
	return nil
}

func (s *shop) Admit(_ context.Context, _, _, _, user string, since time.Time, quantity int, _ time.Duration) error {
	if s.admitting != nil {
		s.admitting()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orders[user] == "" && s.revoked[user].Before(since) {
		s.admitted[user] = quantity
	}
	return nil
}

func (s *shop) Revoke(_ context.Context, _, _, _, user string, since time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if user == s.deaf {
		return false, waitingroom.ErrUnavailable
	}
	delete(s.admitted, user)
	s.revoked[user] = since
	return s.orders[user] != "", nil
}

func (s *shop) Look(_ context.Context, _, _, room string, users []string, since []time.Time) (waitingroom.Supply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if s.away {
		return waitingroom.Supply{}, fmt.Errorf("%w: away", waitingroom.ErrUnavailable)
	}
	if s.room != room {
		return waitingroom.Supply{}, fmt.Errorf("%w: the item has the room %q", waitingroom.ErrConflict, s.room)
	}
	used := make([]string, len(users))
	for i, user := range users {
		if used[i] = s.orders[user]; used[i] == "" && !s.revoked[user].Before(since[i]) {
			used[i] = waitingroom.Revoked
		}
	}
	return waitingroom.Supply{Free: s.free, Final: s.final, Lag: s.lag, Sale: s.sale, Used: used}, nil
}

func (s *shop) Unsettled(context.Context, string, string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsettled, nil
}

func (s *shop) set(sale waitingroom.SaleState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sale = sale
}

func (s *shop) add(units int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += units
}

// guardedBy returns the room of the item.
func (s *shop) guardedBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room
}

// order orders what the user was admitted for. It returns false if the user may not, or nothing is left.
func (s *shop) order(user string) (admitted, got bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.admitted[user]
	if n == 0 {
		return false, false
	}
	if s.free < n {
		return true, false
	}
	s.free -= n
	delete(s.admitted, user)
	s.orders[user] = "order of " + user
	return true, true
}

func inSQLite(db *sql.DB) waitingroom.Store { return waitingroom.SQLite(db, &sync.Mutex{}) }

// inMemory is a store whose clock and faults tests set, as Service.SetClock and Replace set them of a database.
type inMemory struct {
	*memory.Store

	at     atomic.Int64 // Unix ms; 0: the clock's
	around atomic.Pointer[func(op memory.Op, do func() error) error]
}

func newInMemory() *inMemory {
	m := &inMemory{}
	m.Store = memory.New(memory.Options{
		Now: func() time.Time {
			if at := m.at.Load(); at != 0 {
				return time.UnixMilli(at)
			}
			return time.Now()
		},
		Faults: memory.Faults{Around: func(_ context.Context, op memory.Op, do func() error) error {
			if around := m.around.Load(); around != nil {
				return (*around)(op, do)
			}
			return do()
		}},
	})
	return m
}

func (m *inMemory) SetClock(at time.Time) {
	m.at.Store(at.UnixMilli())
	m.around.Store(nil)
}

// each runs test over both databases, and in memory.
func each(t *testing.T, test func(t *testing.T, h *house)) {
	t.Run("memory", func(t *testing.T) { test(t, &house{T: t, store: newInMemory(), shop: newShop(1000)}) })
	databases.Each(t, waitingroom.Postgres, inSQLite, func(t *testing.T, db *sql.DB, open func(*sql.DB) waitingroom.Store) {
		test(t, &house{T: t, db: db, store: open(db), shop: newShop(1000)})
	})
}

// onPostgres runs a test of what is in no statement, over Postgres alone: SQLite is slow with the race detector.
func onPostgres(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	db, err := sql.Open("pgx", databases.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	test(t, &house{T: t, db: db, store: waitingroom.Postgres(db), shop: newShop(1000)})
}

var secret = []byte("0123456789abcdef0123456789abcdef")

// house is an installation with one room.
type house struct {
	*testing.T

	db     *sql.DB // nil: the store is in memory
	store  waitingroom.Store
	shop   *shop
	banned map[string]string
	bans   func(user string) string // instead of banned
	relay  func(ctx context.Context, round int64) (signature string, err error)
	rooms  *waitingroom.Service
	at     time.Time // by the clock of rooms
}

// few is n, or a tenth of it over SQLite, whose statements are the same, and in memory, which the race detector makes slow.
func (h *house) few(n int64) int64 {
	if !strings.HasSuffix(h.Name(), "/pgx") {
		return n / 10
	}
	return n
}

// process is another process of the installation.
func (h *house) process() *waitingroom.Service {
	return waitingroom.New(h.store, waitingroom.Options{
		Secret: secret, Stock: h.shop, KeepAfterEnd: 30 * 24 * time.Hour, Logger: slog.New(slog.DiscardHandler), Banned: func(user string) (why, by string) {
			if h.bans != nil {
				return h.bans(user), "rule x"
			}
			return h.banned[user], "rule x"
		},
		Beacon: h.relay,
	})
}

const name = "shoes"

// open makes the room, which started a minute ago unless change says something else.
func (h *house) open(change func(*waitingroom.Definition)) {
	h.Helper()
	d := waitingroom.Definition{
		Room: name, Sale: "spring", Item: "shoe", Mode: waitingroom.ModeFIFO, GatherAt: time.Now().Add(-2 * time.Minute),
		StartsAt: time.Now().Add(-time.Minute), ClaimWindow: time.Minute, PassLifetime: time.Minute, Bound: waitingroom.BoundStrict, RequiresUser: true,
	}
	change(&d)
	h.rooms, h.at = h.process(), time.Now()
	h.jump(0)
	if _, created, err := h.rooms.Put(h.Context(), d); err != nil || !created {
		h.Fatal(created, err)
	}
}

func user(name string) waitingroom.Visitor { return waitingroom.Visitor{User: name} }

func (h *house) join(who ...string) {
	h.Helper()
	for _, name := range who {
		h.joined(name)
	}
}

func (h *house) joined(who string) waitingroom.Place {
	h.Helper()
	p, err := outcome(h.rooms.Join(h.Context(), name, user(who), 1))
	if err != nil {
		h.Fatal(err)
	}
	return p
}

func (h *house) place(who string) waitingroom.Place {
	h.Helper()
	p, err := h.rooms.Place(h.Context(), name, user(who))
	if err != nil {
		h.Fatal(err)
	}
	return p
}

// jump sets the clock forward, while nothing runs.
func (h *house) jump(by time.Duration) {
	h.Helper()
	h.at = h.at.Add(by)
	if err := h.rooms.SetClock(h.Context(), h.at); err != nil {
		h.Fatal(err)
	}
}

// tick sets the clock forward, and does a round.
func (h *house) tick(by time.Duration) {
	h.Helper()
	h.jump(by)
	if err := h.rooms.Turn(h.Context()); err != nil {
		h.Fatal(err)
	}
}

// later sets the clock forward, does a round for each two seconds, and verifies the room.
func (h *house) later(by time.Duration) {
	h.Helper()
	for ; by > 0; by -= 2 * time.Second {
		h.tick(min(by, 2*time.Second))
	}
	h.verify()
}

// verify checks everything that the room says of itself.
func (h *house) verify() {
	h.Helper()
	checks, err := h.rooms.Verify(h.Context(), name)
	if err != nil {
		h.Fatal(err)
	}
	for _, c := range checks {
		if !c.OK {
			h.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
}

// states returns how many of the users' places are in each state.
func (h *house) states(who ...string) map[waitingroom.State]int {
	h.Helper()
	states := make(map[waitingroom.State]int)
	for _, name := range who {
		states[h.place(name).State]++
	}
	return states
}

func people(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("user-%d", i)
	}
	return names
}

// amend changes a row behind the room's back.
func (h *house) amend(room string, alter func(*store.Room)) {
	h.Helper()
	if err := h.store.InTx(h.Context(), func(tx store.Tx) error {
		r, err := tx.Lock(h.Context(), room, 0)
		if err != nil {
			return err
		}
		alter(r)
		return tx.Write(h.Context(), r)
	}); err != nil {
		h.Fatal(err)
	}
}

// rows returns all rooms, and all places.
func (h *house) rows() (rooms []store.Room, places []*store.Place) {
	h.Helper()
	rooms, err := h.store.Rooms(h.Context())
	for i := range rooms {
		if err == nil {
			var of []*store.Place
			of, err = h.store.After(h.Context(), rooms[i].Terms.Room, "", 0, 1_000_000)
			places = append(places, of...)
		}
	}
	if err != nil {
		h.Fatal(err)
	}
	return rooms, places
}

// breaks makes statements fail until the clock is set: those with a text, which becomes another, and in memory some operations.
func (h *house) breaks(text, by string, fails func(memory.Op) bool) {
	m, ok := h.store.(*inMemory)
	if !ok {
		h.rooms.Replace(text, by)
		return
	}
	around := func(op memory.Op, do func() error) error {
		if fails(op) {
			return memory.AdminShutdown
		}
		return do()
	}
	m.around.Store(&around)
}

// exec changes the database behind the room's back.
func (h *house) exec(statement string, args ...any) {
	h.Helper()
	if _, err := h.db.ExecContext(h.Context(), statement, args...); err != nil {
		h.Fatal(err)
	}
}

// crowd adds n places at the end of a room without lanes, whose column has the value; "" for places that wait.
func (h *house) crowd(n int64, column string, value any) {
	h.Helper()
	h.crowdIn("", n, column, value)
}

// crowdIn is crowd in a lane.
func (h *house) crowdIn(lane string, n int64, column string, value any) {
	h.Helper()
	if h.db == nil {
		h.crowdInMemory(lane, n, column, value)
		return
	}
	var joined, gathered, starts int64
	var text string
	if err := h.db.QueryRowContext(h.Context(), `SELECT joined, gathered, starts_at, t.lanes FROM waiting_tails t, waiting_rooms`).Scan(&joined, &gathered, &starts, &text); err != nil {
		h.Fatal(err)
	}
	var lanes []struct {
		Lane             string `json:"lane"`
		Joined, Gathered int64
	}
	if err := json.Unmarshal([]byte(text), &lanes); err != nil {
		h.Fatal(err)
	}
	for i := range lanes {
		if lanes[i].Lane == lane {
			h.exec(`WITH RECURSIVE n(i) AS (SELECT CAST(1 AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < $1)
				INSERT INTO waiting_places (room, seq, lane, lane_seq, subject, account, quantity, joined_at)
				SELECT 'shoes', $2 + i, $3, $4 + i, 'crowd ' || ($2 + i), 'crowd ' || ($2 + i), 1, 1 FROM n`, n, joined, lane, lanes[i].Joined)
			lanes[i].Joined += n
		}
		if starts > h.at.UnixMilli() {
			gathered, lanes[i].Gathered = joined+n, lanes[i].Joined
		}
	}
	tails, err := json.Marshal(lanes)
	if err != nil {
		h.Fatal(err)
	}
	h.exec(`UPDATE waiting_tails SET joined = $1, gathered = $2, lanes = $3`, joined+n, gathered, string(tails))
	if column != "" {
		h.exec(`UPDATE waiting_places SET `+column+` = $1, changed_at = 1 WHERE seq > $2`, value, joined)
	}
}

// crowdInMemory is crowdIn with the operations of the store. A place that is replaced has left instead: for a tick both are dead.
func (h *house) crowdInMemory(lane string, n int64, column string, value any) {
	h.Helper()
	if err := h.store.InTx(h.Context(), func(tx store.Tx) error {
		end, err := tx.LockEnd(h.Context(), name)
		if err != nil {
			return err
		}
		r, err := tx.Cursors(h.Context(), name)
		if err != nil {
			return err
		}
		in := slices.IndexFunc(end.Lanes, func(l store.Tail) bool { return l.Name == lane })
		joiners, subjects := make([]store.Joiner, n), make([]string, n)
		for i := range joiners {
			end.Joined++
			end.Lanes[in].Joined++
			subjects[i] = fmt.Sprint("crowd ", end.Joined)
			joiners[i] = store.Joiner{
				Number: end.Joined, Lane: lane, LaneNumber: end.Lanes[in].Joined, Subject: subjects[i], User: subjects[i], Quantity: 1,
			}
		}
		if r.Saved.Root == "" && r.Terms.StartsAt > h.at.UnixMilli() {
			end.Gathered, end.Lanes[in].Gathered = end.Joined, end.Lanes[in].Joined
		}
		if err := tx.Add(h.Context(), name, end, joiners, nil); err != nil {
			return err
		}
		switch column {
		case "":
			return nil
		case "barred":
			return tx.Bar(h.Context(), name, subjects, value.(string), "")
		}
		added, err := tx.After(h.Context(), name, "", end.Joined-n, int(n))
		if err != nil {
			return err
		}
		return tx.Leave(h.Context(), name, added)
	}); err != nil {
		h.Fatal(err)
	}
}

// outcome returns a refusal as an error, for tests that expect none.
func outcome(p waitingroom.Place, refusal *waitingroom.Refusal, err error) (waitingroom.Place, error) {
	if refusal != nil {
		return p, fmt.Errorf("refused: %+v", *refusal)
	}
	return p, err
}

// refused returns the reason of a refusal; empty: it is none, or an error.
func refused(refusal *waitingroom.Refusal, err error) waitingroom.Reason {
	if refusal == nil || err != nil {
		return ""
	}
	return refusal.Reason
}

package memory_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/internal/stock"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/waitingroom/internal/sqlstore"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
	"github.com/tidegate/tidegate/waitingroom/memory"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

var errUndo = errors.New("the transaction is rolled back")

// draws are random arguments of operations, with few values, so that they meet.
type draws struct {
	*rand.Rand

	now int64
}

func (d *draws) room() string     { return []string{"hall", "shoes", "shop"}[d.IntN(3)] }
func (d *draws) lane() string     { return []string{"", "", "all", "members"}[d.IntN(4)] }
func (d *draws) yes() bool        { return d.IntN(2) == 0 }
func (d *draws) time() int64      { return d.now + 10*d.Int64N(12) - 60 }
func (d *draws) word() string     { return []string{"", "closed", "x"}[d.IntN(3)] }
func (d *draws) number() int64    { return d.Int64N(15) }
func (d *draws) subject() string  { return fmt.Sprint("subject ", d.IntN(12)) }
func (d *draws) numbers() []int64 { return []int64{d.number(), d.number(), d.number()} }

func (d *draws) subjects() []string {
	all := []string{d.subject(), d.subject(), d.subject()}
	slices.Sort(all)
	return slices.Compact(all)
}

// places returns copies of places as they were read, perhaps by somebody who does not know that they are replaced.
func (d *draws) places(ctx context.Context, tx store.Tx, room string) []*store.Place {
	all, err := tx.After(ctx, room, "", 0, 1000)
	if err != nil {
		panic(err)
	}
	from := d.IntN(max(1, len(all)-6) + 5) // more often of the last ones, with which less has been done
	if d.yes() {
		from = max(0, len(all)-1-d.IntN(6))
	}
	all = all[min(from, len(all)):]
	all = all[:min(len(all), 1+d.IntN(3))]
	for _, p := range all {
		p.Replaced = p.Replaced && d.yes()
	}
	return all
}

// terms fills in a room, of which a row has been read or which is new.
func (d *draws) terms(r *store.Room) {
	t, s := &r.Terms, &r.Saved
	t.Sale, t.Item, t.Mode, t.Bound, t.Beacon = d.word(), d.word(), d.word(), d.word(), []string{"", "", "drand"}[d.IntN(3)]
	t.GatherAt, t.StartsAt, t.ClaimMS, t.PassMS = d.time(), d.time(), d.number(), d.number()
	t.Capacity, t.RatePerMin, t.RequiresUser, t.Captcha = d.IntN(3), d.IntN(3), d.yes(), d.yes()
	t.Page = store.Page{Title: d.word(), Shop: d.word(), LogoURL: d.word(), ContinueURL: d.word(), SignInURL: d.word()}
	s.Message, s.Held, s.Ended, s.EndedAt, s.Stalled = d.word(), d.yes(), d.word(), d.time(), d.yes()
	s.Sale, s.Free, s.LagMS = []stock.SaleState{stock.Open, stock.Paused, stock.Ended}[d.IntN(3)], d.number(), d.number()
	s.StoppedAt, s.StoppedMS, s.TickedAt = d.time(), d.number(), d.time()
	s.Credit, s.Extra, s.Promised, s.Brake = d.Float64(), d.number(), d.number(), d.Float64()
	s.Secret, s.Salt, s.Commit, s.Root = "secret"+d.word(), d.word(), d.word(), d.word()
	s.NDrawn, s.DrawnAt = d.number(), d.number()
	s.Beacon.Round, s.Beacon.Signature, s.Beacon.ListedMS = d.number(), "signature", d.number()
	for i := range s.Lanes {
		l := &s.Lanes[i]
		l.Share, l.Tier, l.Served, l.Drawn, l.VirtualTime = d.IntN(9), d.word(), d.number(), d.number(), d.Float64()
		l.Tail.Gathered = d.number()
	}
}

func lanes(names ...string) (all []store.Lane) {
	for _, name := range names {
		all = append(all, store.Lane{Name: name, Share: 1, Tail: store.Tail{Name: name}})
	}
	return all
}

// step makes one of the operations that write, and returns its results.
func (d *draws) step(ctx context.Context, tx store.Tx) (what string, results []any) {
	room := d.room()
	one := func(op string, change func(p *store.Place) (any, error)) (string, []any) {
		for _, p := range d.places(ctx, tx, room) {
			got, err := change(p)
			results = append(results, got, err)
		}
		return op, results
	}
	switch op := d.IntN(20); op {
	case 0:
		r := &store.Room{}
		r.Saved.Lanes = lanes("")
		if d.yes() {
			r.Saved.Lanes = lanes("members", "all")
		}
		d.terms(r)
		r.Terms.Room = room
		created, err := tx.Insert(ctx, r)
		return "Insert", []any{created, err}
	case 1, 2:
		r, err := tx.Lock(ctx, room, d.Int64N(60))
		if err == nil && d.yes() {
			d.terms(r)
			err = tx.Write(ctx, r)
		}
		return "Lock", []any{r, err}
	case 3:
		r, err := tx.Lock(ctx, room, 0)
		if err == nil {
			err = tx.LockTail(ctx, room, &r.Saved)
			d.terms(r)
			err = errors.Join(err, tx.WriteTail(ctx, room, r.Saved.Lanes))
		}
		return "WriteTail", []any{r, err}
	case 4, 5, 6, 7:
		return "Add", d.join(ctx, tx, room)
	case 8:
		var turns []store.Turn
		for i, subject := range d.subjects() {
			turns = append(turns, store.Turn{Subject: subject, Position: int64(i), Quantity: 1 + d.number()})
		}
		return "GiveTurns", []any{tx.GiveTurns(ctx, room, turns, d.time(), d.time())}
	case 9:
		return "Bar", []any{tx.Bar(ctx, room, d.subjects(), "why", "by")}
	case 10, 11:
		return one("Admit", func(p *store.Place) (any, error) { return tx.Admit(ctx, room, p, d.time(), d.time()) })
	case 12:
		return one("ProlongTurn", func(p *store.Place) (any, error) { return nil, tx.ProlongTurn(ctx, room, p, d.time()) })
	case 13:
		return "Leave", []any{tx.Leave(ctx, room, d.places(ctx, tx, room))}
	case 14:
		return one("Ordered", func(p *store.Place) (any, error) { return nil, tx.Ordered(ctx, room, p, "order", d.time()) })
	case 15, 16:
		return one("Finish", func(p *store.Place) (any, error) { // mostly of an admitted place
			_, err := tx.Admit(ctx, room, p, d.now, d.time())
			finished, of := tx.Finish(ctx, room, p, d.time())
			return finished, errors.Join(err, of)
		})
	case 17:
		return "Lapse", []any{tx.Lapse(ctx, room, d.time(), d.time())}
	case 18:
		return "RecordAct", []any{tx.RecordAct(ctx, room, &store.Act{
			Act: []string{"hold", "resume", "close", "rate"}[d.IntN(4)], Detail: d.word(), Actor: d.word(), Reason: d.word(), RequestID: d.subject(),
		})}
	default:
		if d.IntN(4) > 0 {
			return "no Shrink", nil
		}
		more, deleted, err := tx.Shrink(ctx, room, 4, lanes("")[0])
		return "Shrink", []any{more, deleted, err}
	}
}

// join adds joiners, some of whom have a place, which is replaced.
func (d *draws) join(ctx context.Context, tx store.Tx, room string) []any {
	end, err := tx.LockEnd(ctx, room)
	if err != nil {
		return []any{err}
	}
	subjects := d.subjects()
	current, err := tx.BySubject(ctx, room, subjects)
	if err != nil {
		return []any{end, err}
	}
	var joiners []store.Joiner
	var replaced []string
	for _, subject := range subjects {
		if current[subject] != nil {
			if d.yes() {
				continue
			}
			replaced = append(replaced, subject)
		}
		in := &end.Lanes[d.IntN(len(end.Lanes))]
		end.Joined++
		in.Joined++
		joiners = append(joiners, store.Joiner{
			Number: end.Joined, Lane: in.Name, LaneNumber: in.Joined, Subject: subject, User: d.word(), Quantity: 1 + d.IntN(4), Again: d.IntN(3),
		})
	}
	end.Gathered = d.number()
	return []any{end, tx.Add(ctx, room, end, joiners, replaced)}
}

// read makes all reads, of one room. What has no order is sorted.
func (d *draws) read(ctx context.Context, q store.Reader, tx store.Tx) (results []any) {
	add := func(all ...any) { results = append(results, all...) }
	sorted := func(all []*store.Place, err error) {
		slices.SortFunc(all, func(a, b *store.Place) int { return cmp.Compare(a.Number, b.Number) })
		add(all, err)
	}
	inOrder := func(all []*store.Place, err error, at func(*store.Place) int64) {
		add(slices.IsSortedFunc(all, func(a, b *store.Place) int { return cmp.Compare(at(a), at(b)) }))
		sorted(all, err)
	}
	rooms, err := q.Rooms(ctx)
	add(rooms, err)
	named := func(rooms []store.Room, err error) {
		slices.SortFunc(rooms, func(a, b store.Room) int { return strings.Compare(a.Terms.Room, b.Terms.Room) })
		add(rooms, err)
	}
	named(q.Closed(ctx))
	named(q.Old(ctx, d.number()))
	room := d.room()
	cursors, err := q.Cursors(ctx, room)
	add(cursors, err)
	found, err := q.BySubject(ctx, room, d.subjects())
	add(found, err)
	p, err := q.ByNumber(ctx, room, d.number())
	add(p, err)
	lane := d.lane()
	sorted(q.ByLaneNumber(ctx, room, lane, d.numbers()))
	all, err := q.After(ctx, room, "", 0, 1000)
	add(all, err)
	of, err := q.After(ctx, room, d.subject(), d.number(), 1+d.IntN(3))
	add(of, err)
	add(q.Listed(ctx, room, d.number(), d.number(), func(p *store.Place) error { add(*p); return nil }))
	gone, err := q.Gone(ctx, room, d.time(), d.time(), d.yes())
	inOrder(gone, err, func(p *store.Place) int64 { return p.ChangedAt })
	expired, err := q.Expired(ctx, room, d.time(), 1+d.IntN(4))
	add(expired, err)
	for range 5 {
		passes, err := q.CountPasses(ctx, room, d.time())
		add(passes, err)
		admitted, err := q.CountAdmitted(ctx, room, d.time(), d.time())
		add(admitted, err)
	}
	census, err := q.TakeCensus(ctx, room)
	for lane, n := range census.ByLane {
		if n.Places == 0 {
			delete(census.ByLane, lane)
		}
	}
	add(census, err)
	acts, err := q.Acts(ctx, room)
	add(acts, err)
	act, err := q.ActOf(ctx, room, d.subject())
	if act != nil && err == nil {
		add(*act) // of several with one id any
	}
	if tx == nil {
		return results
	}
	sorted(tx.Live(ctx, room, lane, d.numbers()))
	next, err := tx.NextLive(ctx, room, lane, d.number(), d.number(), 1+d.IntN(3))
	add(next, err)
	sorted(tx.Unfinished(ctx, room, d.numbers()))
	sorted(tx.Passes(ctx, room, d.time()))
	counts, err := tx.Count(ctx, room, store.Moments{
		Now: d.time(), PassOver: d.time(), Fresh: d.time(), Past: d.time(), Over: d.time(), ClaimedAfter: d.time(),
	})
	add(counts, err)
	now, err := tx.Now(ctx)
	add(now, err)
	return results
}

// The store in memory returns what SQLite does, whatever is done in whatever order.
func TestModel(t *testing.T) {
	t.Parallel()
	same := []gocmp.Option{
		cmpopts.EquateEmpty(),
		gocmp.Comparer(func(a, b error) bool { // one kind
			return (a == nil) == (b == nil) && errors.Is(a, store.ErrUnknownRoom) == errors.Is(b, store.ErrUnknownRoom) &&
				errors.Is(a, store.ErrUnavailable) == errors.Is(b, store.ErrUnavailable)
		}),
	}
	for seed := range uint64(testenv.Size(1, 30)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			now := int64(1_000)
			inMemory := memory.New(memory.Options{Now: func() time.Time { return time.UnixMilli(now) }})
			db := databases.OpenSQLite(t)
			exec := func(statement string, args ...any) {
				if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
					t.Fatal(err)
				}
			}
			exec(`PRAGMA synchronous = OFF`)
			exec(`CREATE TABLE clock (now integer)`)
			exec(`INSERT INTO clock VALUES (0)`)
			sql := sqlstore.SQLite(db, nil).With("{now ms}", "(SELECT now FROM clock)")
			steps := rand.New(rand.NewPCG(seed, 1))
			done := make(map[string]int)
			for n := range 150 {
				now += 10 * steps.Int64N(3)
				exec(`UPDATE clock SET now = $1`, now)
				arguments := steps.Uint64()
				do := func(s store.Store) (what []string, results []any) {
					d := &draws{rand.New(rand.NewPCG(arguments, 0)), now}
					undo, size := d.IntN(4) == 0, 1+d.IntN(3)
					err := s.InTx(t.Context(), func(tx store.Tx) error {
						for range size {
							op, got := d.step(t.Context(), tx)
							what, results = append(what, op), append(results, got...)
							if slices.ContainsFunc(got, func(v any) bool {
								err, failed := v.(error)
								return failed && !errors.Is(err, store.ErrUnknownRoom)
							}) { // Postgres would refuse what follows, which SQLite does not
								return errUndo
							}
						}
						results = append(results, d.read(t.Context(), tx, tx)...)
						if undo {
							return errUndo
						}
						return nil
					})
					results = append(results, errors.Is(err, errUndo), err)
					return what, append(results, d.read(t.Context(), s, nil)...)
				}
				what, want := do(sql)
				_, got := do(inMemory)
				if diff := gocmp.Diff(want, got, same...); diff != "" {
					t.Fatalf("step %d, %v (-SQLite +memory):\n%s", n, what, diff)
				}
				for _, op := range what {
					done[op]++
				}
			}
			if len(done) != 15 {
				t.Errorf("not all operations were done: %v", done)
			}
		})
	}
}

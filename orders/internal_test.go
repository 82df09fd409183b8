package orders

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

func TestKeysAreTheseAndShareASlot(t *testing.T) {
	s := &core{opts: Options{Namespace: "tidegate"}}
	want := []string{
		"tidegate:{spring:shoe}:3:item",
		"tidegate:{spring:shoe}:3:returned",
		"tidegate:{spring:shoe}:3:pending",
		"tidegate:{spring:shoe}:3:outbox",
		"tidegate:{spring:shoe}:3:keys",
		"tidegate:{spring:shoe}:3:buyers",
		"tidegate:{spring:shoe}:3:holders",
		"tidegate:{spring:shoe}:3:turns",
	}
	if got := s.itemKeys("spring", "shoe", 3); !slices.Equal(got, want) {
		t.Errorf("keys %v", got)
	}
	if got := s.queueName(2); got != "tidegate-accepted-2" {
		t.Errorf("queue %s", got)
	}
}

func TestNothingACallerSendsGrowsAKey(t *testing.T) {
	sale := Sale{Salt: []byte("0123456789abcdef")}
	other := Sale{Salt: []byte("fedcba9876543210")}
	seen := make(map[string]string)
	for _, value := range []string{"", "u", "{}", "a:b", "a\nb", "a\x00b", "🦆", strings.Repeat("x", 10_000)} {
		for kind, hash := range map[string]string{
			"user":                 sale.hash(hashUser, value),
			"key":                  sale.hash(hashKey, value),
			"user of another sale": other.hash(hashUser, value),
		} {
			what := kind + " " + value
			if before, ok := seen[hash]; ok || len(hash) != 22 {
				t.Errorf("%.20q has hash %q, as has %.20q", what, hash, before)
			}
			seen[hash] = what
		}
	}
}

// newID returns a plain id, as issued by earlier versions.
func newID(at time.Time, item int) ID {
	var id ID
	rand.Read(id[8:])
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x8000|uint64(item>>12&0xfff))
	binary.BigEndian.PutUint64(id[8:], 0b10<<62|uint64(item&0xfff)<<50|binary.BigEndian.Uint64(id[8:])&(1<<50-1))
	return id
}

func TestIDKeepsWhatItIsMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// All times of a plain id, and times until 2089 of others.
		ms := rapid.Int64Range(0, 1<<47-1).Draw(t, "ms")
		later := rapid.Int64Range(idEpoch, idEpoch+idUnit<<35-1).Draw(t, "later")
		item := rapid.IntRange(1, 1<<24-1).Draw(t, "item")
		key := IDKey{Key: rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")}
		plain, id := newID(time.UnixMilli(ms), item), key.newID(time.UnixMilli(later), item)
		if id.item() != item || time.UnixMilli(later).Sub(id.time()).Abs() >= idUnit*time.Millisecond || id.time().UnixMilli() > later {
			t.Fatalf("%s: item %d of %d, time %d of %d", id, id.item(), item, id.time().UnixMilli(), later)
		}
		if plain.item() != item || plain.time().UnixMilli() != ms {
			t.Fatalf("%s: item %d of %d, time %d of %d", plain, plain.item(), item, plain.time().UnixMilli(), ms)
		}
		for _, id := range []ID{plain, id} {
			again, err := ParseID(strings.ToUpper(id.String()))
			if err != nil || again != id {
				t.Fatalf("%s is read as %s, %v", id, again, err)
			}
		}
		if other := key.newID(time.UnixMilli(later), item); other == id {
			t.Fatalf("%s twice", id)
		}
		if !key.issued(id) || key.issued(plain) {
			t.Fatalf("issued %v, plain %v", key.issued(id), key.issued(plain))
		}
		key.PlainUntil = time.UnixMilli(ms)
		if key.issued(plain) {
			t.Fatal("too late")
		}
		key.PlainUntil = time.UnixMilli(ms + 1)
		if !key.issued(plain) {
			t.Fatal("in time")
		}
	})
}

// TestAMadeUpIDIsNotIssued: an id with any bit changed, or of another installation, is not issued, except for one of 16,384.
func TestAMadeUpIDIsNotIssued(t *testing.T) {
	key, other := IDKey{Key: []byte("one installation")}, IDKey{Key: []byte("another")}
	id := key.newID(time.Now(), 7)
	lucky := 0
	for bit := range 128 {
		forged := id
		forged[bit/8] ^= 1 << (bit % 8)
		if key.issued(forged) {
			lucky++
		}
	}
	const tries = 100_000
	for range tries {
		if key.issued(other.newID(time.Now(), 7)) {
			lucky++
		}
	}
	if lucky > 40 { // 6 are expected; more than 40 occur once in 10^19 runs
		t.Errorf("%d of %d are as if they had been issued", lucky, tries)
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"", "01a1fbda-8d06-8000-8005-cdb33dafed12", "{01a1fbda-8d06-8000-8005-cdb33dafed12}", "urn:uuid:01a1fbda-8d06-8000-8005-cdb33dafed12", "01a1fbda8d0680008005cdb33dafed12"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseID(s); err == nil && id.String() != strings.ToLower(s) {
			t.Errorf("%q is read as %s", s, id)
		}
	})
}

func FuzzReservation(f *testing.F) {
	f.Add([]byte(`{"id":"01a1fbda-8d06-8000-8005-cdb33dafed12","e":1,"s":"s","i":"i","h":"h","k":"","q":1,"u":[1],"t":1}`))
	f.Add([]byte(`{"id":"01a1fbda-8d06-8000-8005-cdb33dafed12","e":-1,"s":"","i":"\\<\u2028","b":"Zoë & \"co\"\t\u007f","h":"h","k":"","q":1,"u":[1,2],"t":1}`))
	f.Add([]byte(`{"id":1}`))
	f.Fuzz(func(t *testing.T, record []byte) {
		r, err := ParseReservation(record)
		if err != nil || r.ID.item() == 0 && r.ID == (ID{}) {
			return
		}
		if len(r.Units) == 0 {
			return
		}
		again, err := ParseReservation([]byte(r.record()))
		if err != nil || again.record() != r.record() {
			t.Errorf("%s is written as %s, %v", record, r.record(), err)
		}
		r.AcceptedMS = max(1, r.AcceptedMS) // encoding/json leaves out 0
		if text, err := json.Marshal(r); err != nil || string(text) != r.record() {
			t.Errorf("%s is written as %s, and encoding/json writes %s, %v", record, r.record(), text, err)
		}
	})
}

func TestStateFollowsTheSwitchAndTheClock(t *testing.T) {
	start := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	end := start.Add(time.Hour)
	for _, c := range []struct {
		at     Switch
		offset time.Duration
		want   State
	}{
		{SwitchDraft, -time.Second, StateScheduled},
		{SwitchDraft, time.Second, StateScheduled},
		{SwitchDraft, time.Hour, StateEnded},
		{SwitchOpen, -time.Millisecond, StateScheduled},
		{SwitchOpen, 0, StateOpen},
		{SwitchOpen, time.Hour - time.Millisecond, StateOpen},
		{SwitchOpen, time.Hour, StateEnded},
		{SwitchPaused, -time.Second, StatePaused},
		{SwitchPaused, time.Second, StatePaused},
		{SwitchPaused, 2 * time.Hour, StateEnded},
		{SwitchClosed, -time.Hour, StateClosed},
		{SwitchClosed, 2 * time.Hour, StateClosed},
	} {
		sale := Sale{Switch: c.at, StartsAt: start, EndsAt: end}
		if got := sale.stateAt(start.Add(c.offset)); got != c.want {
			t.Errorf("%s at %v: %s, want %s", c.at, c.offset, got, c.want)
		}
	}
}

// A restored database may give an item's number to an item of another sale: its callers must not join those of the former one.
func TestCachedStateBelongsToTheItemsKeys(t *testing.T) {
	co := &core{opts: Options{}.withDefaults()}
	sale := func(id string, stock int) []Sale {
		return []Sale{{ID: id, Epoch: 1, Items: []Item{{ID: "i", Number: 7, Stock: stock}}}}
	}
	names := []string{"a", "b"}
	before := newCatalog(map[string]*listing{}, map[int]*cachedItem{}).with(co, names, sale("a", 1))
	if same := before.with(co, names, sale("a", 2)); same.byNumber[7].itemState != before.byNumber[7].itemState {
		t.Error("a new definition of an item loses its state")
	}
	if other := before.with(co, names, sale("b", 1)); other.byNumber[7].itemState == before.byNumber[7].itemState {
		t.Error("an item of another sale has the state of the former owner of its number")
	}
}

func TestNewsWakeThoseWhoWait(t *testing.T) {
	s := &notifier{ledger: newLedger(1), waiters: newWaiters(), sales: &catalogWatch{}}
	s.sales.catalog.Store(&catalog{})
	id, other := newID(time.UnixMilli(1), 1), newID(time.UnixMilli(2), 1)
	mine, done := s.waiters.wait(id)
	defer done()
	others, doneToo := s.waiters.wait(other)
	defer doneToo()
	s.receive(notification{Orders: []change{{ID: id, Status: StatusConfirmed}}})
	select {
	case <-mine:
	default:
		t.Error("nobody told who waits for the order")
	}
	select {
	case <-others:
		t.Error("who waits for another order was woken")
	default:
	}
}

// A task whose reply is lost is sent again under the same id, and is in the queue once.
func TestALostReplyOfTheQueueIsNoFailure(t *testing.T) {
	t.Parallel()
	rdb, err := redisclient.Open(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	lossy := &lossyOnce{}
	rdb.Queue().AddHook(lossy)
	var log bytes.Buffer
	s, err := newService(rdb, nil, Options{Namespace: "lossy" + rand.Text(), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	s.enqueueTask(t.Context(), []offered{{r: Reservation{ID: newID(time.Now(), 1), Sale: "s", Item: "i", Quantity: 1}}})
	tasks, err := asynq.NewInspectorFromRedisClient(rdb.Queue()).ListPendingTasks(s.queueName(0))
	if err != nil || len(tasks) != 1 || !lossy.lost.Load() {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
	if strings.Contains(log.String(), "left to the sweeper") {
		t.Error(log.String())
	}
}

// lossyOnce drops the reply of the first script.
type lossyOnce struct{ lost atomic.Bool }

func (*lossyOnce) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*lossyOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lossyOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && strings.HasPrefix(cmd.Name(), "eval") && l.lost.CompareAndSwap(false, true) {
			err = context.DeadlineExceeded
			cmd.SetErr(err)
		}
		return err
	}
}

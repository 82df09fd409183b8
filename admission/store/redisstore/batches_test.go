package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

// A heldClient blocks scripts until it is released. It records how many calls each script contains.
type heldClient struct {
	redisscript.Client // nil: whatever is let through fails
	held               chan struct{}

	mu      sync.Mutex
	scripts []int // guarded by mu
}

var errNobody = errors.New("nobody is there")

func (c *heldClient) Process(ctx context.Context, cmd redis.Cmder) error {
	c.mu.Lock()
	c.scripts = append(c.scripts, callsIn(cmd))
	c.mu.Unlock()
	<-c.held
	if c.Client == nil {
		return errNobody
	}
	return c.Client.Process(ctx, cmd)
}

// callsIn counts by the arguments, of which a call has three: evalsha, the script, the number of keys, the keys, the arguments.
func callsIn(cmd redis.Cmder) int {
	args := cmd.Args()
	return (len(args) - 3 - args[2].(int)) / 3
}

func (c *heldClient) sent() (scripts, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.scripts {
		calls += n
	}
	return len(c.scripts), calls
}

// aCall charges one unit of a counter.
func aCall(key string) store.Call {
	return store.Call{Mode: store.Charge, Tallies: []store.Tally{{
		Key: key, Subject: "ann", Algorithm: store.SlidingLog, Limit: 1 << 20, Window: store.Window{Length: time.Minute}, Cost: 1,
	}}}
}

// busy returns a store whose senders all wait for their first script. It is for a bubble of synctest, whose end shows as well that
// nothing goes on running when nobody asks.
func busy(t *testing.T) (*Store, *heldClient) {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Second) }) // until no goroutine waits for a batch
	client := &heldClient{held: make(chan struct{})}
	store := New(client)
	for range maxSenders {
		go func() { _, _ = store.Decide(t.Context(), aCall("k")) }()
		synctest.Wait()
	}
	if scripts, calls := client.sent(); scripts != maxSenders || calls != maxSenders {
		t.Fatalf("%d scripts with %d calls are under way, want %d of each", scripts, calls, maxSenders)
	}
	return store, client
}

// P26: the queue is bounded, and a call that finds it full fails at once.
func TestPitfall_P26_TheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, client := busy(t)
		answers := make(chan error, batch.MaxWaiting)
		for range batch.MaxWaiting {
			go func() {
				_, err := store.Decide(t.Context(), aCall("k"))
				answers <- err
			}()
		}
		synctest.Wait()
		if n := len(answers); n > 0 {
			t.Fatalf("%d of %d waiting calls have been answered, the first: %v", n, batch.MaxWaiting, <-answers)
		}
		if _, err := store.Decide(t.Context(), aCall("k")); !errors.Is(err, batch.ErrFull) {
			t.Errorf("one more: %v", err)
		}
		close(client.held)
		for range batch.MaxWaiting {
			if err := <-answers; !errors.Is(err, errNobody) {
				t.Fatalf("a call that waited: %v, want the client's error", err)
			}
		}
		if _, err := store.Decide(t.Context(), aCall("k")); !errors.Is(err, errNobody) {
			t.Errorf("after the rush: %v, want the client's error", err)
		}
	})
}

// P26: no call waits longer than its context, and cancelled calls are not sent.
func TestPitfall_P26_AGivenUpCallIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, client := busy(t)
		ctx, giveUp := context.WithCancel(t.Context())
		given, kept := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := store.Decide(ctx, aCall("given up"))
			given <- err
		}()
		go func() {
			_, err := store.Decide(t.Context(), aCall("kept"))
			kept <- err
		}()
		synctest.Wait()
		giveUp()
		if err := <-given; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		if _, err := store.Decide(ctx, aCall("too late")); !errors.Is(err, context.Canceled) {
			t.Errorf("given up before it began: %v", err)
		}
		close(client.held)
		if err := <-kept; !errors.Is(err, errNobody) {
			t.Errorf("kept: %v", err)
		}
		synctest.Wait()
		if scripts, calls := client.sent(); scripts != maxSenders+1 || calls != maxSenders+1 {
			t.Errorf("%d scripts with %d calls were sent, want %d of each", scripts, calls, maxSenders+1)
		}
	})
}

// A hundred concurrent callers share a few scripts, and each gets its own reply.
func TestCallersShareScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, client := busy(t)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := store.Decide(t.Context(), aCall("k")); !errors.Is(err, errNobody) {
					t.Errorf("Decide = %v", err)
				}
			})
		}
		synctest.Wait()
		close(client.held)
		wg.Wait()
		want := maxSenders + (100+batchSize-1)/batchSize
		if scripts, calls := client.sent(); scripts != want || calls != maxSenders+100 {
			t.Errorf("%d scripts with %d calls, want %d with %d", scripts, calls, want, maxSenders+100)
		}
	})
}

// Redis does nothing else while it runs a script, so the windows of all its calls are bounded. A call is atomic: one with more windows than
// that has a script of its own.
func TestAScriptIsBoundedByItsWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, client := busy(t)
		for _, windows := range []int{100, 100, 100, 2 * maxWindows, maxWindows, 1, maxWindows - 1, 1} {
			call := aCall("k")
			call.Tallies = slices.Repeat(call.Tallies, windows)
			go func() { _, _ = store.Decide(t.Context(), call) }()
			synctest.Wait()
		}
		close(client.held)
		synctest.Wait()
		got := slices.Sorted(slices.Values(client.scripts[maxSenders:])) // the order among senders is not defined
		if want := []int{1, 1, 1, 1, 2, 2}; !slices.Equal(got, want) {
			t.Errorf("scripts with %v calls, want %v", got, want)
		}
	})
}

// What is wrong with one call of a script is that call's alone.
func TestAnErrorIsOneCallsAlone(t *testing.T) {
	t.Parallel()
	opts, err := redisclient.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	const patience = 10 * time.Second
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = patience, patience, patience, patience
	key := func(name string) string { return fmt.Sprintf("test-%d:w:{ann}:%s", time.Now().UnixNano(), name) }
	admin := redis.NewUniversalClient(opts)
	t.Cleanup(func() { admin.Close() })
	opts.Username, opts.Password = key("user"), "secret"
	if err := admin.Do(t.Context(), "ACL", "SETUSER", opts.Username, "on", ">secret", "~*", "+@all", "resetchannels").Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Do(context.WithoutCancel(t.Context()), "ACL", "DELUSER", opts.Username) })
	rdb := redis.NewUniversalClient(opts)
	t.Cleanup(func() { rdb.Close() })

	client := &heldClient{Client: rdb, held: make(chan struct{})}
	close(client.held)
	right, bad, last := &asked{In: aCall(key("right"))}, &asked{In: aCall(key("bad"))}, &asked{In: aCall(key("last"))}
	bad.In.Mode, bad.In.Channel = store.Refund, "a channel that the user has not"
	New(client).run(t.Context(), []*asked{right, bad, last})
	for _, a := range []*asked{right, last} {
		if a.Err != nil || a.Out.counts[0].Remaining != 1<<20-1 {
			t.Errorf("beside a wrong one: %+v, %v", a.Out.counts, a.Err)
		}
	}
	if bad.Err == nil || !strings.Contains(bad.Err.Error(), "channel") {
		t.Errorf("without the channel: %+v, %v", bad.Out.counts, bad.Err)
	}
	if len(client.scripts) == 0 || client.scripts[0] != 3 {
		t.Errorf("scripts with %v calls, want one of 3", client.scripts)
	}
}

// What waits on a single server shares scripts already, and an auto-pipeline heeds no context; on a cluster there is nothing else.
func TestAPipelineIsTakenApart(t *testing.T) {
	alone := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { alone.Close() })
	spread := redis.NewClusterClient(&redis.ClusterOptions{})
	t.Cleanup(func() { spread.Close() })
	for _, c := range []struct {
		name      string
		rdb       redis.UniversalClient
		wantApart bool
	}{{"single server", alone, true}, {"cluster", spread, false}} {
		piped, err := redisclient.AutoPipeline(c.rdb)
		if err != nil {
			t.Fatal(err)
		}
		store := New(piped)
		if apart := store.rdb == redisscript.Client(c.rdb); apart != c.wantApart || (store.batches != nil) != c.wantApart {
			t.Errorf("%s: taken apart %v, shares scripts %v, want both %v", c.name, apart, store.batches != nil, c.wantApart)
		}
	}
}

// On a cluster only a charge must know the answer of one slot before it asks the next.
func TestOnlyChargesAskSlotsInTurn(t *testing.T) {
	for mode, want := range map[store.Mode]int{store.Charge: 1, store.Check: 5, store.Reject: 5, store.Refund: 5} {
		synctest.Test(t, func(t *testing.T) {
			client := &heldClient{held: make(chan struct{})}
			call := store.Call{Mode: mode}
			for i := range 5 {
				tally := aCall(fmt.Sprint("k", i)).Tallies[0]
				tally.Subject = fmt.Sprint("subject ", i)
				call.Tallies = append(call.Tallies, tally)
			}
			failed := make(chan error, 1)
			go func() {
				_, err := (&Store{rdb: client}).decideBySlot(t.Context(), call)
				failed <- err
			}()
			synctest.Wait()
			if scripts, _ := client.sent(); scripts != want {
				t.Errorf("%s: %d scripts at a time, want %d", mode, scripts, want)
			}
			close(client.held)
			if err := <-failed; !errors.Is(err, errNobody) {
				t.Errorf("%s: %v, want the client's error", mode, err)
			}
		})
	}
}

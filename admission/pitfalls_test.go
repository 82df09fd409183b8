package admission_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/admission/store/storetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestPitfall_P09_P20_ScriptsUseNoForbiddenCommand(t *testing.T) {
	forbidden := regexp.MustCompile(`replicate_commands|'(KEYS|SCAN|HSCAN|FLUSH\w+|SMEMBERS)'`)
	files, err := filepath.Glob("store/redisstore/lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := forbidden.FindString(string(text)); found != "" {
			t.Errorf("%s has %s", name, found)
		}
	}
}

// P12: a cluster refuses a script with keys of two slots, and one server would not notice.
func TestPitfall_P12_OneScriptHasKeysOfOneSlot(t *testing.T) {
	t.Parallel()
	rdb := dial(t, cluster(t))
	tags := &hashTags{T: t, scripts: map[string]int{}}
	rdb.AddHook(tags)
	g := gate(t, redisstore.New(rdb), namespace(), everyKindOfKey)
	ann := admission.Request{User: "ann", Device: "phone", ID: "r1"}
	charge(t, g, ann)
	if _, err := g.RefundRequest(t.Context(), ann); err != nil {
		t.Error(err)
	}
	if _, err := g.Reset(t.Context(), ann, ""); err != nil {
		t.Error(err)
	}
	for tag, n := range tags.scripts {
		if n < 3 {
			t.Errorf("%d scripts about %s, want one each to charge, to refund and to reset", n, tag)
		}
	}
	if len(tags.scripts) != 2 {
		t.Errorf("scripts about %d subjects, want the user and the device", len(tags.scripts))
	}
}

// hashTags is a hook that counts scripts by the hash tags of their keys.
type hashTags struct {
	*testing.T
	mu      sync.Mutex
	scripts map[string]int
}

func (*hashTags) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*hashTags) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hashTags) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" && cmd.Name() != "eval" {
			return next(ctx, cmd)
		}
		args, tags := cmd.Args(), map[string]bool{}
		for _, key := range args[3 : 3+args[2].(int)] {
			_, tag, _ := strings.Cut(key.(string), "{")
			tag, _, _ = strings.Cut(tag, "}")
			tags[tag] = true
		}
		if len(tags) != 1 {
			h.Errorf("keys of one script: %q", args[3:3+args[2].(int)])
		}
		h.mu.Lock()
		for tag := range tags {
			h.scripts[tag]++
		}
		h.mu.Unlock()
		return next(ctx, cmd)
	}
}

// While the sweep goes on, decisions do, and what counts stays.
func TestPitfall_P19_TheSweepDropsNothingThatCounts(t *testing.T) {
	clk := newClock()
	st := memorystore.New(memorystore.Options{Now: clk.Now})
	d := storetest.NewDesk(t, st, clk)
	long, short := d.TallyOf("ann", store.SlidingLog, 5000, time.Hour), d.TallyOf("bob", store.SlidingLog, 5000, sec)
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				st.Clean()
				clk.Advance(100 * ms)
			}
		}
	})
	var charges sync.WaitGroup
	for range 4 {
		charges.Go(func() {
			for range 1000 {
				if _, err := st.Decide(t.Context(), store.Call{Mode: store.Charge, Tallies: []store.Tally{long, short}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	charges.Wait()
	close(done)
	wg.Wait()
	if passed := clk.Now().Sub(epoch); passed < time.Hour && d.Left(long) != 1000 {
		t.Errorf("%d left after %v, want 1000", d.Left(long), passed)
	}
}

// Under noeviction, which docker-compose.yml asks for, a Redis without memory refuses to count whom it does not know yet, and forgets
// nobody whom it does.
func TestPitfall_P21_AFullRedisForgetsNobody(t *testing.T) {
	t.Parallel()
	rdb := dial(t, testenv.StartRedis(t).URL())
	g := gate(t, redisstore.New(rdb), namespace(), "- {name: r, subject: user, limit: 1, window: 1h}")
	for i := range 10 {
		charge(t, g, admission.Request{User: strconv.Itoa(i)})
	}
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if d := check(t, g, admission.Request{User: strconv.Itoa(i)}); d.Admitted || d.Remaining != 0 {
			t.Errorf("user %d, who was counted: %+v", i, d)
		}
	}
	if d, err := g.Charge(t.Context(), admission.Request{User: "new"}); err != nil || !d.Degraded {
		t.Errorf("somebody new: %+v, %v, want to be told that nothing was counted", d, err)
	}
}

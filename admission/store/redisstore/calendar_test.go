package redisstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/testenv"
)

// The rules of a zone are this process', the time is Redis'. A store that is wrong about Redis' clock learns it with the first call, and
// counts where all others do.
func TestCalendarsGoByRedisTime(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"redis": testenv.Redis(t), "cluster": cluster(t)} {
		t.Run(name, func(t *testing.T) {
			rdb := dial(t, url)
			ns := fmt.Sprintf("test-%d", time.Now().UnixNano())
			zone := time.FixedZone("", 5*3600+1800)
			for unit, wrong := range map[string]time.Duration{"month": -40 * 24 * time.Hour, "day": 30 * time.Hour, "hour": -3 * time.Hour} {
				calendar := &store.Calendar{Unit: unit, Zone: zone}
				call := store.Call{Mode: store.Charge, Tallies: []store.Tally{{
					Key: fmt.Sprintf("%s:w:{%s}:abcdefgh", ns, unit), Subject: unit, Algorithm: store.FixedWindow,
					Limit: 10, Window: store.Window{Calendar: calendar}, Cost: 1,
				}}}
				remaining, last := 10, time.Time{}
				for _, skew := range []time.Duration{0, wrong, -wrong} {
					st := redisstore.New(rdb)
					st.SetSkew(skew)
					counts, err := st.Decide(t.Context(), call)
					if err != nil {
						t.Fatalf("%s: wrong by %v: %v", unit, skew, err)
					}
					_, end := calendar.Span(counts[0].At)
					if !end.Equal(last) {
						remaining, last = 10, end // the first, or a span ended just now
					}
					remaining--
					if c := counts[0]; c.Remaining != remaining || !c.At.Add(c.ResetAfter).Equal(end) {
						t.Errorf("%s: wrong by %v: %+v, want %d left until %v", unit, skew, c, remaining, end)
					}
					if s := st.Skew().Abs(); s > time.Hour/2 {
						t.Errorf("%s: wrong by %v: still takes Redis for %v ahead", unit, skew, s)
					}
				}
			}
		})
	}
}

// A call that is sent again uses the time in the reply: it succeeds in a span's last microsecond, and while other calls change the estimate.
func TestACorrectedCallUsesTheTimeOfTheReply(t *testing.T) {
	t.Parallel()
	st := redisstore.New(dial(t, testenv.Redis(t)))
	end := time.Date(2030, time.March, 10, 7, 0, 0, 0, time.UTC)
	st.SetClock(func() time.Time { return end.Add(-time.Microsecond) })
	call := store.Call{Mode: store.Charge, Tallies: []store.Tally{{
		Key: fmt.Sprintf("test-%d:w:{minute}:abcdefgh", time.Now().UnixNano()), Subject: "minute", Algorithm: store.FixedWindow,
		Limit: 100, Window: store.Window{Calendar: &store.Calendar{Unit: "minute", Zone: time.UTC}}, Cost: 1,
	}}}
	done := make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() { // as calls to a node whose clock is an hour behind
		for {
			select {
			case <-done:
				return
			default:
				st.SetSkew(-time.Hour)
				time.Sleep(10 * time.Microsecond)
			}
		}
	})
	defer other.Wait()
	defer close(done)
	for range 100 {
		counts, err := st.Decide(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		if counts[0].ResetAfter != time.Microsecond {
			t.Fatalf("%+v, want the span's last microsecond", counts[0])
		}
	}
}

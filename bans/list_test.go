package bans_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/testenv"
)

// A tardy store holds back its replies while hold is set.
type tardy struct {
	bans.Store
	hold chan struct{}
}

func (s *tardy) Exchange(ctx context.Context, key string, news bans.News) (bans.State, error) {
	hold := s.hold
	state, err := s.Store.Exchange(ctx, key, news)
	if hold != nil {
		<-hold
	}
	return state, err
}

// Replies may arrive out of order: the later state of the store counts.
func TestALateAnswerChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &tardy{Store: memory(nil)}
		g := newList(store)
		exchange(t, g)
		hold := make(chan struct{})
		store.hold = hold
		done := make(chan struct{})
		go func() {
			defer close(done)
			ban(t, g, "user", "ann", time.Hour)
		}()
		synctest.Wait() // the store has banned, and holds back its reply
		store.hold = nil
		if !lift(t, g, "user", "ann") {
			t.Error("there was nothing to lift")
		}
		time.Sleep(5 * time.Second)
		exchange(t, g)
		close(hold)
		<-done
		if excludes(g, "ann", "") {
			t.Error("an answer that was late brought back what was lifted")
		}
		if ban(t, g, "user", "ann", time.Hour); !excludes(g, "ann", "") {
			t.Error("cannot be banned again")
		}
	})
}

// A promoted replica may lack the last changes: processes that hold them restore them, although the replica has not lost everything.
func TestAReplicaThatLaggedLearnsItsBans(t *testing.T) {
	t.Parallel()
	rdb, ns := dial(t, testenv.Redis(t)), namespace()
	one, two := listIn(bans.NewRedisStore(rdb), ns), listIn(bans.NewRedisStore(rdb), ns)
	ban(t, one, "user", "early", time.Hour)
	key := ns + ":{bans}:"
	change := rdb.HGet(t.Context(), key+"state", "change").Val()
	ban(t, one, "user", "ann", time.Hour)
	for _, err := range []error{
		rdb.HDel(t.Context(), key+"known", "user:ann").Err(),
		rdb.ZRem(t.Context(), key+"changes", "user:ann").Err(),
		rdb.ZRem(t.Context(), key+"ends", "user:ann").Err(),
		rdb.HSet(t.Context(), key+"state", "change", change).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	exchange(t, one, two)
	for _, user := range []string{"early", "ann"} {
		if !excludes(one, user, "") || !excludes(two, user, "") {
			t.Errorf("the ban of %s was lost", user)
		}
	}
}

// The replica that replaces a Redis without its data may have a clock that is behind.
func TestBansOfARedisWhoseClockWasAhead(t *testing.T) {
	t.Parallel()
	rdb, ns := dial(t, testenv.Redis(t)), namespace()
	store := bans.NewRedisStore(rdb)
	now := time.Now()
	store.SetClock(func() time.Time { return now })
	one, two := listIn(store, ns), listIn(store, ns)
	ban(t, one, "user", "ann", time.Hour)
	for _, key := range []string{"state", "known", "changes", "ends", "events", "alive"} {
		if err := rdb.Del(t.Context(), ns+":{bans}:"+key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(-3 * time.Hour)
	exchange(t, one, two)
	if !excludes(one, "ann", "") || !excludes(two, "ann", "") {
		t.Errorf("the ban was lost: %v in the process that had it, %v in another one", excludes(one, "ann", ""), excludes(two, "ann", ""))
	}
}

package koala_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

// sharedStore is the Redis of the tests, in which each Service has a unique namespace.
func sharedStore(t testing.TB) store.Store {
	t.Helper()
	return storeAt(t, testenv.Redis(t))
}

func storeAt(t testing.TB, url string) store.Store {
	t.Helper()
	opts, err := redisclient.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	const patience = time.Minute // a busy machine must not end a request between two slots: what it counted in the first one stays
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = patience, patience, patience, patience
	rdb := redis.NewUniversalClient(opts)
	t.Cleanup(func() { rdb.Close() })
	return redisstore.New(rdb)
}

const fiveOfEach = `rule : [count] [uid=+] [time=600; count=5] [result=2; return=201]
rule : [leak] [uid=+] [time=600; count=5; erase1=1] [result=2; return=202]`

// Browse, then the business, then update: what fails is not counted, what is done is, and one after the other no more than count come in.
func TestBrowseThenUpdateOneAfterTheOther(t *testing.T) {
	s := newOurs(t, sharedStore(t), fiveOfEach)
	done := 0
	for i := range 20 {
		if s.browse(t.Context(), uid) != 0 {
			continue
		}
		if i%2 == 1 { // the business fails
			continue
		}
		done++
		s.update(t.Context(), uid)
	}
	if done != 5 || s.value(uid, 201) != 5 || s.value(uid, 202) != 5 {
		t.Errorf("%d are done, counted %d and %d", done, s.value(uid, 201), s.value(uid, 202))
	}
}

// Of callers at once each may be let in that browses before the others have updated: as many beyond count as there are at once, less one. Each
// that is done is counted. Once their updates have returned nobody comes in.
func TestBrowseThenUpdateAtOnce(t *testing.T) {
	const crowd = 12
	s := newOurs(t, sharedStore(t), "rule : [count] [uid=+] [time=600; count=100] [result=2; return=200]\n"+fiveOfEach)
	var done atomic.Int32
	together(crowd, func(int) {
		for range 10 {
			if s.browse(t.Context(), uid) != 0 {
				continue
			}
			s.update(t.Context(), uid) // after the business
			done.Add(1)
		}
	})
	if n := done.Load(); n < 5 || n > 5+crowd-1 {
		t.Errorf("%d are done, want 5 to %d", n, 5+crowd-1)
	}
	if n := s.value(uid, 200); n != int(done.Load()) {
		t.Errorf("%d are done, %d counted", done.Load(), n)
	}
	if s.browse(t.Context(), uid) == 0 {
		t.Error("somebody comes in")
	}
	// All at the same step: every one of them is let in.
	s = newOurs(t, sharedStore(t), fiveOfEach)
	var in atomic.Int32
	together(crowd, func(int) {
		if s.browse(t.Context(), uid) == 0 {
			in.Add(1)
		}
	})
	if in.Load() != crowd {
		t.Errorf("%d of %d are let in, of whom none has updated", in.Load(), crowd)
	}
}

// To write through lets exactly count in, whoever else asks. Who is let in is counted in all rules, who is not in none; and a business that fails
// gives back what its leak rules counted.
func TestWriteThroughAtOnce(t *testing.T) {
	s := newOurs(t, sharedStore(t), "rule : [count] [uid=+] [time=600; count=100] [result=2; return=200]\n"+fiveOfEach)
	var in atomic.Int32
	together(40, func(i int) {
		switch {
		case i%4 == 0:
			s.browse(t.Context(), uid)
		case i%4 == 1:
			s.complete(uid, false)
		case i%4 == 2:
			if codes := s.complete(uid, true); len(codes) == 1 && codes[0] == -1 {
				in.Add(1)
			}
		default:
			if s.writeThrough(t.Context(), uid) == 0 {
				in.Add(1)
			}
		}
	})
	if in.Load() != 5 || s.value(uid, 200) != 5 || s.value(uid, 201) != 5 || s.value(uid, 202) != 5 {
		t.Errorf("%d are let in, counted %d, %d and %d, want 5 of each", in.Load(), s.value(uid, 200), s.value(uid, 201), s.value(uid, 202))
	}

	s = newOurs(t, sharedStore(t), "rule : [leak] [uid=+] [time=600; count=5; erase1=1] [result=2; return=202]")
	var done atomic.Int32
	together(40, func(i int) {
		if s.writeThrough(t.Context(), uid) != 0 {
			return
		}
		if i%2 == 0 {
			done.Add(1)
		} else if err := s.Feedback(t.Context(), uid, 1); err != nil {
			t.Error(err)
		}
	})
	done.Add(int32(admitted(t.Context(), s, uid, 20)))
	if done.Load() != 5 {
		t.Errorf("%d are done, want 5", done.Load())
	}
}

// Both ways share their counters.
func TestBothWaysCountTogether(t *testing.T) {
	s := newOurs(t, sharedStore(t), fiveOfEach)
	params := koala.Params{"uid": "both"}
	for i := range 5 {
		if i%2 == 0 {
			s.update(t.Context(), params)
		} else if s.writeThrough(t.Context(), params) != 0 {
			t.Errorf("%d is refused", i)
		}
	}
	if a, b := s.browse(t.Context(), params), s.writeThrough(t.Context(), params); a != 201 || b != 201 {
		t.Errorf("answered by %d and %d", a, b)
	}
}

// Over a cluster the counters of one request can be kept by several masters; they are exact all the same, also when all come at once.
func TestKoalaOverACluster(t *testing.T) {
	s := newOurs(t, storeAt(t, "redis://"+strings.Join(testenv.RedisCluster(t), ",")), `rule : [count] [film=+] [time=600; count=100] [result=2; return=200]
rule : [leak] [act=+; uid=+] [time=600; count=100; erase1=2] [result=2; return=201]
rule : [base] [uid=+] [base=3; time=600; count=2] [result=2; return=202]`)
	for _, name := range []string{"7", "8", "9"} {
		params := koala.Params{"act": "post", "uid": name, "film": "of " + name}
		var in atomic.Int32
		together(20, func(int) {
			if s.writeThrough(t.Context(), params) == 0 {
				in.Add(1)
			}
		})
		if a, b, c := s.value(params, 200), s.value(params, 201), s.value(params, 202); in.Load() != 5 || a != 5 || b != 5 || c != 5 {
			t.Errorf("%s: %d are let in, counted %d, %d and %d, want 5 of each", name, in.Load(), a, b, c)
		}
		if err := s.Feedback(t.Context(), params, 1); err != nil || s.value(params, 201) != 3 {
			t.Errorf("%s: after a feedback %d, %v", name, s.value(params, 201), err)
		}
		s.wantComplete(params, false, 202)
	}
}

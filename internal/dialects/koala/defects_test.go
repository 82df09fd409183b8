package koala_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/dialects/koala"
)

// What is wrong with Koala is numbered K1 to K14, as in docs/koala.md. Where the original below has it, the test shows it of that first.

var uid = koala.Params{"uid": "7"}

// K1: leak admits exactly count units.
func TestK1LeakAdmitsExactlyCount(t *testing.T) {
	const rules = "rule : [leak] [uid=+] [time=60; count=3] [result=2; return=201]"
	rdb, _ := ownRedis(t)
	if n := admitted(t.Context(), newOriginal(t, rdb, rules), uid, 10); n != 4 {
		t.Errorf("the original admits %d, is known to admit 4", n)
	}
	if n := admitted(t.Context(), newOurs(t, redisstore.New(rdb), rules), uid, 10); n != 3 {
		t.Errorf("%d are admitted, want 3", n)
	}
}

// K2: to write through is one decision, however many come at once, to however many processes.
func TestK2WriteThroughAtOnceAdmitsExactlyCount(t *testing.T) {
	const crowd = 40
	for method, rules := range map[string]string{
		"count": "rule : [count] [uid=+] [time=600; count=5] [result=2; return=201]",
		"day":   "rule : [count] [uid=+] [time=86400; count=5] [result=2; return=201]",
		"base":  "rule : [base] [uid=+] [base=3; time=600; count=2] [result=2; return=201]",
		"leak":  "rule : [leak] [uid=+] [time=600; count=5] [result=2; return=201]",
		"two":   "rule : [count] [uid=+] [time=600; count=9] [result=2; return=201]\nrule : [leak] [uid=+] [time=600; count=5] [result=2; return=202]",
	} {
		t.Run(method, func(t *testing.T) {
			rdb, _ := ownRedis(t)
			o := newOriginal(t, rdb, rules)
			browsed := make(chan struct{})
			o.updating = func() { <-browsed } // updates come when they come
			var in atomic.Int32
			together(crowd, func(int) {
				if o.writeThrough(t.Context(), uid) == 0 {
					in.Add(1)
				}
			})
			close(browsed)
			o.settle()
			if in.Load() <= 5 {
				t.Errorf("the original admits %d, is known to admit all", in.Load())
			}

			one := newOurs(t, redisstore.New(rdb), rules)
			processes := []ours{one, one, one}
			for i := range processes {
				processes[i] = another(t, rdb, one, rules)
			}
			in.Store(0)
			together(crowd, func(i int) {
				if processes[i%len(processes)].writeThrough(t.Context(), uid) == 0 {
					in.Add(1)
				}
			})
			if in.Load() != 5 {
				t.Errorf("%d are admitted, want 5", in.Load())
			}
		})
	}
}

// K2: an update that was answered OK is counted.
func TestK2UpdateIsCountedBeforeItSaysOK(t *testing.T) {
	const rules = "rule : [count] [uid=+] [time=600; count=100] [result=2; return=201]\nrule : [leak] [uid=+] [time=600; count=1] [result=2; return=202]"
	rdb, _ := ownRedis(t)
	o := newOriginal(t, rdb, rules)
	busy := make(chan struct{})
	o.updating = func() { <-busy }
	o.update(t.Context(), uid)
	if n := rdb.Exists(t.Context(), "r201|7").Val(); n != 0 {
		t.Error("the original has counted, is known to say OK before")
	}
	close(busy)
	o.settle()

	s := newOurs(t, redisstore.New(rdb), rules)
	s.update(t.Context(), uid)
	if code := s.browse(t.Context(), uid); code != 202 || s.value(uid, 201) != 1 {
		t.Errorf("answered by %d, counted %d", code, s.value(uid, 201))
	}
	together(40, func(int) { s.update(t.Context(), uid) })
	if n := s.value(uid, 201); n != 41 {
		t.Errorf("of 41 updates %d are counted", n)
	}
}

const eachMethod = `rule : [count] [uid=+] [time=60; count=2] [result=2; return=201]
rule : [count] [uid=+; act=a,b{~}] [time=86400; count=4] [result=2; return=202]
rule : [base] [uid=+] [base=2; time=7; count=1] [result=2; return=203]
rule : [leak] [uid=+] [time=9; count=3; erase1=1; erase2=2] [result=2; return=204]`

// K3: no counter lives for ever, whatever comes in between.
func TestK3NoCounterLivesForEver(t *testing.T) {
	rdb, _ := ownRedis(t)
	forEver := func() (keys []string) {
		for _, key := range rdb.Keys(t.Context(), "*").Val() {
			if rdb.PTTL(t.Context(), key).Val() <= 0 {
				keys = append(keys, key)
			}
		}
		return keys
	}
	o := newOriginal(t, rdb, "rule : [count] [uid=+] [time=60; count=1] [result=2; return=201]\nrule : [leak] [who=+] [time=60; count=1] [result=2; return=202]")
	if err := o.write(t.Context(), uid); err != nil {
		t.Fatal(err)
	}
	o.counted = func(step string) {
		if step == "exists 1" {
			o.pass(t.Context(), t, time.Minute) // the window ends just now
		}
	}
	if err := o.write(t.Context(), uid); err != nil {
		t.Fatal(err)
	}
	o.counted = nil
	o.pass(t.Context(), t, 365*24*time.Hour)
	if len(forEver()) != 1 || o.browse(t.Context(), uid) != 201 {
		t.Error("a year later the original lets the user in, is known to lock him out for ever")
	}
	// A process that dies between LPUSH and EXPIRE.
	func() {
		defer func() { _ = recover() }()
		o.counted = func(string) { panic("killed") }
		_ = o.write(t.Context(), koala.Params{"who": "7"})
	}()
	if keys := forEver(); len(keys) != 2 {
		t.Errorf("%q of the original live for ever, want two", keys)
	}
	rdb.Del(t.Context(), forEver()...)

	s := newOurs(t, redisstore.New(rdb), eachMethod)
	together(60, func(i int) {
		params := koala.Params{"uid": string(rune('a' + i%5)), "act": string(rune('a' + i%2))}
		switch i % 6 {
		case 0, 1, 2:
			s.writeThrough(t.Context(), params)
		case 3, 4:
			s.update(t.Context(), params)
		default:
			if err := s.Feedback(t.Context(), params, 1+i%2); err != nil {
				t.Error(err)
			}
		}
	})
	if keys := rdb.Keys(t.Context(), "test-*").Val(); len(keys) < 4 {
		t.Errorf("only %q are there", keys)
	}
	if keys := forEver(); len(keys) != 0 {
		t.Errorf("%q live for ever", keys)
	}
}

// K3: two first requests at once are both counted.
func TestK3FirstRequestsAtOnceAreAllCounted(t *testing.T) {
	const rules = "rule : [count] [uid=+] [time=60; count=100] [result=2; return=201]"
	rdb, _ := ownRedis(t)
	o := newOriginal(t, rdb, rules)
	var both sync.WaitGroup
	both.Add(2)
	o.counted = func(string) {
		both.Done()
		both.Wait()
	}
	together(2, func(int) { _ = o.write(t.Context(), uid) })
	if n, _ := rdb.Get(t.Context(), "r201|7").Int(); n != 1 {
		t.Errorf("the original has counted %d of 2, is known to lose one", n)
	}
	for i := range 20 {
		s := newOurs(t, redisstore.New(rdb), rules)
		together(2, func(int) { s.update(t.Context(), uid) })
		if n := s.value(uid, 201); n != 2 {
			t.Fatalf("turn %d: %d of 2 are counted", i, n)
		}
	}
}

// K6: a refused request is not counted, in whatever way it is made.
func TestK6RefusedRequestsAreNotCounted(t *testing.T) {
	const rules = "rule : [count] [uid=+] [time=600; count=1] [result=2; return=201]\nrule : [count] [uid=+] [time=600; count=100] [result=2; return=202]"
	rdb, _ := ownRedis(t)
	counts := map[bool]string{}
	for _, complete := range []bool{false, true} {
		o := newOriginal(t, rdb, strings.ReplaceAll(rules, "uid", "user"))
		params := koala.Params{"user": map[bool]string{false: "ann", true: "bob"}[complete]}
		for range 5 {
			if complete {
				o.complete(t.Context(), params, true)
			} else {
				o.writeThrough(t.Context(), params)
			}
			o.settle()
		}
		counts[complete] = rdb.Get(t.Context(), "r202|"+params["user"]).Val()
	}
	if counts[false] != "5" || counts[true] != "1" {
		t.Errorf("the original counts %v, is known to count 5 and 1", counts)
	}
	for _, complete := range []bool{false, true} {
		s := newOurs(t, redisstore.New(rdb), rules)
		for range 5 {
			if complete {
				if _, err := s.BrowseComplete(t.Context(), uid, true); err != nil {
					t.Error(err)
				}
			} else {
				s.writeThrough(t.Context(), uid)
			}
		}
		if n := s.value(uid, 202); n != 1 {
			t.Errorf("browse_complete %v: of five, of which four were refused, %d are counted", complete, n)
		}
	}
}

package koala_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/dialects/koala"
)

const twoInTwo = "rule : [leak] [uid=+] [time=2; count=2] [result=2; return=201]"

// K5: leak measures finer than seconds, and by the clock of the store, which all processes share.
func TestK5LeakMeasuresByTheStore(t *testing.T) {
	rdb, _ := ownRedis(t)
	o := newOriginal(t, rdb, twoInTwo)
	at := time.Unix(1_800_000_000, 0)
	o.now = func() time.Time { return at }
	admitted(t.Context(), o, uid, 3)
	at = at.Add(2*time.Second + 900*time.Millisecond)
	if o.browse(t.Context(), uid) == 0 {
		t.Error("after 2.9 s the original admits, is known to wait for the third second")
	}
	// A second host, whose clock is ahead.
	at = time.Unix(1_800_000_000, 0)
	ahead := newOriginal(t, rdb, twoInTwo)
	ahead.now = func() time.Time { return at.Add(10 * time.Second) }
	params := koala.Params{"uid": "two hosts"}
	admitted(t.Context(), o, params, 3)
	if o.browse(t.Context(), params) == 0 || ahead.browse(t.Context(), params) != 0 {
		t.Error("both hosts of the original agree, are known not to")
	}

	synctest.Test(t, func(t *testing.T) {
		store := inMemory()
		start := time.Now()
		s := newOurs(t, store, twoInTwo)
		for _, step := range []struct {
			at time.Duration
			in bool
		}{
			{0, true},
			{400 * time.Millisecond, true},
			{401 * time.Millisecond, false},
			{1999 * time.Millisecond, false},
			{2000 * time.Millisecond, true},
			{2001 * time.Millisecond, false},
			{2399 * time.Millisecond, false},
			{2400 * time.Millisecond, true},
			{2401 * time.Millisecond, false},
			{3999 * time.Millisecond, false},
			{4000 * time.Millisecond, true},
		} {
			time.Sleep(step.at - time.Since(start))
			if in := s.writeThrough(t.Context(), uid) == 0; in != step.in {
				t.Errorf("at %v: admitted %v", step.at, in)
			}
		}
	})
}

// K5: over Redis, whom one process has let in the other one knows, until a second is over to the microsecond.
func TestK5LeakMeasuresByRedisToo(t *testing.T) {
	const oneASecond = "rule : [leak] [uid=+] [time=1; count=1] [result=2; return=201]"
	rdb, _ := ownRedis(t)
	one := newOurs(t, redisstore.New(rdb), oneASecond)
	two := another(t, rdb, one, oneASecond)
	now := func() time.Time {
		at, err := rdb.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	first := now()
	for first.Nanosecond() < 4e8 || first.Nanosecond() > 6e8 { // whoever counts whole seconds is half of one off
		first = now()
	}
	if one.writeThrough(t.Context(), uid) != 0 {
		t.Fatal("the first one is refused")
	}
	for now().Unix() == first.Unix() { // what a process remembers of its own refusals is not asked for
	}
	for two.writeThrough(t.Context(), uid) != 0 {
		if passed := now().Sub(first); passed > time.Minute {
			t.Fatalf("the next one is refused for %v", passed)
		}
	}
	if passed := now().Sub(first); passed < time.Second {
		t.Errorf("the next one is let in after %v", passed)
	}
}

// K5: what looks at a leak counter does not shorten it.
func TestK5LookingForgetsNothing(t *testing.T) {
	const rules = "rule : [leak] [uid=+] [time=600; count=3] [result=2; return=201]"
	rdb, _ := ownRedis(t)
	o := newOriginal(t, rdb, rules)
	for range 7 {
		if err := o.write(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
	}
	// Two that look at once both see seven.
	for range 2 {
		o.trim(t.Context(), &o.rules[0], "r201|7", 7)
	}
	if n := rdb.LLen(t.Context(), "r201|7").Val(); n >= 4 || o.browse(t.Context(), uid) != 0 {
		t.Errorf("the original keeps %d, is known to lose some and admit", n)
	}
	s := newOurs(t, redisstore.New(rdb), rules)
	admitted(t.Context(), s, uid, 7)
	var in atomic.Int32
	together(40, func(i int) {
		if i%2 == 0 && s.browse(t.Context(), uid) == 0 || i%2 == 1 && s.writeThrough(t.Context(), uid) == 0 {
			in.Add(1)
		}
	})
	if in.Load() != 0 || s.value(uid, 201) != 3 {
		t.Errorf("%d are admitted beyond the limit, %d are known", in.Load(), s.value(uid, 201))
	}
}

// K7 and K8: every method answers in browse_complete and in multi/browse.
func TestK8EveryMethodAnswersEverywhere(t *testing.T) {
	const rules = `rule : [count] [uid=+; m=count] [time=60; count=1] [result=2; return=201]
rule : [base] [uid=+; m=base] [base=1; time=60; count=1] [result=3; return=202]
rule : [leak] [uid=+; m=leak] [time=60; count=1] [result=2; return=203]
rule : [direct] [m=direct] [time=1; count=0] [result=2; return=204]`
	rdb, _ := ownRedis(t)
	o, s := newOriginal(t, rdb, rules), newOurs(t, redisstore.New(rdb), rules)
	blind := map[string]bool{}
	var jobs []koala.Params
	for i, method := range []string{"count", "base", "leak", "direct"} {
		params, code := koala.Params{"uid": "7", "m": method}, 201+i
		admitted(t.Context(), o, params, 4)
		admitted(t.Context(), s, params, 4)
		if len(o.complete(t.Context(), params, false)) == 0 {
			blind[method+" in browse_complete"] = true
		}
		if o.multi(t.Context(), params) == 0 {
			blind[method+" in multi/browse"] = true
		}
		all, err := s.BrowseComplete(t.Context(), params, false)
		if err != nil || len(all) != 1 || all[0].RetCode != code {
			t.Errorf("browse_complete of %s: %v, %v", method, all, err)
		}
		jobs = append(jobs, params)
	}
	if len(blind) != 4 || !blind["leak in browse_complete"] || !blind["direct in multi/browse"] {
		t.Errorf("the original does not see %v, is known not to see leak in browse_complete, and all but count in multi/browse", blind)
	}
	fresh := koala.Params{"uid": "8", "m": "count"}
	if _, err := s.BrowseAll(t.Context(), []koala.Params{fresh}); err != nil || s.value(fresh, 201) != 0 {
		t.Errorf("multi/browse has counted %d: %v", s.value(fresh, 201), err)
	}
	several, err := s.BrowseAll(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i, answer := range several {
		if answer.Err != nil || answer.Result.RetCode != 201+i {
			t.Errorf("multi/browse of %s: %+v", jobs[i]["m"], answer)
		}
	}
}

// K9: what differs is counted apart, whatever signs the values have.
func TestK9DifferentValuesAreCountedApart(t *testing.T) {
	const rules = `rule : [count] [a=+; b=+; act=ask,add{~}] [time=60; count=1] [result=2; return=20]
rule : [count] [c=+] [time=60; count=1] [result=2; return=201]
rule : [base] [d=+] [base=1; time=60; count=1] [result=2; return=203]`
	pairs := [][2]koala.Params{
		{{"a": "x|y", "b": "z", "act": "ask"}, {"a": "x", "b": "y|z", "act": "ask"}},
		{{"a": "x", "b": "y|", "act": "ask"}, {"a": "x", "b": "y", "act": "ask"}},
		{{"a": "x", "b": "||", "act": "ask"}, {"a": "x", "b": "|", "act": "ask"}},
		{{"c": "1|"}, {"c": "1"}},
		{{"d": "7"}, {"d": "7_B"}}, // the second counter of the one is the first of the other
	}
	rdb, _ := ownRedis(t)
	o, s := newOriginal(t, rdb, rules), newOurs(t, redisstore.New(rdb), rules)
	for _, pair := range pairs {
		for range 2 {
			if err := o.write(t.Context(), pair[0]); err != nil {
				t.Fatal(err)
			}
		}
		for i := range o.rules {
			if r := &o.rules[i]; r.matches(pair[1]) && rdb.Exists(t.Context(), r.key(pair[1])).Val() == 0 {
				t.Errorf("the original tells %v from %v, is known not to", pair[0], pair[1])
			}
		}
		before := admitted(t.Context(), s, pair[1], 1)
		admitted(t.Context(), s, pair[0], 3)
		if before != 1 || s.browse(t.Context(), pair[0]) == 0 {
			t.Errorf("%v is not limited", pair[0])
		}
	}
	// All pairs of values that a separator could be made of.
	var values []string
	for _, v := range []string{"|", "_", "_B", ":", ",", "\x01", "\\", "%", "x", "xx"} {
		values = append(values, v, v+"|", "|"+v, v+"x", v+v)
	}
	slices.Sort(values)
	values = slices.Compact(values)
	s = newOurs(t, inMemory(), rules)
	for _, a := range values {
		for _, b := range values {
			params := koala.Params{"a": a, "b": b, "act": "ask"}
			if code := s.writeThrough(t.Context(), params); code != 0 {
				t.Errorf("%q is taken for another one", params)
			}
			params["act"] = "add" // joint: counted together
			if code := s.writeThrough(t.Context(), params); code != 20 {
				t.Errorf("%q is counted apart", params)
			}
		}
	}
	// An empty value matches nothing, and is counted nowhere.
	if result := s.ask(t.Context(), koala.Params{"a": "", "b": "x", "act": "ask"}, true); result.RetType != 0 {
		t.Errorf("an empty value: %+v", result)
	}
}

// K13: nobody needs to read the tallies for requests to go on, while files change; every answer is of one version of the rules.
func TestK13RequestsGoOnWhileFilesChange(t *testing.T) {
	const stats = 1024 // requests that the original goes on for, if nobody reads them
	// Of each version the first rule lets nobody pass twice, and the second has the same number in its other fields.
	version := func(v int) string {
		return fmt.Sprintf("rule : [count] [uid=+] [time=600; count=100000] [result=2; return=%d]\nrule : [direct] [v=+] [time=1; count=0] [result=%d; return=%d]",
			100+v, 2+v, 200+v)
	}
	s := newOurs(t, inMemory(), version(0))
	stop := make(chan struct{})
	var requests atomic.Int64
	together(6, func(i int) {
		if i == 0 {
			defer close(stop)
			for v := 1; v <= 60 || requests.Load() < 4*stats; v++ {
				writePolicy(t, s.file, "", version(v%2))
				if err := s.Reload(); err != nil {
					t.Error(err)
				}
			}
			return
		}
		for {
			select {
			case <-stop:
				return
			default:
			}
			requests.Add(1)
			switch result := s.ask(t.Context(), koala.Params{"uid": "7", "v": "1"}, i%2 == 0); {
			case result.RetCode == 200 && result.RetType == 2, result.RetCode == 201 && result.RetType == 3:
			default:
				t.Errorf("%+v", result)
				return
			}
			if i == 5 { // the tallies, and what is in force, may be read at any time
				s.Today()
				if d := s.Policy(); len(d.Rules) != 2 || d.Rules[1].Rule-d.Rules[0].Rule != 100 {
					t.Errorf("%+v", d)
				}
			}
		}
	})
	var told int64
	_, tallies := s.Today()
	for _, one := range tallies {
		if one.Rule >= 200 {
			told += one.Deny
		}
	}
	if told != requests.Load() {
		t.Errorf("of %d requests %d are in the tallies", requests.Load(), told)
	}
}

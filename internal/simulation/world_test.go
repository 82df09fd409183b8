package simulation

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The race detector sees worlds in real time: in WebAssembly, there is one thread.
func TestWorldsInRealTime(t *testing.T) {
	for number := range uint64(6) {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			t.Parallel()
			shape := Draw(number)
			shape.Callers, shape.Users = 0, 0 // on a busy machine a lease or a penalty may end before its judge looks
			result, err := Run(t.Context(), number, shape, t.Output())
			if err != nil || len(result.Breaches) > 0 || result.Took < 3*time.Second {
				t.Errorf("%+v %v", result, err)
			}
		})
	}
}

func TestDraw(t *testing.T) {
	var drawn []string
	few, faultless, users, clusters := 0, 0, 0, 0
	for number := range uint64(500) {
		s := Draw(number)
		if s.APIs < 1 || s.Workers < 1 || s.Buyers < 3 || s.Items < 1 || s.Stock < 2 || s.Quota < 1 || s.Sells < 3*time.Second {
			t.Errorf("%d: %+v", number, s)
		}
		var own []string
		for _, f := range s.Faults {
			if f.At >= s.Sells {
				t.Errorf("%d: a fault after the last buyer: %+v", number, s)
			}
			own = append(own, f.Kind)
		}
		drawn = append(drawn, own...)
		slices.Sort(own)
		if len(own) > 2 && len(slices.Compact(own)) == 1 {
			few++
		}
		if s.Users > 0 {
			users++
		}
		if s.Masters > 1 {
			clusters++
		}
		if s.faultless() {
			faultless++
		}
		for _, c := range s.Smaller() {
			if fmt.Sprint(c) == fmt.Sprint(s) {
				t.Errorf("%d: %+v is not smaller", number, c)
			}
		}
	}
	for _, k := range kinds {
		if !slices.Contains(drawn, k.name) {
			t.Errorf("no world has the fault %q", k.name)
		}
	}
	if few < 50 || faultless < 40 || faultless > 90 || users < 90 || clusters < 60 {
		t.Errorf("of 500 worlds, %d have a single kind of fault, %d none, %d logins, and %d a cluster", few, faultless, users, clusters)
	}
}

func TestDocsDescribeEachFault(t *testing.T) {
	text, err := os.ReadFile("../../docs/simulation.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		if !strings.Contains(string(text), k.name) {
			t.Errorf("docs/simulation.md does not describe %q", k.name)
		}
	}
}

func TestACopyIsOfOneMoment(t *testing.T) {
	all, err := startRedis(1, newChance(1))
	if err != nil {
		t.Fatal(err)
	}
	r := all[0]
	defer r.Close()
	write := func() {
		if err := r.command("EVAL", "redis.call('INCR', 'a') redis.call('INCR', 'b')", "0"); err != nil {
			t.Error(err)
		}
	}
	for range 50 {
		write()
		var wg sync.WaitGroup
		wg.Go(write)
		db, err := r.copy()
		if err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		r.follow(db)
		a, _ := r.Get("a")
		b, _ := r.Get("b")
		if a == "" || a != b {
			t.Fatalf("a is %q and b is %q", a, b)
		}
	}
}

package semaphore_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	for where, addr := range map[string]string{"redis": testenv.Redis(t), "cluster": strings.Join(testenv.RedisCluster(t), ",")} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			histories(t, addr)
		})
	}
}

func histories(t *testing.T, addr string) {
	trials := []struct {
		name string
		run  func(tr *trial)
	}{
		{"no fault", func(tr *trial) {
			for range processes {
				tr.spawn()
			}
			tr.busy(50)
		}},
		{"holders are killed", func(tr *trial) {
			for range processes {
				tr.spawn()
			}
			for _, keep := range []int{0, histLimit / 2, histLimit / 2} {
				tr.busy(5)
				busy := tr.job
				if keep > 0 { // all of them hold and none waits, so the others come in as soon as a lease ends
					tr.job.Workers, tr.job.Keep = keep, keep
				}
				victim := tr.spawn()
				tr.job = busy
				victim.until(func(events []event) bool { return len(events) > 20 || keep > 0 && len(holds(events)) == keep })
				victim.kill()
			}
			tr.busy(5)
		}},
		{"holders are stopped for longer than their lease", stopped},
		{"replies are lost", func(tr *trial) {
			tr.job.Lossy = 0.02
			for range processes {
				tr.spawn()
			}
			tr.busy(15)
		}},
		{"messages are lost", func(tr *trial) {
			tr.job.Deaf = true
			for range processes {
				tr.spawn()
			}
			tr.busy(10)
		}},
	}
	for _, c := range trials {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, newHouse(t, addr), "report")
			c.run(tr)
			tr.judge()
		})
	}
}

// stopped: a process that is stopped for longer than its lease learns of the loss when it resumes; by then others have larger tokens.
func stopped(tr *trial) {
	for range processes - 1 {
		tr.spawn()
	}
	tr.job.Keep = 2
	victim := tr.spawn()
	victim.until(func(events []event) bool { return count(events, renewed) >= 2 })
	victim.signal(syscall.SIGSTOP)
	frozen := monotonic()
	others := tr.children[:processes-1]
	for _, c := range others { // until somebody has got a permit more than a lease later
		c.until(func(events []event) bool {
			return slices.ContainsFunc(events, func(e event) bool { return e.What == acquired && e.At > frozen+2*histLease.Nanoseconds() })
		})
	}
	held := holds(victim.said())
	kept := holds(slices.DeleteFunc(victim.said(), func(e event) bool { return e.Worker >= tr.job.Keep }))
	if len(kept) == 0 { // on a busy machine one may have been lost before
		tr.Fatal("the process held nothing when it was stopped")
	}
	victim.signal(syscall.SIGCONT)
	victim.until(func(events []event) bool { // all of them are lost
		for _, e := range events {
			if e.What == lost {
				delete(kept, e.Token)
			}
		}
		return len(kept) == 0
	})
	newest := int64(0)
	for _, c := range others {
		for _, e := range c.said() {
			newest = max(newest, e.Token)
		}
	}
	for token := range held {
		if token >= newest {
			tr.Errorf("the stopped holder's token %d is not older than the others', %d", token, newest)
		}
	}
	for _, e := range victim.said() {
		if held[e.Token] && e.What == renewed && e.Done > frozen+2*histLease.Nanoseconds() {
			tr.Errorf("a lost permit was renewed: %+v", e)
		}
	}
	tr.busy(10)
}

func TestHistoryOfRestarts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		args    []string
		restart func(*testenv.RedisServer)
	}{
		{"with its file", nil, (*testenv.RedisServer).Restart},
		{"with a file that is never late", []string{"--appendfsync", "always"}, (*testenv.RedisServer).Restart},
		{"with nothing", []string{"--appendonly", "no"}, (*testenv.RedisServer).RestartEmpty},
		{"not at all, but all keys are gone", nil, func(r *testenv.RedisServer) {
			rdb := dial(r.URL())
			defer rdb.Close()
			if err := rdb.FlushAll(context.Background()).Err(); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t, c.args...)
			h := newHouse(t, server.URL())
			tr := newTrial(t, h, "report")
			for range processes - 1 {
				tr.spawn()
			}
			tr.job.Keep = 1
			keeper := tr.spawn()
			for survived, restarts := 0, 0; survived < 2; restarts++ {
				if restarts == 20 {
					t.Fatalf("of %d restarts a permit outlived %d, want 2", restarts, survived)
				}
				tr.busy(20)
				keeper.until(func(events []event) bool { return count(events, renewed) > 0 && len(holds(events)) > 0 })
				held := holds(keeper.said())
				c.restart(server)
				back := monotonic()
				lives := func(events []event) bool {
					return slices.ContainsFunc(events, func(e event) bool { return e.What == renewed && e.At > back && held[e.Token] })
				}
				keeper.until(func(events []event) bool { // on a busy machine a restart may take longer than a lease, and the permit is lost
					now := holds(events)
					return lives(events) || !slices.ContainsFunc(slices.Collect(maps.Keys(held)), func(token int64) bool { return now[token] })
				})
				if lives(keeper.said()) {
					survived++
				}
				tr.busy(10)
			}
			tr.judge()
		})
	}
}

// Everything at once: replies and messages are lost, holders are killed and Redis is restarted.
func TestHistoryOfEverything(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	tr := newTrial(t, newHouse(t, server.URL()), "report")
	tr.job.Lossy, tr.job.Deaf = 0.005, true
	tr.spawn()
	tr.job.Deaf = false
	tr.spawn()
	tr.job.Lossy = 0
	tr.spawn()
	for range 2 {
		tr.busy(5)
		victim := tr.spawn()
		victim.until(func(events []event) bool { return len(holds(events)) > 0 })
		victim.kill()
		server.Restart()
	}
	tr.busy(5)
	tr.judge()
}

// A cluster's master dies, and its replica does not know of the last grants.
func TestHistoryOfFailover(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartFailoverCluster(t)
	h := newHouse(t, strings.Join(cluster.Addrs, ","))
	rdb, name := h.client(), ""
	for n := 0; name == ""; n++ { // in a slot of the master that dies
		tag := strconv.Itoa(n) + ":"
		if slot, err := rdb.ClusterKeySlot(soon(t), "{"+tag+"}").Result(); err != nil {
			t.Fatal(err)
		} else if slot < 16384/3 {
			name = tag + "report"
		}
	}
	tr := newTrial(t, h, name)
	for range processes {
		tr.spawn()
	}
	tr.busy(20)
	cluster.KillMaster()
	tr.busy(10)
	tr.judge()
}

// Redis does not answer for longer than a lease: every holder loses its permit, and operations sent in that time do no harm when they
// run.
func TestHistoryOfSilence(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	tr := newTrial(t, newHouse(t, server.URL()), "report")
	for range processes - 1 {
		tr.spawn()
	}
	tr.job.Keep = 2
	keeper := tr.spawn()
	for range 2 {
		tr.busy(10)
		before := count(keeper.said(), renewed)
		keeper.until(func(events []event) bool { return count(events, renewed) > before+1 })
		server.Stop()
		held := holds(keeper.said())
		keeper.until(func(events []event) bool {
			for _, e := range events {
				if e.What == lost || e.What == releasing {
					delete(held, e.Token)
				}
			}
			return len(held) == 0
		})
		server.Continue()
	}
	tr.busy(10)
	if all := tr.judge(); count(all, lost) < 2 {
		t.Errorf("only %d have lost a permit", count(all, lost))
	}
}

package semaphore_test

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

// These tests judge what 64 callers in four processes saw while things broke: was there an order of all that happened in which there were
// never more holders than the limit, each token was larger than the one before, and nobody renewed what it did not hold?

const (
	histLimit = 8
	histLease = semaphore.MinLease
	processes = 4
	workers   = 16
)

// An act is what the model judges. A holder's end is its release, or the end of its lease at a moment that only Redis knows.
type act struct {
	what what
	rank int // of its token among all that are known
}

const ended what = "ended"

// holding is the model's state: who holds, by rank, and which rank is next.
type holding struct {
	next int
	n    int
	held [histLimit]int // the first n, sorted
}

func (h holding) without(rank int) (holding, bool) {
	i, ok := slices.BinarySearch(h.held[:h.n], rank)
	if ok {
		copy(h.held[i:], h.held[i+1:h.n])
		h.n--
		h.held[h.n] = 0
	}
	return h, ok
}

// modelOf is a semaphore. Tokens grow, so the order of the grants is known.
func modelOf(limit int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return holding{} },
		Step: func(state, input, _ any) (bool, any) {
			h, a := state.(holding), input.(act)
			switch a.what {
			case acquired:
				if a.rank != h.next || h.n >= limit {
					return false, state
				}
				h.held[h.n] = a.rank
				h.n, h.next = h.n+1, h.next+1
				return true, h
			case renewed:
				_, ok := slices.BinarySearch(h.held[:h.n], a.rank)
				return ok, h
			default:
				after, ok := h.without(a.rank)
				return ok, after
			}
		},
	}
}

// historyOf makes a history of what children have said. A permit that nobody is known to have released ends at some time, not before its
// lease can have ended, which began no earlier than its last renewal was called.
func historyOf(t *testing.T, lease time.Duration, events []event) []porcupine.Operation {
	t.Helper()
	const slack = int64(2 * time.Millisecond) // between Redis' clock and ours
	type life struct {
		got      event
		begun    int64 // when the lease can have begun at the earliest
		from, to int64 // of the end
	}
	lives := map[int64]*life{}
	var tokens []int64
	for _, e := range events {
		if e.What == acquired {
			if lives[e.Token] != nil {
				t.Errorf("the token %d was granted twice", e.Token)
			}
			lives[e.Token] = &life{got: e, begun: e.At, from: math.MaxInt64, to: math.MaxInt64}
			tokens = append(tokens, e.Token)
		}
	}
	slices.Sort(tokens)
	var history []porcupine.Operation
	add := func(w what, token, call, done int64) {
		rank, _ := slices.BinarySearch(tokens, token)
		history = append(history, porcupine.Operation{ClientId: rank % 64, Input: act{w, rank}, Call: call, Return: done})
	}
	for _, e := range events {
		l := lives[e.Token]
		switch e.What {
		case renewed:
			l.begun = max(l.begun, e.At)
			add(renewed, e.Token, e.At, e.Done)
		case releasing:
			l.from = e.At
		case released:
			l.to = e.Done
		}
	}
	for token, l := range lives {
		add(acquired, token, l.got.At, l.got.Done)
		add(ended, token, min(l.from, l.begun+lease.Nanoseconds()-slack), l.to)
	}
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return history
}

// A trial is one run of the children and what happens to them.
type trial struct {
	*testing.T
	house    *house
	job      job
	children []*child
}

func (tr *trial) spawn() *child {
	c := spawn(tr.T, tr.job)
	tr.children = append(tr.children, c)
	return c
}

func newTrial(t *testing.T, h *house, name string) *trial {
	def := semaphore.Definition{Limit: histLimit, Lease: histLease}
	if err := h.semaphore(name).Define(soon(t), def); err != nil {
		t.Fatal(err)
	}
	def.Existed = true
	return &trial{T: t, house: h, job: job{Addr: h.addr, Namespace: h.namespace, Name: name, Definition: def, Workers: workers}}
}

// busy waits until every child has got n permits more than it had.
func (tr *trial) busy(n int) {
	tr.Helper()
	for _, c := range tr.children {
		if c.killed {
			continue
		}
		had := count(c.said(), acquired)
		c.until(func(events []event) bool { return count(events, acquired) >= had+n })
	}
}

func count(events []event, w what) int {
	n := 0
	for _, e := range events {
		if e.What == w {
			n++
		}
	}
	return n
}

// holds returns the tokens that are held as far as these events tell.
func holds(events []event) map[int64]bool {
	held := map[int64]bool{}
	for _, e := range events {
		switch e.What {
		case acquired:
			held[e.Token] = true
		case releasing, released, lost:
			delete(held, e.Token)
		}
	}
	return held
}

// judge ends the children and judges their history.
func (tr *trial) judge() []event {
	tr.Helper()
	var all []event
	for _, c := range tr.children {
		c.end()
		all = append(all, c.said()...)
	}
	history := historyOf(tr.T, histLease, all)
	verdict := porcupine.CheckOperationsTimeout(modelOf(histLimit), history, time.Minute)
	tr.Logf("%s: %d operations: %d acquired, %d renewed, %d released, %d lost: %s",
		tr.Name(), len(history), count(all, acquired), count(all, renewed), count(all, released), count(all, lost), verdict)
	if verdict != porcupine.Ok {
		tr.Errorf("the history is not one of a semaphore: %s", verdict)
	}
	if tight := porcupine.CheckOperationsTimeout(modelOf(histLimit-1), history, time.Minute); tight != porcupine.Illegal {
		tr.Errorf("the same with a limit smaller by one: %s; it proves nothing", tight)
	}
	return all
}

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

// stopped: who is stopped for longer than its lease learns that it has lost, when it goes on, and others have larger tokens by then.
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
	victim.signal(syscall.SIGCONT)
	victim.until(func(events []event) bool {
		kept := 0
		for _, e := range events {
			if e.What == lost && held[e.Token] {
				kept++
			}
		}
		return kept >= tr.job.Keep
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
			for range 2 {
				tr.busy(20)
				keeper.until(func(events []event) bool { return count(events, renewed) > 0 })
				held := holds(keeper.said())
				c.restart(server)
				back := monotonic()
				keeper.until(func(events []event) bool { // the permit from before lives on
					return slices.ContainsFunc(events, func(e event) bool { return e.What == renewed && e.At > back && held[e.Token] })
				})
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

// Redis answers nobody for longer than a lease: every holder learns it, and what was sent meanwhile does no harm when it is carried out.
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

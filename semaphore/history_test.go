package semaphore_test

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

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

// An act is an operation for the model to judge. A holder's end is its release, or the end of its lease, whose exact time is known only
// to Redis.
type act struct {
	what what
	rank int // of its token among all that are known
}

const ended what = "ended"

// holding is the model's state: the holders, by rank, and the next rank.
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
	answered(t, func(ctx context.Context) error { return h.semaphore(name).Define(ctx, def) })
	def.ExistedBefore = true
	return &trial{T: t, house: h, job: job{Addr: h.addr, Namespace: h.namespace, Name: name, Definition: def, Workers: workers}}
}

// busy waits until every child has got n permits more than it had.
func (tr *trial) busy(n int) {
	tr.Helper()
	for _, c := range tr.children {
		if c.gone() {
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

// holds returns the tokens that are held according to these events.
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

// mostAtOnce returns how many were certainly held at one moment: from when they were acquired until they were given up or lost, or their lease was over.
func mostAtOnce(all []event) (most int) {
	type change struct {
		at int64
		by int
	}
	var changes []change
	for _, a := range all {
		if a.What != acquired {
			continue
		}
		end := a.At + histLease.Nanoseconds()
		for _, e := range all {
			if e.Token == a.Token && (e.What == releasing || e.What == lost) {
				end = min(end, e.At)
			}
		}
		if end > a.Done {
			changes = append(changes, change{a.Done, 1}, change{end, -1})
		}
	}
	slices.SortFunc(changes, func(x, y change) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.by, y.by)) })
	held := 0
	for _, c := range changes {
		held += c.by
		most = max(most, held)
	}
	return most
}

// fill starts new children, of which some workers hold on to their permits beside the others, until these hold all permits at once.
func (tr *trial) fill() {
	tr.Helper()
	tr.job.Keep = histLimit / processes
	for range processes {
		tr.spawn()
	}
	for _, c := range tr.children[len(tr.children)-processes:] {
		c.until(func(events []event) bool {
			return len(holds(slices.DeleteFunc(events, func(e event) bool { return e.Worker >= tr.job.Keep }))) == tr.job.Keep
		})
	}
}

// judge ends the children and judges their history. A history in which there were never as many holders as the limit allows would prove
// nothing: it goes on with new children until there were. Left to chance that takes minutes where messages are lost, because a permit
// then waits half a second for its holder, who holds it for a few milliseconds.
func (tr *trial) judge() []event {
	tr.Helper()
	for enough := time.Now().Add(3 * time.Minute); ; {
		all := tr.ended()
		history := historyOf(tr.T, histLease, all)
		tight := porcupine.CheckOperationsTimeout(modelOf(histLimit-1), history, time.Minute)
		if tight == porcupine.Unknown && mostAtOnce(all) >= histLimit { // which takes no search to see
			tight = porcupine.Illegal
		}
		if tight != porcupine.Illegal && time.Now().Before(enough) {
			tr.Logf("%d operations prove nothing: with a limit smaller by one %s", len(history), tight)
			tr.fill()
			continue
		}
		verdict := porcupine.CheckOperationsTimeout(modelOf(histLimit), history, time.Minute)
		tr.Logf("%s: %d operations: %d acquired, %d renewed, %d released, %d lost: %s",
			tr.Name(), len(history), count(all, acquired), count(all, renewed), count(all, released), count(all, lost), verdict)
		if verdict != porcupine.Ok {
			tr.Errorf("the history is not one of a semaphore: %s", verdict)
		}
		if tight != porcupine.Illegal {
			tr.Errorf("the same with a limit smaller by one: %s; it proves nothing", tight)
		}
		return all
	}
}

// ended ends the children and returns what all have said.
func (tr *trial) ended() (all []event) {
	tr.Helper()
	for _, c := range tr.children {
		c.end()
		all = append(all, c.said()...)
	}
	return all
}

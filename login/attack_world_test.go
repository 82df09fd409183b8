package login_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/login"
)

const (
	checking = 200 * time.Millisecond // of a password
	botSolve = time.Second            // a CAPTCHA, by machines that do nothing else
	people   = 200
)

// A world simulates an hour of logins in a second: events run in order of their time, on a simulated clock.
type world struct {
	t      testing.TB
	attack attack
	clock  *clock
	began  int64
	th     *login.Throttle
	bans   *fakeBans
	rnd    *rand.Rand
	plans  plans
	people []*person // the owner of the name that is guessed with a token, and without; then those who have nothing to do with it

	guesses      []int // that got through, by hour
	proofs, work int   // CAPTCHAs that attackers solved, and what they cost: 1 at the lowest risk
	next         int   // name to try
}

// A plan is something to be done at a time.
type plan struct {
	at int64
	do func()
}

type plans []plan

func (p plans) Len() int           { return len(p) }
func (p plans) Less(i, j int) bool { return p[i].at < p[j].at }
func (p plans) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *plans) Push(x any)        { *p = append(*p, x.(plan)) }
func (p *plans) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

func newWorld(t testing.TB, a attack) *world {
	c := newClock()
	w := &world{t: t, attack: a, clock: c, began: c.now(), bans: newBans(c), rnd: rand.New(rand.NewPCG(1, 2))}
	w.th = throttle(t, memoryStore(c), rules.Default, login.Options{Captcha: everything{}, Bans: w.bans})
	w.employ()
	for i := range a.addresses {
		b := &bot{w: w, ip: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}
		w.after(w.between(0, time.Minute), b.guess)
	}
	return w
}

func (w *world) after(d time.Duration, do func()) {
	heap.Push(&w.plans, plan{w.clock.now() + d.Microseconds(), do})
}

func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rnd.Int64N(int64(to-from)))
}

func (w *world) run(long time.Duration) {
	w.guesses = make([]int, max(1, int(long/time.Hour)))
	for end := w.began + long.Microseconds(); len(w.plans) > 0 && w.plans[0].at < end; {
		p := heap.Pop(&w.plans).(plan)
		w.clock.us.Store(p.at)
		p.do()
	}
}

// reserve is one attempt. What is allowed ends as it must, after a while.
func (w *world) reserve(a login.Attempt, right bool, then func(s login.Settled)) login.Decision {
	d, err := w.th.Reserve(w.t.Context(), a)
	if err != nil {
		w.t.Fatal(err)
	}
	if d.Action == login.Allow {
		w.after(checking, func() {
			result := login.Failure
			if right {
				result = login.Success
			}
			s, err := w.th.Settle(w.t.Context(), d.ID, result)
			if err != nil {
				w.t.Fatal(err)
			}
			then(s)
		})
	}
	return d
}

// A bot guesses as fast as it may.
type bot struct {
	w    *world
	ip   netip.Addr
	name string // that it is at
	held string // a solution that it has not used

	lately []int64 // its guesses
}

func (b *bot) guess() {
	w := b.w
	const below = 29 // of 30
	if n := len(b.lately); w.attack.careful && n >= below {
		if wait := b.lately[n-below] + (10 * time.Minute).Microseconds() - w.clock.now(); wait > 0 {
			w.after(time.Duration(wait)*time.Microsecond, b.guess)
			return
		}
	}
	if b.held == "" || b.name == "" {
		b.name = fmt.Sprint("user", w.next%w.attack.names)
		w.next++
	}
	d := w.reserve(login.Attempt{Name: b.name, IP: b.ip, Captcha: b.held}, false, func(login.Settled) { b.guess() })
	switch {
	case d.Action == login.Allow:
		hour := int((w.clock.now() - w.began) / time.Hour.Microseconds())
		w.guesses[min(hour, len(w.guesses)-1)]++
		b.held = ""
		b.lately = append(b.lately, w.clock.now())
	case d.Action == login.Challenge && w.attack.solves:
		b.held = "right"
		w.proofs++
		w.work += 1 << d.Challenge.Risk
		w.after(botSolve<<d.Challenge.Risk, b.guess)
	case d.Action == login.Challenge && w.attack.names > 1:
		w.after(10*time.Second, b.guess) // maybe it was the name
	default:
		w.after(max(d.RetryAfter, time.Second)+w.between(0, checking), b.guess)
	}
}

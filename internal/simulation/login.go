package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/login"
)

// Users log in, and strangers guess their passwords. The rules are those of the default file with times that fit into a world.
const loginRules = `
version: 1
login:
  - {count: name, limit: 4, window: 3s, then: challenge, for: 3s}
  - {count: name, limit: 8, window: 9s, then: delay, for: 1s}
  - {count: name_ip, limit: 3, window: 3s, then: deny, for: 3s}
  - {count: device, limit: 5, consecutive: true, then: revoke}
`

const denial = 3 * time.Second // of loginRules

// openLogins gives a process its throttle of logins.
func (p *process) openLogins() error {
	set, err := rules.Parse("simulated.yaml", []byte(loginRules), login.Section)
	if err != nil {
		return err
	}
	p.logins, err = login.New(login.NewRedisStore(p.client), func() *rules.Set { return set }, login.Options{
		Secret: []byte("a secret of thirty-two characters"), Namespace: "simulated", Captcha: solved{}, Logger: p.log,
	})
	return err
}

// solved is a CAPTCHA that everybody solves.
type solved struct{}

func (solved) Verify(context.Context, string, captcha.Binding, netip.Addr) error { return nil }

// try is an attempt to log in.
type try struct {
	name, from   string
	device       string // its token
	solved       bool   // with a solution
	right        bool   // the password is
	began, ended time.Time
	decided      bool // by Redis, and the answer arrived
	login.Decision
	back bool // it was settled as a success
}

// logIn is a user, who logs in from one address again and again, with the device token of the first success.
func (w *World) logIn(n int) {
	device, solves := "", false
	for time.Sleep(w.chance.upTo(time.Second)); !w.quiet(); time.Sleep(100*time.Millisecond + w.chance.upTo(time.Second)) {
		t := try{name: fmt.Sprintf("user-%d", n), from: fmt.Sprintf("10.0.0.%d", n), device: device, solved: solves}
		t.right = !w.chance.oneIn(5)
		next := w.try(&t)
		if next != "" {
			device = next
		}
		solves = t.Action == login.Challenge
	}
}

// guess is a stranger, who tries wrong passwords of one user at a time, some at once, and does not always wait for the answer.
func (w *World) guess(n int) {
	solves := false
	for time.Sleep(w.chance.upTo(time.Second)); !w.quiet(); time.Sleep(w.chance.upTo(500 * time.Millisecond)) {
		t := try{
			name: fmt.Sprintf("user-%d", w.chance.between(0, w.shape.Users-1)),
			from: fmt.Sprintf("10.0.1.%d", w.chance.between(0, w.shape.Users)), solved: solves,
		}
		for range w.chance.between(0, 2) {
			w.buyers.Go(func() { w.try(&try{name: t.name, from: t.from, solved: t.solved}) })
		}
		w.try(&t)
		solves = t.Action == login.Challenge && w.chance.oneIn(2)
	}
}

// try makes an attempt at some API, settles it at some other, and returns the device token that it was given.
func (w *World) try(t *try) (device string) {
	_, p := w.api()
	w.tryAt(p, t)
	w.mu.Lock()
	place := len(w.tries)
	w.tries = append(w.tries, *t)
	w.mu.Unlock()
	if t.ID == "" || p.dead.Load() {
		return ""
	}
	time.Sleep(w.chance.upTo(200 * time.Millisecond))
	if !t.right && w.chance.oneIn(8) {
		return "" // it counts as failed all the same
	}
	settled := 0
	for range 5 {
		_, p := w.api()
		s, err := p.logins.Settle(w.ctx, t.ID, result(t.right))
		switch {
		case err != nil && !errors.Is(err, login.ErrUnavailable):
			w.breach("login", "an attempt of %s from %s could not be settled: %v", t.name, t.from, err)
			return ""
		case err != nil || p.dead.Load():
			time.Sleep(100 * time.Millisecond)
			continue
		case settled > 0 && s.Device != device:
			w.breach("login", "an attempt of %s from %s was settled twice, with different devices", t.name, t.from)
		}
		device = s.Device
		if settled++; settled == 2 || !w.chance.oneIn(3) { // some send it once more
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tries[place].back = settled > 0 && t.right
	return device
}

func result(right bool) login.Result {
	if right {
		return login.Success
	}
	return login.Failure
}

// tryAt makes an attempt at an API.
func (w *World) tryAt(p *process, t *try) {
	a := login.Attempt{Name: t.name, IP: netip.MustParseAddr(t.from), Device: t.device}
	if t.solved {
		a.Captcha = "a solution"
	}
	t.began = time.Now()
	d, err := p.logins.Reserve(w.ctx, a)
	t.ended, t.Decision = time.Now(), d
	t.decided = err == nil && !d.Degraded && !p.dead.Load()
	w.trace("%s logs in at %s from %s, right %t, device %t, solved %t: %s %s, degraded %t %v", t.name, p.name, t.from, t.right,
		t.device != "", t.solved, d.Action, d.Reason, d.Degraded, err)
	if err != nil && !errors.Is(err, login.ErrUnavailable) {
		w.breach("answer", "%s logs in: %v", t.name, err)
	}
}

// judgeLogins compares what users and strangers were answered with the rules, and then plays all of the rules at each API.
func (w *World) judgeLogins(ctx context.Context) error {
	if w.shape.Users == 0 {
		return nil
	}
	set, err := rules.Parse("simulated.yaml", []byte(loginRules), login.Section)
	if err != nil {
		return err
	}
	steps, err := login.Steps(set)
	if err != nil {
		return err
	}
	w.mu.Lock()
	tries := slices.Clone(w.tries)
	w.mu.Unlock()
	for i := range steps {
		w.boundTries(&steps[i], tries)
		w.causeOfRefusals(&steps[i], tries)
	}
	w.letOwnersIn(tries)
	for i, p := range w.apis {
		round := 0
		if err := until(ctx, time.Second, func() error {
			round++
			return w.guessAt(p, i, round)
		}); err != nil {
			return err
		}
	}
	return nil
}

// counts reports whether a step counts two attempts together.
func counts(s *login.Step, a, b *try) bool {
	return a.name == b.name && (s.Count == login.CountName || s.Count == login.CountNameIP && a.from == b.from)
}

// boundTries looks for more wrong passwords than a step allows within its window, while Redis keeps its memory. A delay does not apply to
// addresses that are new to the name, nor a CAPTCHA to those who solved it, and the success of a pair begins a new count. The penalties are as
// long as the windows: after a shorter one, one more is allowed.
func (w *World) boundTries(s *login.Step, tries []try) {
	if s.Consecutive || s.Then == login.Delay {
		return
	}
	allowed := func(t *try) bool {
		return t.decided && t.Action == login.Allow && !t.right && t.device == "" && !(s.Then == login.Challenge && t.solved)
	}
	for i := range tries {
		a, n, last := &tries[i], 0, time.Time{}
		if !allowed(a) || s.Count == login.CountNameIP && slices.ContainsFunc(tries, func(t try) bool { return t.right && counts(s, a, &t) }) {
			continue
		}
		for j := range tries {
			b := &tries[j]
			if allowed(b) && counts(s, a, b) && !b.began.Before(a.began) && b.ended.Sub(a.began) < s.Window {
				if n++; b.ended.After(last) {
					last = b.ended
				}
			}
		}
		if n > s.Limit && !w.excused(a.began, last) {
			w.breach("login", "%d wrong passwords of %s from %s were allowed from %v to %v: %s", n, a.name, a.from, a.began.Sub(w.began),
				last.Sub(w.began), s.Name())
		}
	}
}

// causeOfRefusals looks for attempts that a step refused before as many others as its limit can have failed.
func (w *World) causeOfRefusals(s *login.Step, tries []try) {
	if s.Consecutive {
		return
	}
	for i := range tries {
		a, n := &tries[i], 0
		if !a.decided || a.Rule != s.Name() || a.Reason == login.ReasonInFlight {
			continue
		}
		since := a.began.Add(-s.For - s.Window)
		for j := range tries {
			b := &tries[j]
			latest := b.ended
			if !b.decided {
				latest = b.ended.Add(mayCountLate)
			}
			if counts(s, a, b) && !b.back && (b.Action == login.Allow || !b.decided) && latest.After(since) && !b.began.After(a.ended) {
				n++
			}
		}
		if n < s.Limit && !w.excused(since, a.ended) {
			w.breach("login", "%s was refused from %s at %v after %d failures: %s", a.name, a.from, a.ended.Sub(w.began), n, a.Rule)
		}
	}
}

// letOwnersIn looks for users who were not let in although their device token is good: most of what they type with it is right.
func (w *World) letOwnersIn(tries []try) {
	for i := range tries {
		a, failed := &tries[i], 0
		if a.device == "" || !a.decided || a.Action == login.Allow {
			continue
		}
		for _, b := range tries {
			if b.device == a.device && !b.back && !b.began.After(a.ended) {
				failed++
			}
		}
		if failed < 5 && !w.excused(w.began, a.ended) {
			w.breach("login", "%s was not let in with a device token at %v after %d failures: %s %s", a.name, a.ended.Sub(w.began), failed, a.Action,
				a.Reason)
		}
	}
}

// guessAt guesses a new name at an API, until the address is denied and the name needs a CAPTCHA, and then logs in as its owner. An error
// means that Redis did not decide, or took too long.
func (w *World) guessAt(p *process, api, round int) error {
	began, device := time.Now(), ""
	address := func(n int) string { return fmt.Sprintf("10.1.%d.%d", api*8+n, round) }
	for _, step := range []struct {
		from          int
		solved, right bool
		device        bool
		want          login.Action
	}{
		{from: 0, want: login.Allow},
		{from: 0, want: login.Allow},
		{from: 0, want: login.Allow},
		{from: 0, want: login.Deny},
		{from: 1, want: login.Allow},
		{from: 2, want: login.Challenge},
		{from: 2, solved: true, want: login.Allow},
		{from: 3, solved: true, right: true, want: login.Allow},
		{from: 0, device: true, right: true, want: login.Allow},
		{from: 0, right: true, solved: true, want: login.Allow}, // the success before ended the denial
	} {
		t := try{name: fmt.Sprintf("user-last-%d-%d", api, round), from: address(step.from), solved: step.solved, right: step.right}
		if step.device {
			t.device = device
		}
		w.tryAt(p, &t)
		var err error
		if t.ID != "" {
			var s login.Settled
			s, err = p.logins.Settle(w.ctx, t.ID, result(t.right))
			device = s.Device
		}
		switch {
		case !t.decided, err != nil, time.Since(began) > denial:
			return errors.Join(fmt.Errorf("%s does not decide on logins: %+v", p.name, t.Decision), err)
		case t.Action != step.want:
			w.breach("login", "%s answers %s instead of %s to %+v", p.name, t.Action, step.want, step)
			return nil
		}
	}
	return nil
}

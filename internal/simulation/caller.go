package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/semaphore"
)

// Callers of an expensive method share the limits of two users, and the permits of a semaphore.
const (
	method     = "report"
	permits    = 2
	callsIn    = 3
	callWindow = 2 * time.Second
	lease      = 3 * time.Second
)

// forgets notes that Redis has lost what it counted, perhaps without a sign of it.
func (w *World) forgets() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgot = append(w.forgot, time.Now())
}

// openMethod gives a process its gate and its semaphore.
func (p *process) openMethod() (err error) {
	set := admission.Rules(rules.Rule{Name: method, Subject: rules.User, Limit: callsIn, Window: callWindow})
	if p.gate, err = admission.New(p.client, set, admission.Options{
		Secret: []byte("a secret of thirty-two characters"), Namespace: "simulated", Logger: p.log,
	}); err != nil {
		return err
	}
	p.semaphore, err = semaphore.New(p.client, method, semaphore.Options{Limit: permits, Lease: lease, Namespace: "simulated", Holder: p.name})
	return err
}

// use is the time in which a caller held a permit.
type use struct{ from, to time.Time }

func (w *World) call(n int) {
	for time.Sleep(w.chance.upTo(w.shape.Sells / 2)); !w.quiet(); time.Sleep(w.chance.upTo(time.Second)) {
		_, p := w.api()
		began := time.Now()
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		d, err := p.gate.Charge(ctx, admission.Request{User: fmt.Sprintf("caller-%d", n%2), Route: "/" + method})
		cancel()
		w.mu.Lock()
		switch {
		case err != nil || d.Degraded || p.dead.Load():
			w.unknown[n%2] = append(w.unknown[n%2], began)
		case d.Admitted:
			w.admitted[n%2] = append(w.admitted[n%2], d.At)
		default:
			w.refused[n%2] = append(w.refused[n%2], d.At)
		}
		w.mu.Unlock()
		w.trace("caller %d calls %s: admitted %t, degraded %t %v", n, p.name, d.Admitted, d.Degraded, err)
		if err != nil || !d.Admitted || p.dead.Load() || w.chance.oneIn(2) { // not every call needs a permit
			continue
		}
		ctx, cancel = context.WithTimeout(w.ctx, 2*time.Second)
		permit, full, err := p.semaphore.Acquire(ctx)
		cancel()
		if err != nil || full != nil {
			w.trace("caller %d gets no permit of %s: %v", n, p.name, err)
			continue
		}
		from := time.Now()
		w.trace("caller %d holds permit %d of %s", n, permit.Token(), p.name)
		select {
		case <-time.After(w.chance.upTo(3 * time.Second)):
		case <-permit.Context().Done(): // lost
		case <-p.killed:
		}
		w.mu.Lock()
		w.uses = append(w.uses, use{from, time.Now()})
		w.mu.Unlock()
		if err := permit.Release(); err != nil {
			w.trace("%s: a permit could not be released: %v", p.name, err)
		}
	}
}

// callEachAPI calls the method at every API until it decides by its rules and gives a permit.
func (w *World) callEachAPI(ctx context.Context) error {
	if w.shape.Callers == 0 {
		return nil
	}
	for i, p := range w.apis {
		if err := until(ctx, callWindow, func() error {
			d, err := p.gate.Charge(ctx, admission.Request{User: fmt.Sprintf("caller-last-%d", i), Route: "/" + method})
			if err != nil || !d.Admitted || d.Degraded {
				return errors.Join(fmt.Errorf("%s decides no calls: %+v", p.name, d), err)
			}
			permit, full, err := p.semaphore.Acquire(ctx)
			if err != nil || full != nil {
				return errors.Join(fmt.Errorf("%s gives no permits: %+v", p.name, full), err)
			}
			return permit.Release()
		}); err != nil {
			return err
		}
	}
	return nil
}

// excused reports whether Redis forgot something that matters between from and to.
func (w *World) excused(from, to time.Time) bool {
	return slices.ContainsFunc(w.forgot, func(at time.Time) bool { return at.After(from) && at.Before(to) })
}

// mayCountLate is how long after its caller has gone a call may be counted: its process was paused.
const mayCountLate = 10 * time.Second

// boundCallers is I12: no window has more calls than its limit, none refuses a call before it has that many, and no more permits are held at
// once than there are, while Redis keeps its memory. Redis and the callers have one clock.
func (w *World) boundCallers(ctx context.Context) error {
	for n, admitted := range w.admitted {
		slices.SortFunc(admitted, time.Time.Compare)
		for i := callsIn; i < len(admitted); i++ {
			if from, to := admitted[i-callsIn], admitted[i]; to.Sub(from) < callWindow && !w.excused(from, to) {
				w.breach("I12", "caller-%d was admitted %d times from %v to %v", n, callsIn+1, from.Sub(w.began), to.Sub(w.began))
			}
		}
	}
	for n, refused := range w.refused {
		for _, at := range refused {
			within := func(span time.Duration) func(time.Time) bool {
				return func(t time.Time) bool { return !t.After(at) && at.Sub(t) < span }
			}
			counted := len(w.admitted[n]) - len(slices.DeleteFunc(slices.Clone(w.admitted[n]), within(callWindow)))
			if counted < callsIn && !slices.ContainsFunc(w.unknown[n], within(mayCountLate)) {
				w.breach("I12", "caller-%d was refused at %v after %d calls in %v", n, at.Sub(w.began), counted, callWindow)
			}
		}
	}
	for _, u := range w.uses {
		held := 0
		for _, other := range w.uses {
			if !other.from.After(u.from) && other.to.After(u.from) {
				held++
			}
		}
		if held > permits && !w.excused(u.from.Add(-2*lease), u.from) {
			w.breach("I12", "%d of %d permits are held at %v", held, permits, u.from.Sub(w.began))
		}
	}
	if w.shape.Callers == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 4*lease) // after a minute without calls Redis forgets all permits
	defer cancel()
	return until(ctx, time.Second, func() error {
		_, p := w.api()
		status, err := p.semaphore.Status(ctx)
		if err == nil && status.InUse == 0 || errors.Is(err, semaphore.ErrUnknown) {
			return nil
		}
		return errors.Join(fmt.Errorf("%d permits are held, and no caller has one", status.InUse), err)
	})
}

package semaphore

import (
	"testing"
	"time"
)

// The timer at the end of a lease may go off while a renewal is on its way back: then the permit lives on.
func TestPermitRenewedAtTheLastMoment(t *testing.T) {
	set, err := NewSet(nil, SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l := set.lane("")
	l.listens = true // there is nothing to listen to
	p := newPermit(l, held{ticket: ticket{key: random()}, lease: time.Hour, since: time.Now()})
	p.expire()
	if p.ctx.Err() != nil {
		t.Error("a permit whose lease goes on is lost")
	}
	p.until = time.Now()
	p.expire()
	if p.ctx.Err() == nil {
		t.Error("a permit whose lease is over goes on")
	}
}

package login_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/tidegate/tidegate/login"
)

// A person logs in now and then, mistypes once in twenty times, and follows the page's instructions.
type person struct {
	w      *world
	what   string
	name   string
	ip     func() netip.Addr // of the next visit
	cookie bool              // keeps device tokens
	pause  time.Duration     // between visits, about

	at     login.Attempt // of this visit
	device string

	logins, refused, captchas int
	waited, longest           time.Duration
	lost                      time.Duration // of this visit, by waiting
	last                      login.Decision
}

// employ lets the people come. They have the names that are sprayed and stuffed, too.
func (w *world) employ() {
	fixed := func(ip netip.Addr) func() netip.Addr { return func() netip.Addr { return ip } }
	visits := 0
	roaming := func() netip.Addr {
		visits++
		return netip.AddrFrom4([4]byte{172, 16, byte(visits >> 8), byte(visits)})
	}
	hire := func(p *person) {
		p.w = w
		w.people = append(w.people, p)
		if p.cookie {
			_, s := try(w.t, w.th, login.Attempt{Name: p.name, IP: p.ip()}, login.Success)
			p.device = s.Device
		}
		w.after(w.between(0, p.pause), p.visit)
	}
	hire(&person{what: "the owner with a token", name: "user0", ip: fixed(netip.MustParseAddr("198.51.100.1")), cookie: true, pause: 10 * time.Minute})
	hire(&person{what: "the owner at fresh addresses", name: "user0", ip: roaming, pause: 10 * time.Minute})
	for i := 1; i < people; i++ {
		ip := netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)})
		if i <= 60 { // three offices of twenty
			ip = netip.AddrFrom4([4]byte{203, 0, 113, byte(i % 3)})
		}
		hire(&person{what: fmt.Sprint("person ", i), name: fmt.Sprint("user", i), ip: fixed(ip), cookie: i%3 > 0, pause: 40 * time.Minute})
	}
}

func (p *person) visit() {
	p.at = login.Attempt{Name: p.name, IP: p.ip()}
	p.lost = 0
	p.try()
}

func (p *person) try() {
	w := p.w
	if p.cookie {
		p.at.Device = p.device
	}
	right := w.rnd.IntN(20) > 0
	d := w.reserve(p.at, right, func(s login.Settled) {
		if !right {
			w.after(w.between(4*time.Second, 15*time.Second), p.try)
			return
		}
		if s.Device != "" {
			p.device = s.Device
		}
		p.logins++
		w.after(w.between(p.pause/2, p.pause*3/2), p.visit)
	})
	p.last = d
	p.at.Captcha = ""
	switch d.Action {
	case login.Challenge:
		p.captchas++
		p.at.Captcha = "right"
		w.after(w.between(2*time.Second, 10*time.Second), p.try)
	case login.Delay:
		p.waited += d.RetryAfter
		p.lost += d.RetryAfter
		p.longest = max(p.longest, p.lost)
		w.after(d.RetryAfter+w.between(0, 2*time.Second), p.try)
	case login.Deny:
		p.refused++
		w.after(d.RetryAfter, p.try)
	}
}

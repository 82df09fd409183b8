package simulation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Shape is what a number draws of a world.
type Shape struct {
	APIs, Workers   int
	Masters         int // of a Redis Cluster; 1: there is none
	Buyers          int
	Visitors        int // of a waiting room for an item of its own; 0: there is none
	Callers         int // of an expensive method
	Users           int // who log in, while as many strangers guess their passwords
	Items           int
	Stock           int           // of an item
	Quota           int           // units of an item that a buyer may hold
	Hold            time.Duration // time to pay; 0: a committed order is final
	Sells           time.Duration // how long buyers come and faults happen
	Faults          []Fault
	CutIn           int // a connection breaks once in so many messages; of this and the following, 0: never
	SlowMost        int // how slow links are at most, in milliseconds
	DatabaseFailsIn int // an operation of the database fails once in so many
	QueueLateIn     int // a task comes late once in so many
	QueueTwiceIn    int // a task comes twice once in so many
}

// Fault happens at a time after the sale has opened.
type Fault struct {
	At   time.Duration
	Kind string
}

// Draw draws the shape of a world. One world in eight has no faults. A third of the others have one kind of fault, a third a few kinds, and
// a third any.
func Draw(number uint64) Shape {
	r := rand.New(rand.NewPCG(number, 1))
	pick := func(some ...int) int { return some[r.IntN(len(some))] }
	s := Shape{
		APIs: pick(1, 1, 2, 2, 3), Workers: pick(1, 1, 1, 2), Buyers: 3 + r.IntN(13), Items: pick(1, 1, 1, 2),
		Stock: 2 + r.IntN(8), Quota: 1 + r.IntN(2),
		Hold: time.Duration(pick(0, 0, 2, 5)) * time.Second, Sells: time.Duration(3+r.IntN(6)) * time.Second,
		CutIn: pick(0, 0, 1000, 100), SlowMost: pick(0, 0, 5, 60), DatabaseFailsIn: pick(0, 0, 100, 15),
		QueueLateIn: pick(0, 20, 3), QueueTwiceIn: pick(0, 20, 3),
	}
	if r.IntN(3) == 0 {
		s.Visitors = 2 + r.IntN(8)
	}
	if r.IntN(4) == 0 {
		s.Callers = 3 + r.IntN(5)
	}
	some := slices.Clone(kinds)
	r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	some = some[:pick(1, 4, len(some))]
	for at := time.Duration(r.IntN(1000)) * time.Millisecond; at < s.Sells; at += time.Duration(200+r.IntN(3000)) * time.Millisecond {
		s.Faults = append(s.Faults, Fault{at, some[r.IntN(len(some))].name})
	}
	if r.IntN(4) == 0 {
		s.Users = 1 + r.IntN(3)
	}
	if r.IntN(8) == 0 {
		s.Faults, s.CutIn, s.SlowMost, s.DatabaseFailsIn, s.QueueLateIn, s.QueueTwiceIn = nil, 0, 0, 0, 0, 0
	}
	s.Masters = 1
	if r.IntN(6) == 0 {
		s.Masters = 3
	}
	return s
}

// faultless reports whether nothing fails, so that judges can be strict.
func (s Shape) faultless() bool {
	return len(s.Faults) == 0 && s.CutIn == 0 && s.SlowMost == 0 && s.DatabaseFailsIn == 0 && s.QueueLateIn == 0 && s.QueueTwiceIn == 0
}

// Size is about how much work the world is: half of the worlds have at most 31, the smallest 9.
func (s Shape) Size() int {
	return (s.APIs+s.Workers)*int(s.Sells/time.Second) + s.Buyers + s.Visitors + 2*s.Callers + 4*s.Users
}

// Validate returns an error for a shape that no world can have.
func (s Shape) Validate() error {
	if s.APIs < 1 || s.Masters < 1 || s.Items < 1 || s.Stock < 1 || s.Quota < 1 || s.Buyers < 1 || s.Sells <= 0 {
		return errors.New("APIs, Masters, Items, Stock, Quota, Buyers and Sells should be positive")
	}
	for _, f := range s.Faults {
		if !slices.ContainsFunc(kinds, func(k kind) bool { return k.name == f.Kind }) {
			return fmt.Errorf("there is no fault %q", f.Kind)
		}
	}
	return nil
}

// Smaller returns shapes with less than this one, those with much less first.
func (s Shape) Smaller() (all []Shape) {
	try := func(change func(*Shape)) {
		c := s
		c.Faults = slices.Clone(s.Faults)
		change(&c)
		all = append(all, c)
	}
	for _, half := range []int{0, 1} {
		if n := len(s.Faults); n > 1 {
			try(func(c *Shape) { c.Faults = slices.Delete(c.Faults, half*(n/2), n/2+half*(n-n/2)) })
		}
	}
	if s.Buyers > 2 {
		try(func(c *Shape) { c.Buyers /= 2 })
	}
	for _, at := range []func(*Shape) *int{
		func(s *Shape) *int { return &s.Visitors }, func(s *Shape) *int { return &s.Callers },
		func(s *Shape) *int { return &s.Users },
		func(s *Shape) *int { return &s.CutIn }, func(s *Shape) *int { return &s.SlowMost }, func(s *Shape) *int { return &s.DatabaseFailsIn },
		func(s *Shape) *int { return &s.QueueLateIn }, func(s *Shape) *int { return &s.QueueTwiceIn },
	} {
		if *at(&s) > 0 {
			try(func(c *Shape) { *at(c) = 0 })
		}
	}
	for _, at := range []func(*Shape) *int{
		func(s *Shape) *int { return &s.Items }, func(s *Shape) *int { return &s.Workers }, func(s *Shape) *int { return &s.APIs },
		func(s *Shape) *int { return &s.Quota }, func(s *Shape) *int { return &s.Masters },
	} {
		if *at(&s) > 1 {
			try(func(c *Shape) { *at(c)-- })
		}
	}
	for i := range s.Faults {
		try(func(c *Shape) { c.Faults = slices.Delete(c.Faults, i, i+1) })
	}
	if s.Buyers > 1 {
		try(func(c *Shape) { c.Buyers-- })
	}
	return all
}

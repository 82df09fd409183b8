// Package members makes a process known to the others by heartbeats, and holds the lease without which it accepts no orders.
package members

import (
	"context"
	"os"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// Membership makes this process known to the others, and observes them.
type Membership struct {
	*core.Core
	regressions *catalog.Regressions
	turning     *liveness.Pulse // of the loop that hands orders over
	Lease       liveness.Lease
	Heartbeats  liveness.Observer
	began       time.Time // when this process did
}

// New returns the part of a process that begins now. turning is the loop that hands orders over.
func New(c *core.Core, regressions *catalog.Regressions, turning *liveness.Pulse) *Membership {
	return &Membership{Core: c, regressions: regressions, turning: turning, began: time.Now()}
}

// Committed reports whether some worker was known to commit within commitsWithin.
func (m *Membership) Committed() bool { return m.Uncommitted() < core.CommitsWithin }

// Uncommitted returns how long ago a worker was last known to commit, or this process began.
func (m *Membership) Uncommitted() time.Duration {
	last := m.Heartbeats.Proved()
	if last.Before(m.began) {
		last = m.began
	}
	return time.Since(last)
}

func (m *Membership) Processes() (list []orders.Process, known bool) {
	live, known := m.Heartbeats.Live(time.Now())
	for _, of := range live {
		list = append(list, orders.Process{Program: of.Program, Commits: of.Commits})
	}
	return list, known
}

// SendHeartbeats sends this process's heartbeats to the database until ctx ends, while the loop turns that hands orders over: a process
// that could not do so must not keep sales closed.
func (m *Membership) SendHeartbeats(ctx context.Context) error {
	host, _ := os.Hostname()
	self := liveness.Self{Process: m.Process, Host: host, Program: m.Program}
	stuck := false
	err := periodic.Woken(ctx, liveness.HeartbeatInterval, nil, func() {
		ctx, cancel := context.WithTimeout(ctx, core.HeartbeatTimeout)
		defer cancel()
		if was := stuck; !m.turning.Turns() {
			if stuck = true; !was {
				m.Logger.ErrorContext(ctx, "this process is stuck and accepts no orders: it could not hand over what it remembers")
			}
			return
		}
		stuck = false
		self.Commits = m.Commits.Turns()
		sent := time.Now()
		list, err := m.Store.Heartbeat(ctx, self)
		if err != nil {
			return // the lease ends by itself
		}
		now := time.Now()
		if !list.Clock.IsZero() {
			m.Database.Read(list.Clock.Add(now.Sub(sent) / 2).UnixMilli())
		}
		m.Lease.Renew(sent, now)
		if m.Heartbeats.Observe(sent, now, list) {
			m.regressions.Servers.Add(1)
			core.Poke(m.CheckNow)
		}
	})
	m.Lease.End()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), core.HeartbeatTimeout)
	defer cancel()
	_ = m.Store.Leave(leaving, m.Process)
	return err
}

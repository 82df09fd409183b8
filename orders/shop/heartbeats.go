package shop

import (
	"context"
	"os"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
)

// membership makes this process known to the others, and observes them.
type membership struct {
	*core
	regressions *regressions
	turning     *liveness.Pulse // of the loop that hands orders over
	lease       liveness.Lease
	heartbeats  liveness.Observer
	began       time.Time // when this process did
}

// committed reports whether some worker was known to commit within commitsWithin.
func (m *membership) committed() bool { return m.uncommitted() < commitsWithin }

// uncommitted returns how long ago a worker was last known to commit, or this process began.
func (m *membership) uncommitted() time.Duration {
	last := m.heartbeats.Proved()
	if last.Before(m.began) {
		last = m.began
	}
	return time.Since(last)
}

func (m *membership) Processes() (list []orders.Process, known bool) {
	live, known := m.heartbeats.Live(time.Now())
	for _, of := range live {
		list = append(list, orders.Process{Program: of.Program, Commits: of.Commits})
	}
	return list, known
}

// sendHeartbeats sends this process's heartbeats to the database until ctx ends, while the loop turns that hands orders over: a process
// that could not do so must not keep sales closed.
func (m *membership) sendHeartbeats(ctx context.Context) error {
	host, _ := os.Hostname()
	self := liveness.Self{Process: m.process, Host: host, Program: m.program}
	stuck := false
	err := periodic.Woken(ctx, liveness.HeartbeatInterval, nil, func() {
		ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
		defer cancel()
		if was := stuck; !m.turning.Turns() {
			if stuck = true; !was {
				m.logger.ErrorContext(ctx, "this process is stuck and accepts no orders: it could not hand over what it remembers")
			}
			return
		}
		stuck = false
		self.Commits = m.commits.Turns()
		sent := time.Now()
		list, err := m.store.Heartbeat(ctx, self)
		if err != nil {
			return // the lease ends by itself
		}
		now := time.Now()
		if !list.Clock.IsZero() {
			m.database.read(list.Clock.Add(now.Sub(sent) / 2).UnixMilli())
		}
		m.lease.Renew(sent, now)
		if m.heartbeats.Observe(sent, now, list) {
			m.regressions.servers.Add(1)
			poke(m.checkNow)
		}
	})
	m.lease.End()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), heartbeatTimeout)
	defer cancel()
	_ = m.store.Leave(leaving, m.process)
	return err
}

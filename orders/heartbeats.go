package orders

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders/internal/liveness"
)

const heartbeatTimeout = 2 * time.Second

// membership makes this process known to the others, and observes them.
type membership struct {
	*core
	regressions *regressions
	lease       liveness.Lease
	heartbeats  liveness.Observer
}

// sendHeartbeats sends this process's heartbeats to the database until ctx ends.
func (m *membership) sendHeartbeats(ctx context.Context) error {
	err := periodic.Woken(ctx, liveness.HeartbeatInterval, nil, func() {
		ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
		defer cancel()
		sent := time.Now()
		list, err := m.store.Heartbeat(ctx, m.process)
		if err != nil {
			return // the lease ends by itself
		}
		now := time.Now()
		m.lease.Renew(sent, now)
		if m.heartbeats.Observe(sent, now, list) {
			m.regressions.newServer.Store(true)
			poke(m.checkNow)
		}
	})
	m.lease.End()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), heartbeatTimeout)
	defer cancel()
	_ = m.store.Leave(leaving, m.process)
	return err
}

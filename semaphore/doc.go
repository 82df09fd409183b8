// Package semaphore limits how many permits are held at once, across any number of processes, with the state in Redis.
//
//	sem, err := semaphore.New(rdb, "report", semaphore.Options{Limit: 10})
//	running, stop := context.WithCancel(context.WithoutCancel(ctx))
//	defer stop() // after the last Release: a permit that is held when Run ends lasts for its lease
//	go sem.Run(running)
//	p, full, err := sem.Acquire(ctx)
//	switch {
//	case err != nil:
//		return err
//	case full != nil: // all are taken, and ctx has ended
//		return ctx.Err()
//	}
//	defer p.Release()
//	ctx, cancel := p.WithContext(ctx)
//	defer cancel()
//	build(ctx, p.Token())
//
// # Model
//
// A permit is a lease in Redis, 15 seconds by default, which its process renews every third of the lease. If a process dies, its permits
// stay taken until their leases end. Callers that find no permit free wait in a FIFO queue in Redis. Light requests do not overtake a
// heavy one at the head of the queue.
//
//	           there is room                     released by any caller
//	asked ───────────────────────────► held ────────────────────────────► over
//	  │                                 ▲ │ ▲                               ▲
//	  │ all taken                  claimed│ └┘ renewed at a third           │
//	  ▼                                 │ └─────────────────────────────────┤
//	waiting ──────────────────► handed over    lease ended: ErrPermitLost   │
//	  │        a permit is freed        │                                   │
//	  └─────────────────────────────────┴───────────────────────────────────┘
//	      ctx ended, or its process died      not claimed within 2 seconds
//
// Releasing a permit hands it to the head of the queue in the same script, and only the process of that waiter is notified. A process
// with waiters repeats the request of the first one every half second as a heartbeat. It shows Redis that the process is alive, makes up
// for lost messages, and detects expired leases. There are no other requests while waiting, whatever the number of waiters.
//
// # Invariants
//
//   - The total weight held never exceeds the limit. A holder is a lease in Redis that has not ended, and the holders are recorded only
//     once, in a sorted set. There is no separate counter that could drift.
//   - Permits are granted in the order in which the requests reached Redis. The waiters of a process without a heartbeat for two
//     seconds are skipped, and join the queue again when the process is back. This also happens after Redis itself has stalled
//     for that long.
//   - A waiter for several semaphores is not overtaken in any of them: while one is full, or has limit 0, later waiters in the others
//     wait too.
//   - All operations are idempotent. A permit is released by its own key and token, so a late release cannot affect another permit.
//   - Tokens increase: each is larger than all earlier ones in all semaphores of the permit.
//
// A holder that is paused for longer than its lease does not notice the loss until it resumes; its context is then cancelled at once.
// Writes in between cannot be prevented here. The resource that the work writes to should therefore reject a token smaller than one it
// has seen, as Kleppmann describes in "How to do distributed locking" (2016). If the clock stops while the machine is suspended, as in a
// laptop, the loss is only noticed at the next call to Redis.
//
// # When Redis fails
//
// While Redis is unavailable nothing is granted, waiters wait until their contexts end, and holders lose their permits when their leases
// end.
//
// After Redis has lost its data, was restarted, or was replaced by a replica that may lack recent writes, nothing is granted for one
// lease. In that time holders register again by renewing, as long as there is room; without room they lose their permits. A permit that
// was released shortly before registers again too if its holder still renews it. Waiters queue again. The loss is detected by the
// server's run id, and by a missing definition if Definition.ExistedBefore is set or this process has seen the semaphore before. If neither
// applies, because all processes restarted too, grants begin at once. An earlier holder then exceeds the limit until its next renewal
// fails with ErrPermitLost.
//
// Tokens follow Redis' clock, so they keep increasing across such a loss if that clock does. A token can repeat only if the data is lost
// and the clock is set back to before the last grant. A clock that jumps forward ends leases early, and one that jumps back extends them
// by the jump, at most by the longest lease. Nothing depends on the clocks of clients.
package semaphore

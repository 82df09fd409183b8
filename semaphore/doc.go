// Package semaphore hands out permits: at most so many at once, to callers in any number of processes, with Redis as the judge.
//
//	sem, err := semaphore.New(rdb, "report", semaphore.Options{Limit: 10})
//	p, err := sem.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer p.Release()
//	ctx, cancel := p.Under(ctx)
//	defer cancel()
//	build(ctx, p.Token())
//
// # The model
//
// A permit is a lease in Redis, of 15 seconds unless defined otherwise, which its process renews at a third of it. A process that dies keeps its
// permits until their leases end. Who finds no permit waits in a queue in Redis, first in first out; a heavy request at its head is not
// passed by light ones.
//
//	           there is room                     Release, or another's
//	asked ───────────────────────────► held ────────────────────────────► over
//	  │                                 ▲ │ ▲                               ▲
//	  │ all taken          it comes for it│ └┘ renewed at a third           │
//	  ▼                                 │ └─────────────────────────────────┤
//	waiting ──────────────────► handed over    lease ended: ErrPermitLost   │
//	  │        somebody released        │                                   │
//	  └─────────────────────────────────┴───────────────────────────────────┘
//	      ctx ended, or its process died      not taken within 2 seconds
//
// Who releases a permit hands it to the head of the queue in the same script, and only that one's process is told. A process with waiters
// asks again every half second for the first of them: so Redis knows that it lives, a message that was lost is made up for, and a lease that has
// ended is noticed. Nothing else is asked while waiting, however many wait.
//
// # What holds
//
//   - Never is more weight held than the limit: a holder is a lease in Redis that has not ended, and who is a holder is written down once, in
//     a sorted set. Nothing is counted beside it that could drift.
//   - Permits are granted in the order in which Redis heard of the requests. A process of which Redis hears nothing for two seconds is passed
//     over, and has its waiters queue again when it is back: also when it was Redis that stood still for so long.
//   - Who waits for several semaphores is passed in none of them: where one is full, or has the limit 0, those behind wait as well.
//   - Everything can be sent twice. A permit is released by its own key and token, so who was late cannot release another's.
//   - Tokens grow: each is larger than those before in all semaphores of the permit.
//
// A holder that stands still for longer than its lease does not know that it has lost the permit until it moves again: then its context ends at
// once. What it does in between nobody can prevent here. So let what the work writes to refuse a token smaller than one it has seen, as
// Kleppmann describes in "How to do distributed locking" (2016). A clock that stands still with the machine, in a suspended laptop, is not
// noticed before Redis is asked again.
//
// # When Redis fails
//
// While Redis is away nothing is granted, waiters keep waiting until their contexts end, and holders lose their permits when their leases are over.
//
// When Redis has lost its memory, or was restarted, or a replica that may not have heard of everything has taken its place, nothing is granted
// for one lease, while holders register again by renewing. They do so for as long as there is room, and lose their permits where there is
// none; a permit that was released shortly before registers again too, if its holder renews it all the same. Waiters queue again. It is
// noticed by the server's run id, and by a definition that is missing, if Definition.Existed says that there was one, or the process has seen
// it itself. Where neither does, because all who knew have gone as well, grants begin at once, and a holder that nobody knew of is beside the
// limit until it learns at its next renewal that its permit is lost.
//
// Tokens follow Redis' clock, so they grow across such a loss as long as that clock does; where it is set back by more than has passed since the
// last grant, and the memory is lost as well, a token may come again. A clock that jumps forward ends leases early, one that jumps back makes them
// longer by the jump; nothing depends on the clocks of clients.
package semaphore

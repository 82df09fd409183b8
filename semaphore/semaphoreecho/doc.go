// Package semaphoreecho caps routes of Echo: of all processes that share a semaphore, never more than its limit are in the handler at once.
//
// A request waits in the semaphore's queue, first in first out with everybody else who asks for the same permits, be it a worker or another
// service. Who got none in time is answered with a problem (RFC 9457), which names the place it had:
//
//	HTTP/1.1 503 Service Unavailable
//	Content-Type: application/problem+json
//	Retry-After: 4
//
//	{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Service Unavailable","status":503,"reason":"at_capacity","position":3}
//
// The permit is held until the handler has returned, however long it streams, and is free then: also when it panics. When the client hangs up
// the request's context ends, so a handler that heeds it returns and frees the permit, and one that waits leaves the queue. The same context
// ends with the cause semaphore.ErrPermitLost when the permit is lost, because Redis was away for longer than the lease, or somebody has
// released it: stop then, for others may hold what you held.
//
// Where nothing can be decided, because Redis is away, nobody is let in: the error goes to Echo's error handler as a 503.
package semaphoreecho

// Package semaphoreecho caps the concurrency of Echo routes: across all processes that share a semaphore, never more requests are in the
// handler at once than its limit.
//
//	reports, err := semaphore.New(rdb, "report", semaphore.Options{Limit: 2})
//	running, stop := context.WithCancel(context.WithoutCancel(ctx))
//	defer stop() // after the server has shut down: a permit that is held when Run ends lasts for its lease
//	go reports.Run(running)
//	e.GET("/report.csv", writeReport, semaphoreecho.Limit(reports, 5*time.Second))
//
// # Model
//
// A request waits in the semaphore's FIFO queue together with all other users of the same permits, such as workers or other services. A
// request that gets no permit in time is answered with a problem (RFC 9457) that contains its position:
//
//	HTTP/1.1 503 Service Unavailable
//	Content-Type: application/problem+json
//	Retry-After: 4
//
//	{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Service Unavailable","status":503,"reason":"at_capacity","position":3}
//
// The permit is held until the handler has returned or panicked, however long it streams. When the client disconnects, the request's
// context ends: a handler that respects it returns and frees the permit, and a waiting request leaves the queue. The same context is
// cancelled with cause semaphore.ErrPermitLost when the permit is lost, because Redis was unavailable for longer than the lease, or
// because the permit was released elsewhere. The handler must stop then, because another request may hold the permit.
//
// While Redis is unavailable no request is admitted: the error goes to Echo's error handler as a 503.
package semaphoreecho

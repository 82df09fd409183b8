// Package semaphoreasynq caps the concurrency of Asynq task types: across all workers and other users of a semaphore, never more run at
// once than its limit.
//
//	srv := asynq.NewServerFromRedisClient(rdb, semaphoreasynq.Config(asynq.Config{Concurrency: 10}))
//	mux := asynq.NewServeMux()
//	mux.Use(semaphoreasynq.Limit(reports, rdb, "report:orders"))
//
// A task over the cap waits a moment in its worker, 50 ms, and is then put back:
//
//	pending → has a permit → done
//	   ↑ └─→ none in 50 ms → put back for its estimated wait, at least a second
//	   └──────────────────────┘ or until this process frees a permit and wakes the task
//
// Putting back uses no retry. This requires Config; without it every put-back counts as a failure. In the meantime the worker is free for
// other tasks. Every run gets a separate permit, which is renewed while the handler runs and released when it returns or panics. This
// holds even if Asynq runs a task again while its first handler has not stopped. If a worker dies, its permits expire with their leases.
//
// The handler's context is cancelled with cause semaphore.ErrPermitLost when the permit is lost; the handler must stop then. If it
// returns an error, the task is put back, again without using a retry.
//
// # Order
//
// Tasks get their permits roughly in order of arrival. Each process remembers the tasks that it has put back, and wakes the one that has
// waited longest with each permit that it releases. The order is not strict, because a task that is put back is not in the semaphore's
// queue: HTTP callers that continuously queue for the same permits get them first. With Options.MaxBlocking tasks block in their workers
// and are in that queue. Both modes are needed: waking keeps permits busy while tasks wait out Asynq's delays of whole seconds, and
// blocking, which costs a worker, keeps other callers from overtaking tasks.
//
// # Tasks without retries
//
// Asynq archives a task whose handler fails when it has no retry left, and a task enqueued with asynq.MaxRetry(0) never has one. Such a
// task cannot be put back, so it waits in its worker until its deadline. Enqueue tasks with retries; only real failures use them up.
package semaphoreasynq

// Package semaphoreasynq caps types of Asynq tasks: of all workers that share a semaphore, and of whoever else shares it, never more than its
// limit are at work at once.
//
//	srv := asynq.NewServerFromRedisClient(rdb, semaphoreasynq.Config(asynq.Config{Concurrency: 10}))
//	mux := asynq.NewServeMux()
//	mux.Use(semaphoreasynq.Limit(reports, rdb, "report:orders"))
//
// A task over the cap waits a moment in its worker, 50 ms, and is then put back:
//
//	pending → has a permit → done
//	   ↑ └─→ none in 50 ms → put back for about as long as its turn will take, at least a second
//	   └──────────────────────┘ or until somebody here gives a permit back and it is its turn
//
// Putting back costs no retry: Config tells Asynq so, and without it each time would count as a failure. Meanwhile the worker's slot is
// free for other tasks. Every run gets a permit of its own, which is renewed while the handler runs and free when it returns, also when it
// panics, and also when Asynq has given the task up and runs it once more while the first handler does not stop. A worker that dies frees its
// permits when their lease ends.
//
// The handler's context ends with the cause semaphore.ErrPermitLost when the permit is lost: stop then. If the handler returns an error, the task
// is put back, again at no cost.
//
// # Order
//
// Tasks get their permits about in the order in which they came: each process remembers whom it has put back, sends them away until their
// turn, and with each permit that it gives back wakes the one that waits longest. It is no strict order, since a task that is put back stands
// in no queue of the semaphore. So HTTP callers who queue for the same permits all the time go before it; let a task stay in its worker then,
// see Options.Stay.
//
// # Tasks without retries
//
// Asynq archives a task that fails in any way when it has no retry left, and a task enqueued with asynq.MaxRetry(0) never has one. Such a task
// cannot be put back, so it waits in its worker until its deadline. Enqueue tasks with retries, whose number then counts true failures only.
package semaphoreasynq

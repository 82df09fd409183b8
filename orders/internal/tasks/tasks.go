// Package tasks is what a service of orders needs of a task queue.
package tasks

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// A Task takes accepted orders from an API to a worker.
type Task struct {
	Queue   string
	ID      string // a second Put of an ID that the queue has adds nothing
	Type    string // a worker leaves a type that it does not handle to others
	Payload []byte
	Headers map[string]string // of traces; may be nil
}

// ErrDrop is the error of a task that no worker can ever handle. It comes no more.
var ErrDrop = errors.New("orders: no worker can handle the task")

// Queue takes tasks to workers; New of package orders/asynqueue makes one. It may deliver a task late, more than once or out of
// order, and lose all with its server, because the outbox has the orders. Its methods return the errors of that server. It is
// safe for concurrent use.
type Queue interface {
	// Spread returns over how many queues tasks should be spread, so that each server has a share.
	Spread() int
	// Put adds a task, and returns nil if the queue has it already. Workers get it after delay at the earliest.
	Put(ctx context.Context, t Task, delay time.Duration) error
	// Work gives the tasks of some queues to w until ctx ends, and returns after the calls in progress have.
	Work(ctx context.Context, w Worker) error
	// Tasks counts the tasks of some queues by state. It returns an error too if the server does not let Put add to them.
	Tasks(ctx context.Context, queues []string) (map[string]int, error)
}

// Active is the state of the tasks that workers are handling.
const Active = "active"

// A Worker handles tasks.
type Worker struct {
	Queues     []string
	Concurrent int // tasks at once, at most
	// Handle returns an error if the task has to come again, after Delay, or an ErrDrop.
	Handle func(ctx context.Context, t Task) error
	Delay  func(err error) time.Duration
	Logger *slog.Logger
}

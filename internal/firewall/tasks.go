package firewall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
)

// Task is the type of a task: the ban of a target has changed.
const Task = "ban:changed"

const (
	taskWithin = 2 * time.Minute // including the wait for other runs
	// taskKept is how long a completed task keeps its ID, so that another process with the same event does not enqueue it again.
	taskKept      = 30 * time.Minute
	enqueueWithin = 2 * time.Second
)

type payload struct {
	Kind  bans.Kind `json:"kind"`
	Value string    `json:"value"`
	Later bool      `json:"later,omitempty"` // not the first task for this change
}

// Queue is the name of the Asynq queue of an installation's bans.
func Queue(namespace string) string { return namespace + "-bans" }

// enqueue makes a task. An existing task with the same ID is no error.
func enqueue(ctx context.Context, client *asynq.Client, namespace, id string, p payload, lasts time.Duration, opts ...asynq.Option) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("firewall: enqueue: %w", err)
	}
	opts = append(opts, asynq.Queue(Queue(namespace)), asynq.TaskID(id), asynq.Timeout(taskWithin), asynq.Retention(taskKept),
		asynq.MaxRetry(tries(lasts)))
	_, err = client.EnqueueContext(ctx, asynq.NewTask(Task, text), opts...)
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("firewall: enqueue: %w", err)
	}
	return nil
}

// A History passes events to another one, and enqueues tasks for the workers. Make it with NewHistory; it is safe for concurrent use.
type History struct {
	next      bans.History
	client    *asynq.Client
	namespace string
	rules     func() *rules.Set
}

// NewHistory returns a history that makes tasks while the rules configure a program. The caller closes next and queue.
func NewHistory(next bans.History, queue redis.UniversalClient, namespace string, rules func() *rules.Set) *History {
	return &History{next, asynq.NewClientFromRedisClient(queue), namespace, rules}
}

// Record implements bans.History. The tasks do not depend on the other history: the firewall gets bans even if the database is
// unavailable.
func (h *History) Record(ctx context.Context, events []bans.Event) error {
	err := h.enqueue(ctx, events)
	return errors.Join(h.next.Record(ctx, events), err)
}

func (h *History) enqueue(ctx context.Context, events []bans.Event) error {
	if len(scriptOf(h.rules()).Argv) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, enqueueWithin)
	defer cancel()
	for i := range events {
		e := &events[i]
		if _, ok := e.Prefix(); !ok {
			continue
		}
		id := strings.Join([]string{string(e.Kind), e.Value, e.ID}, ":")
		if err := enqueue(ctx, h.client, h.namespace, id, payload{Kind: e.Kind, Value: e.Value}, e.Until.Sub(e.At)); err != nil {
			return err
		}
	}
	return nil
}

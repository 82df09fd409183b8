package pubsub_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/pubsub"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// A listener receives all messages after an empty one, also after its connection broke, until its context ends.
func TestFollow(t *testing.T) {
	opts, err := redis.ParseURL(testenv.StartRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	messages, failures, ended := make(chan string), make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- pubsub.Follow(ctx, time.Millisecond, func() error {
			return pubsub.Listen(ctx, pubsub.Of(rdb), []string{"c"}, func(message string) { messages <- message })
		}, func(err error) { failures <- err })
	}()
	for range 2 {
		if m := <-messages; m != "" {
			t.Errorf("received %q first", m)
		}
		for _, want := range []string{"a", "b"} {
			if err := rdb.Publish(ctx, "c", want).Err(); err != nil {
				t.Fatal(err)
			}
			if m := <-messages; m != want {
				t.Errorf("received %q, want %q", m, want)
			}
		}
		if err := rdb.ClientKillByFilter(ctx, "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		if err := <-failures; err == nil {
			t.Error("no error")
		}
	}
	<-messages
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Without Pub/Sub there is nothing to listen to.
func TestListenWithoutASubscribe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := pubsub.Listen(ctx, pubsub.Of(nil), []string{"c"}, nil); err != nil {
		t.Error(err)
	}
}

package shop_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// TestADatabaseThatStandsStillEndsLists: the database keeps its connections open and does not answer.
func TestADatabaseThatStandsStillEndsLists(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	stop, err := in.pool.Begin(t.Context())
	must(t, err)
	_, err = stop.Exec(t.Context(), `LOCK TABLE order_events, dead_letters IN ACCESS EXCLUSIVE MODE`)
	must(t, err)
	for name, ask := range map[string]func() error{
		"events": func() error {
			_, err := p.Events(t.Context(), 0, 10, time.Hour)
			return err
		},
		"dead letters": func() error {
			_, err := p.DeadLetters(t.Context(), orders.ID{}, 10)
			return err
		},
		"replay": func() error {
			_, err := p.Replay(t.Context(), orders.ID{1})
			return err
		},
	} {
		answer := make(chan error, 1)
		go func() { answer <- ask() }()
		select {
		case err := <-answer:
			if !errors.Is(err, orders.ErrUnavailable) {
				t.Errorf("%s: %v, want ErrUnavailable", name, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: no answer", name)
		}
	}
	must(t, stop.Rollback(t.Context()))
}

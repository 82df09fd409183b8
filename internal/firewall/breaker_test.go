package firewall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/bans"
)

// pass ages the breaker's data, as if time had passed.
func (b *breaker) pass(t *testing.T, d time.Duration) {
	t.Helper()
	ctx := t.Context()
	runs, err := b.rdb.ZRangeWithScores(ctx, b.prefix+"runs", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		b.rdb.ZAddArgs(ctx, b.prefix+"runs", redis.ZAddArgs{XX: true, Members: []redis.Z{{Score: run.Score - float64(d.Microseconds()), Member: run.Member}}})
	}
	if left := b.rdb.PTTL(ctx, b.prefix+"open").Val(); left > d {
		b.rdb.PExpire(ctx, b.prefix+"open", left-d)
	} else {
		b.rdb.Del(ctx, b.prefix+"open")
	}
}

func TestBreaker(t *testing.T) {
	type step struct {
		after  time.Duration
		how    asking
		wait   time.Duration // about; 0: it is run
		opened bool
		open   bool
	}
	const s = time.Second
	for name, steps := range map[string][]step{
		"below its limit": {{0, first, 0, false, false}, {0, first, 0, false, false}, {50 * s, first, 0, false, false}},
		"slides": {
			{0, first, 0, false, false},
			{30 * s, first, 0, false, false},
			{1 * s, first, 0, false, false},
			{30 * s, first, 0, false, false}, // the one of a minute ago is forgotten
			{1 * s, again, 28 * s, false, false},
		},
		"opens, and closes after a quiet minute": {
			{0, first, 0, false, false},
			{0, first, 0, false, false},
			{0, first, 0, false, false},
			{0, first, 60 * s, true, true},
			{20 * s, first, 60 * s, false, true}, // the last order too many
			{40 * s, again, 20 * s, false, true},
			{0, free, 20 * s, false, true},
			{21 * s, again, 0, false, false},
		},
		"stays open as long as too many come": {
			{0, first, 0, false, false},
			{0, first, 0, false, false},
			{0, first, 0, false, false},
			{0, first, 60 * s, true, true},
			{40 * s, first, 60 * s, false, true},
			{40 * s, first, 20 * s, false, true},
			{0, first, 20 * s, false, true},
			{0, first, 20 * s, false, true},
			{0, first, 60 * s, false, true},
			{61 * s, first, 0, false, false},
		},
		"is not opened by what was held back": {
			{0, again, 0, false, false},
			{0, again, 0, false, false},
			{0, again, 0, false, false},
			{0, again, 60 * s, false, false},
			{0, again, 60 * s, false, false},
			{0, free, 0, false, false},
			{61 * s, again, 0, false, false},
		},
		"forgets what a clock that stepped back has still to see": {
			{0, first, 0, false, false},
			{0, first, 0, false, false},
			{0, first, 0, false, false},
			{-3600 * s, again, 0, false, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBreaker(newSite(t, recorder).rdb, "breaker-"+fmt.Sprint(time.Now().UnixNano()))
			for i, st := range steps {
				b.pass(t, st.after)
				a, err := b.allow(t.Context(), address("203.0.113.7"), time.Hour, st.how, 3)
				if err != nil {
					t.Fatal(err)
				}
				wrong := a.opened != st.opened || a.open > 0 != st.open || a.wait > 0 != (st.wait > 0) || (a.wait-st.wait).Abs() > 10*s
				if wrong {
					t.Errorf("step %d: %+v, want %+v", i, a, st)
				}
				if a.wait == 0 {
					_ = b.forget(t.Context(), address("203.0.113.7"))
				}
			}
		})
	}
}

// The log reports when the breaker opens, and the first run after that; not when it closes without room for a run.
func TestHeard(t *testing.T) {
	var log strings.Builder
	w := &Worker{log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, step := range []struct {
		answer
		said string
	}{
		{answer{}, ""},
		{answer{time.Minute, true, time.Minute}, "more than per_minute"},
		{answer{time.Second, false, time.Second}, ""},
		{answer{time.Second, false, 0}, ""},
		{answer{}, "to the firewall again"},
		{answer{}, ""},
	} {
		log.Reset()
		if w.observe(t.Context(), step.answer); (log.Len() > 0) != (step.said != "") || !strings.Contains(log.String(), step.said) {
			t.Errorf("%+v: %q, want %q", step.answer, log.String(), step.said)
		}
	}
}

// What is held back is banned when there is room, unless it is over. Lifts are never held back.
func TestHeldBack(t *testing.T) {
	s := newSite(t, recorder)
	s.obey("bans: {per_minute: 2, run: " + s.argv() + "}")
	w := s.worker()
	targets := []bans.Target{address("203.0.113.1"), address("203.0.113.2"), address("203.0.113.3"), address("203.0.113.4")}
	for _, target := range targets {
		s.ban(target, time.Hour)
		s.handle(w, target)
	}
	line := func(action string, i int) string {
		if action == "ban" {
			return fmt.Sprintf("<ban><203.0.113.%d><3600><operator>", i)
		}
		return fmt.Sprintf("<unban><203.0.113.%d>", i)
	}
	s.wrote("two fit", line("ban", 1), line("ban", 2))
	if open, n := w.metric("tidegate_ban_script_breaker_open"), w.count("ban", "postponed"); open != 1 || n != 2 {
		t.Errorf("breaker %v, postponed %d", open, n)
	}
	s.lift(targets[0])
	s.handle(w, targets[0])
	s.wrote("lifted", line("unban", 1))
	s.ban(targets[3], time.Millisecond) // it will be over
	for _, b := range s.gate.Bans() {
		if b.Value == "203.0.113.3" && time.Until(b.Until) < 59*time.Minute {
			t.Errorf("%v", b)
		}
	}

	held := func(t bans.Target) error {
		return w.handle(context.Background(), asynq.NewTask(Task, fmt.Appendf(nil, `{"kind":%q,"value":%q,"later":true}`, t.Kind, t.Value)))
	}
	var back *heldBack
	w.breaker.pass(t, 30*time.Second)
	if err := held(targets[2]); !errors.As(err, &back) || back.wait > 40*time.Second { // it keeps nothing open
		t.Errorf("while it is open: %v", err)
	}
	w.breaker.pass(t, 31*time.Second)
	for _, target := range targets[2:] {
		if err := held(target); err != nil {
			t.Error(err)
		}
	}
	s.wrote("a minute later", line("ban", 3))
	if open := w.metric("tidegate_ban_script_breaker_open"); open != 0 {
		t.Errorf("breaker %v", open)
	}
}

// The whole way of a ban that is held back, through Asynq.
func TestHeldBackComesAgain(t *testing.T) {
	s := newSite(t, recorder)
	s.obey("bans: {per_minute: 1, run: " + s.argv() + "}")
	w := s.worker()
	s.run(s.gate.Run, w.Run)
	s.ban(address("203.0.113.1"), time.Hour)
	s.awaitLine("<ban><203.0.113.1><3600><operator>")
	s.ban(address("203.0.113.2"), time.Hour)
	s.await("it is held back", func() bool { return w.count("ban", "postponed") == 1 })
	w.breaker.pass(t, 61*time.Second)
	scheduled := "asynq:{" + Queue(s.namespace) + "}:scheduled"
	s.await("a task for later", func() bool {
		later := s.rdb.ZRange(t.Context(), scheduled, 0, -1).Val()
		for _, id := range later {
			s.rdb.ZAddXX(t.Context(), scheduled, redis.Z{Score: float64(time.Now().Unix()), Member: id})
		}
		return len(later) == 1
	})
	s.await("it is told", func() bool { return w.count("ban", "ok") == 2 })
}

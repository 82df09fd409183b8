package rehearse

import (
	"context"
	"fmt"
	"io"
	"sort"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/tidegate/tidegate/internal/judge"
)

// tally is the counters of the progress line; the report counts from the history. Safe for concurrent use.
type tally struct{ sent, admitted, refused, lost, inFlight, confirmed atomic.Int64 }

func (t *tally) begin(c judge.Call) {
	if c.Attempt == 1 {
		t.sent.Add(1)
	}
	t.inFlight.Add(1)
}

func (t *tally) end(c judge.Call) {
	t.inFlight.Add(-1)
	switch c.Outcome {
	case judge.Refused:
		t.refused.Add(1)
	case judge.Lost:
		t.lost.Add(1)
	}
}

// line formats the state at a time; due is how many calls should have been sent.
func (t *tally) line(at time.Duration, due int) string {
	n := func(v int64) string { return humanize.Comma(v) }
	return fmt.Sprintf("%4ds  planned %9s  sent %9s  admitted %9s  refused %9s  lost %6s  in flight %6s  confirmed %9s\n",
		int(at.Seconds()), n(int64(due)), n(t.sent.Load()), n(t.admitted.Load()), n(t.refused.Load()), n(t.lost.Load()),
		n(t.inFlight.Load()), n(t.confirmed.Load()))
}

// report writes a line each second, and a last one when ctx ends. Write errors are ignored.
func (c *crowd) report(ctx context.Context, w io.Writer, clicks []click) {
	show := func() {
		at := time.Since(c.start)
		due := sort.Search(len(clicks), func(i int) bool { return clicks[i].at > at })
		_, _ = io.WriteString(w, c.tally.line(at, due))
		c.rec.flush()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			show()
		case <-ctx.Done():
			show()
			return
		}
	}
}

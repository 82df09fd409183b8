package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/rehearse"
)

// judge combines what the crowd saw, what the API reports, and what the databases contain.
func (c *cluster) judge(ctx context.Context, res *result, report *rehearse.Report, file string) {
	f, err := os.Open(file)
	c.must(err)
	defer f.Close()
	h, err := rehearse.ReadHistory(f)
	c.must(err)
	var accepted []string
	seen := make(map[string]bool)
	for _, call := range h.Calls {
		if call.Outcome == judge.Admitted && !seen[call.OrderID] {
			seen[call.OrderID] = true
			accepted = append(accepted, call.OrderID)
		}
	}
	res.Accepted = len(accepted)
	res.Calls = len(h.Calls)
	res.SlowestMS = slowest(h).Milliseconds()
	res.UnavailableMS = unavailable(h).Milliseconds()
	res.Reached = c.reached()
	for _, finding := range report.Findings {
		res.Judged = append(res.Judged, finding)
		if finding.Verdict == judge.Breach {
			res.breach(finding.Invariant, finding.Detail, finding.Examples...)
		}
	}
	accepted = append(accepted, c.bought.before(time.Now())...)
	looked, err := c.lookUndisturbed(ctx, accepted, h.Prefix)
	if err != nil {
		res.breach("I25", err.Error())
	}
	rejected, err := c.rejected(ctx, h, c.late.all(), res.Rejected)
	c.must(err)
	raises, err := c.raises(ctx)
	c.must(err)
	led, loads, raised := c.leaders.findings(raises)
	res.Loads, res.Raised, res.Stopped = loads, raised, c.steps.reached
	for _, err := range c.bought.failures() {
		res.breach("harness", err.Error())
	}
	looked = append(append(looked, rejected, c.refused.findings()), led...)
	res.Looked = looked
	reopened, api := c.openings.longest()
	res.ReopenedMS = reopened.Milliseconds()
	if reopened > c.reopenTime {
		res.breach("open", fmt.Sprintf("%s took no orders for %.1f s while no fault was in effect", api, reopened.Seconds()))
	}
	for _, b := range looked {
		switch {
		case b.Invariant == "I1":
			res.Lost += b.Count
		case b.Invariant == "I3", b.Invariant == "I5":
			res.Oversold += b.Count
		case b.Title == unitNowhere:
			res.Nowhere += b.Count
		}
		if b.Count > 0 {
			res.breach(b.Invariant, "the databases: "+b.Title, b.Examples...)
		}
	}
}

// lookUndisturbed looks again if a recovery began or was under way meanwhile: until its items are loaded, Redis has no units. A
// client of a cluster may take a second to notice that a slot has another master, which starts one.
func (c *cluster) lookUndisturbed(ctx context.Context, accepted []string, prefix string) (all []breaches, err error) {
	for range 20 {
		var before, after int64
		var recovering bool
		if before, recovering, err = c.recovery(ctx); err == nil && !recovering {
			if all, err = c.look(ctx, accepted, prefix); err != nil {
				return nil, err
			}
			if after, recovering, err = c.recovery(ctx); err == nil && after == before && !recovering {
				return all, nil
			}
		}
		periodic.Pause(ctx, time.Second)
	}
	return nil, fmt.Errorf("the sale does not come out of its recovery: %w", cmp.Or(err, errors.New("an item is being loaded")))
}

// recovery returns the epoch of the sale, and whether an item of it is being loaded.
func (c *cluster) recovery(ctx context.Context) (epoch int64, recovering bool, err error) {
	if err := c.pool.QueryRow(ctx, `SELECT epoch FROM sales WHERE sale = $1`, sale).Scan(&epoch); err != nil {
		return 0, false, err
	}
	rdb := c.rdb()
	defer rdb.Close()
	fields, err := rdb.HMGet(ctx, itemKey(item, epoch, "item"), "next", "recovering").Result()
	return epoch, err == nil && (fields[0] == nil || fields[1] != nil), err
}

// rejected finds orders that were answered 202 and then rejected, for whatever reason, although no API that accepted them was stopped long
// enough for a recovery to go on without them. It counts all that were answered 202 and rejected in byReason.
func (c *cluster) rejected(ctx context.Context, h *judge.History, stops []judge.Stop, byReason map[string]int) (breaches, error) {
	b := breaches{Invariant: "rejected", Title: "an order answered 202 and rejected although the API that answered was still running"}
	rows, err := c.pool.Query(ctx, `SELECT order_id::text, reason FROM orders WHERE status = 'rejected' ORDER BY 1`)
	if err != nil {
		return b, err
	}
	type order struct{ ID, Reason string }
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[order])
	if err != nil {
		return b, err
	}
	excused, promised := make(map[string]bool), make(map[string]bool)
	for _, call := range h.Calls {
		if call.Outcome == judge.Admitted {
			promised[call.OrderID] = true
			excused[call.OrderID] = excused[call.OrderID] || slices.ContainsFunc(stops, func(s judge.Stop) bool { return s.API == call.API })
		}
	}
	for _, id := range c.bought.before(time.Now()) {
		promised[id], excused[id] = true, len(stops) > 0
	}
	for _, o := range all {
		if !promised[o.ID] {
			continue
		}
		byReason[o.Reason]++
		if !excused[o.ID] {
			b.wrong("%s: %s", o.ID, o.Reason)
		}
	}
	return b, nil
}

// slowest returns the longest time from a 202 until the buyer saw the order's next status.
func slowest(h *judge.History) (longest time.Duration) {
	accepted := make(map[string]time.Duration)
	for _, call := range h.Calls {
		if at, ok := accepted[call.OrderID]; call.Outcome == judge.Admitted && (!ok || call.Ended < at) {
			accepted[call.OrderID] = call.Ended
		}
	}
	for _, s := range h.StatusReads {
		if at, ok := accepted[s.OrderID]; ok && s.State != "accepted" {
			longest = max(longest, s.Ended-at)
			delete(accepted, s.OrderID)
		}
	}
	return longest
}

// unavailable returns the longest time in which every call ended with a 503 or without a response.
func unavailable(h *judge.History) (longest time.Duration) {
	calls := slices.Clone(h.Calls)
	slices.SortFunc(calls, func(a, b judge.Call) int { return int(a.Ended - b.Ended) })
	since := time.Duration(-1)
	for _, call := range calls {
		switch {
		case call.Outcome != judge.Lost:
			since = -1
		case call.Reason == "hung_up":
		case since < 0:
			since = call.Ended
		default:
			longest = max(longest, call.Ended-since)
		}
	}
	return longest
}

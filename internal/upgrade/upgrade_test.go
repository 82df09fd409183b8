//go:build upgrade

package upgrade

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/rehearse"
	"github.com/tidegate/tidegate/internal/testenv"
)

// How make upgrade runs TestUpgrade:
//
//	go test ./internal/upgrade -run TestUpgrade -v -old 63850f3d
var (
	oldCommit = flag.String("old", "670b20f", "commit of the old version")
	rate      = flag.Float64("rate", 100, "new buyers per second; there are half as many units, so that they buy until the end")
	wave      = flag.Duration("wave", 40*time.Second, "how long new buyers come")
	report    = flag.String("report", "", "file for the table of results")
)

type version int

const (
	older version = iota
	newer
)

func (v version) String() string { return [...]string{"old", "new"}[v] }

// move replaces all APIs or all workers, one at a time, migrates the schema, or makes Redis lose its memory.
type move struct {
	what string // apis, workers, schema or redis
	to   version
}

// scenario is a sale during which programs are replaced. The moves after the wave are for programs that cannot empty the queues.
type scenario struct {
	name          string
	apis, workers version // at the start
	during, after []move  // the wave
}

var scenarios = []scenario{
	{name: "forward: migration, workers, APIs", during: []move{{"schema", newer}, {"workers", newer}, {"apis", newer}}},
	{name: "back: APIs, workers", apis: newer, workers: newer, during: []move{{"apis", older}, {"workers", older}}},
	{name: "old APIs beside new workers", apis: older, workers: newer},
	{name: "new APIs beside old workers", apis: newer, workers: older, after: []move{{"workers", newer}}},
	{name: "forward, and Redis loses its memory between workers and APIs", during: []move{{"schema", newer}, {"workers", newer}, {"redis", 0}, {"apis", newer}}},
}

// TestUpgrade replaces programs of one version by those of another in the middle of a sale.
func TestUpgrade(t *testing.T) {
	bins := map[version]string{older: build(t, *oldCommit), newer: testenv.Programs(t)}
	table := []string{
		"| case | orders | calls repeated | until confirmed, p99 | longest | invariants |",
		"|---|---:|---:|---:|---:|---|",
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) { table = append(table, s.run(t, bins)) })
	}
	text := strings.Join(table, "\n") + "\n"
	t.Log("\n" + text)
	if *report != "" {
		if err := os.WriteFile(*report, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// run returns the scenario's line of the table.
func (s *scenario) run(t *testing.T, bins map[version]string) string {
	in := s.install(t, bins)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var (
		result *rehearse.Report
		err    error
		over   = make(chan struct{})
		begun  = &started{at: make(chan time.Time, 1)}
	)
	go func() {
		defer close(over)
		o := in.crowd(begun)
		o.Faults = slices.ContainsFunc(s.during, func(m move) bool { return m.what == "redis" })
		result, err = rehearse.Run(ctx, o)
	}()
	defer func() { cancel(); <-over }()
	var start time.Time
	select {
	case start = <-begun.at:
	case <-over:
		t.Fatalf("the crowd did not start: %v", err)
	}
	periodic.Pause(ctx, time.Until(start.Add(3*time.Second)))
	for _, m := range s.during {
		in.move(m)
	}
	if took := time.Since(start); took > *wave {
		t.Errorf("the exchange ended %v after the crowd came, who came for %v: repeat with a longer -wave", took, *wave)
	}
	periodic.Pause(ctx, time.Until(start.Add(*wave)))
	if len(s.after) > 0 {
		in.settle(ctx)
		for _, m := range s.after {
			in.move(m)
		}
	}
	<-over
	must(t, err)
	var findings bytes.Buffer
	must(t, result.WriteTable(&findings))
	t.Log("\n" + findings.String())
	if !result.OK() {
		t.Error("an invariant is broken or was not judged")
	}
	in.verify()
	in.noTasksLeft(ctx)
	in.logged()
	return in.row(s.name, result)
}

// sale is the name of the sale of every rehearsal; each has servers of its own.
const sale = "rush"

func (in *installation) crowd(progress *started) rehearse.Options {
	return rehearse.Options{
		PublicURLs: in.public, InternalURL: in.internal[0], Token: in.token, Sale: sale, Stock: int(*rate * wave.Seconds() / 2), Hold: 3 * time.Second,
		Rate: *rate, Duration: *wave, DuplicateClicks: 0.2, HangUps: 0.05, Keyless: 0.1, Shares: rehearse.WholeLife(), Seed: 1, Limit: 100,
		Connections: 600, Followers: 200, RequestTimeout: 3 * time.Second, Attempts: 8, Progress: progress,
	}
}

// started reports when the crowd began: its first progress line comes one second later.
type started struct {
	begun atomic.Bool
	at    chan time.Time
}

func (s *started) Write(line []byte) (int, error) {
	if s.begun.CompareAndSwap(false, true) {
		s.at <- time.Now().Add(-time.Second)
	}
	return len(line), nil
}

func (in *installation) row(name string, r *rehearse.Report) string {
	ok, judged := 0, 0
	for _, f := range r.Findings {
		if f.Verdict != judge.NotJudged {
			judged++
		}
		if f.Verdict == judge.OK {
			ok++
		}
	}
	seconds := func(ms rehearse.Ms) string { return fmt.Sprintf("%.2f s", time.Duration(ms).Seconds()) }
	return fmt.Sprintf("| %s | %d | %d of %d | %s | %s | %d of %d hold |", name, r.Admitted, r.Attempts-r.Planned-r.Reordered, r.Attempts,
		seconds(r.Confirm.P99), seconds(r.Confirm.Max), ok, judged)
}

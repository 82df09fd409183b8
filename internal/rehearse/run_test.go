package rehearse

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(6) // crowds that wait for a server that waits
	goleak.VerifyTestMain(m)
}

// smallCrowd returns options for a crowd that arrives within a tenth of a second.
func smallCrowd(s *fakeShop) Options {
	return Options{
		PublicURLs: []string{s.URL, s.URL}, InternalURL: s.URL, Token: "secret", Sale: "demo", Stock: 60, Quota: 2, QuantityMax: 1,
		Buyers: 100, Rate: 1000, DuplicateClicks: 0.5, Seed: 7, Connections: 40, Followers: 10, RetryWait: time.Millisecond,
		RequestTimeout: 5 * time.Second, DrainTimeout: 400 * time.Millisecond,
	}
}

func broken(r *Report) []string {
	got := []string{}
	for _, f := range r.Findings {
		if f.Verdict == judge.Breach {
			got = append(got, f.Invariant)
		}
	}
	return got
}

func TestRunFindsTheDefectAndNoOther(t *testing.T) {
	life := func(o *Options) {
		o.Hold, o.Shares = 200*time.Millisecond, WholeLife()
		o.Shares.Repeated, o.Shares.Doubled, o.Shares.Late, o.Shares.Reorders = 0.3, 0.3, 0.3, 0 // reorders take two seconds
		o.Duration, o.Rate, o.DrainTimeout = 400*time.Millisecond, 0, time.Second
	}
	reorders := func(o *Options) {
		life(o)
		o.Shares.Reorders, o.DrainTimeout = 1, 5*time.Second
	}
	few := func(o *Options) { o.Stock = 400 } // more than the crowd wants
	for _, tt := range []struct {
		wrong    defect
		adjust   func(*Options)
		want     []string
		possible string // an invariant that is broken too unless the machine is so slow that no later buyer meets the defect
	}{
		{wrong: sound},
		{wrong: sound, adjust: few},
		{wrong: sound, adjust: func(o *Options) { o.QuantityMax, o.Quota, o.OrdersPerBuyer, o.Ramp = 3, 4, 2, 50*time.Millisecond }},
		{wrong: losesOrder, want: []string{"I1"}},
		{wrong: inventsOrder, adjust: few, want: []string{"I2"}},
		{wrong: oversells, want: []string{"I3", "I5"}}, // a unit number above the stock is a breach, too
		{wrong: breaksQuota, adjust: func(o *Options) { o.Stock, o.Quota = 400, 1 }, want: []string{"I4"}},
		{wrong: sellsTwice, want: []string{"I5", "I16"}}, // and another unit was never sold
		{wrong: forgetsKey, adjust: func(o *Options) { o.Stock, o.Quota = 400, 9 }, want: []string{"I7"}},
		{wrong: leavesTrace, adjust: few, want: []string{"I8"}},
		{wrong: goesBack, adjust: few, want: []string{"I6", "I9"}}, // rejected orders hold nothing
		{wrong: sellsLate, want: []string{"I13"}},
		{wrong: neverEnds, adjust: few, want: []string{"I14"}},
		{wrong: leaksUnit, want: []string{"I6", "I15", "I16"}}, // from outside, a lost unit looks free
		{wrong: liesSoldOut, adjust: few, want: []string{"I16"}},
		{wrong: lateNo, adjust: func(o *Options) { o.Stock, o.DuplicateClicks = 400, 0 }, want: []string{"I18"}},
		{wrong: doubtsItself, want: []string{"I17"}},
		{wrong: dropsAnswers},
		{wrong: busy},
		{wrong: stumbles, adjust: func(o *Options) { o.DrainTimeout = 10 * time.Second }},

		{wrong: sound, adjust: life},
		{wrong: sound, adjust: reorders},
		{wrong: sound, adjust: func(o *Options) {
			life(o)
			o.Keyless, o.Quota, o.OrdersPerBuyer, o.HangUps, o.Shares.Reorders, o.DrainTimeout = 0.5, 1, 2, 0.2, 1, 5*time.Second
		}},
		{wrong: dropsAnswers, adjust: life},
		{wrong: chargesTwice, adjust: life, want: []string{"I9", "I11"}},
		{wrong: losesCapture, adjust: life, want: []string{"I11"}},
		{wrong: refundsLive, adjust: life, want: []string{"I11"}},
		{wrong: forgetsRef, adjust: life, want: []string{"I11"}},
		{wrong: turnsAway, adjust: life, want: []string{"I11"}},
		{wrong: returnsTwice, adjust: life, want: []string{"I9", "I10"}},
		{wrong: expiresPaid, adjust: life, want: []string{"I9", "I11"}},
		{wrong: neverExpires, adjust: life, want: []string{"I14"}},
		{wrong: hidesChange, adjust: func(o *Options) { life(o); o.Stock, o.Quota = 400, 9 }, want: []string{"I9"}, possible: "I5"}, // according to the feed, a unit was sold that had not been returned
		{wrong: keepsReturned, adjust: reorders, want: []string{"I6"}, possible: "I16"},
		{wrong: keepsQuota, adjust: func(o *Options) {
			reorders(o)
			o.Quota, o.Stock, o.Shares = 1, 400, Shares{Cancelled: 0.5, Reorders: 1}
		}, want: []string{"I4"}},
		{wrong: giftsQuota, adjust: func(o *Options) {
			life(o)
			o.Quota, o.OrdersPerBuyer, o.Stock = 1, 3, 400
			o.Shares = Shares{Paid: 1, Early: 1}
		}, want: []string{"I4"}},
		{wrong: marksForever, adjust: func(o *Options) { life(o); o.Quota, o.Keyless, o.Stock = 1, 1, 400 }, want: []string{"I4", "I7"}},
	} {
		t.Run(cmp.Or(string(tt.wrong), "sound"), func(t *testing.T) {
			t.Parallel()
			s := newShop(t, tt.wrong)
			o := smallCrowd(s)
			if tt.adjust != nil {
				tt.adjust(&o)
			}
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(broken(r), func(invariant string) bool { return invariant == tt.possible })
			if !slices.Equal(got, append([]string{}, tt.want...)) {
				t.Errorf("broken: %v, want %v", got, tt.want)
			}
			if r.OK() != (len(tt.want) == 0) {
				t.Errorf("OK() = %v", r.OK())
			}
			addsUp(t, r)
			if t.Failed() {
				var table strings.Builder
				_ = r.WriteTable(&table)
				t.Log("\n" + table.String())
			}
		})
	}
}

// addsUp checks that every planned call is in the report exactly once.
func addsUp(t *testing.T, r *Report) {
	t.Helper()
	if got := r.Admitted + r.Replayed + sum(r.Refused) + r.Unknown; got != r.Planned+r.Reordered || r.Sent != r.Planned {
		t.Errorf("planned %d, sent %d, ended %d", r.Planned, r.Sent, got)
	}
}

func TestCallsThatDidNotGoOut(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	h := &judge.History{Head: judge.Head{Prefix: "c-", Planned: 2}, Calls: []judge.Call{{
		Attempt: 1, Buyer: "c-1", Item: "a", Quantity: 1, Key: "k", Ended: time.Millisecond, Outcome: judge.Admitted, Status: 202,
		OrderID: "x", State: orders.StatusAccepted,
	}}}
	e := judge.Evidence{
		Orders: []judge.Order{{OrderID: "x", User: "c-1", Status: orders.StatusConfirmed, Item: "a", Quantity: 1, Units: []int{1}, AcceptedAt: noon}},
		Sale:   judge.Sale{EndsAt: noon.Add(1), Items: []judge.Item{{Item: "a", Stock: 1}}},
	}
	r := newReport(Options{}, h, e, judge.Findings(h, e))
	if b := broken(r); !slices.Equal(b, []string{"I20"}) || r.OK() || r.Planned != 2 || r.Sent != 1 {
		t.Errorf("broken %v, planned %d, sent %d", b, r.Planned, r.Sent)
	}
}

func TestLostAnswersAreAskedAgainWithTheSameKey(t *testing.T) {
	s := newShop(t, dropsAnswers)
	o := smallCrowd(s)
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Lost["connection"] == 0 || r.Attempts <= r.Planned || r.Unknown != 0 {
		t.Errorf("lost %v, %d attempts of %d calls, %d unknown", r.Lost, r.Attempts, r.Planned, r.Unknown)
	}
}

func TestWhoHangsUpAsksAgainAfterTheWave(t *testing.T) {
	s := newShop(t, stalls)
	o := smallCrowd(s)
	o.HangUps, o.DuplicateClicks, o.DrainTimeout = 1, 0, 10*time.Second
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Lost["hung_up"] != 100 || r.Admitted != 60 || r.Refused["sold_out"] != 40 || !r.OK() {
		t.Errorf("lost %v, admitted %d, refused %v, broken %v", r.Lost, r.Admitted, r.Refused, broken(r))
	}
	addsUp(t, r)
}

func TestBuyersTurnToAnotherProcess(t *testing.T) {
	s := newShop(t, sound)
	dead := newShop(t, sound)
	o := smallCrowd(s)
	o.Stock, o.Quota = 0, 0
	s.stock, s.quota, s.starts = 60, 2, time.Now().Add(-time.Minute)
	o.PublicURLs = []string{dead.URL, s.URL}
	dead.Close()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(r.Findings, func(f judge.Finding) bool { return f.Invariant == "I4" }); r.Findings[i].Verdict != judge.OK {
		t.Errorf("the quota of a sale that was there already: %+v", r.Findings[i])
	}
	if r.Lost["connection"] == 0 || r.Admitted != 60 || r.Confirmed != 60 || !r.OK() {
		t.Errorf("lost %v, admitted %d, confirmed %d, broken %v", r.Lost, r.Admitted, r.Confirmed, broken(r))
	}
}

func TestHistoryFileHoldsWhatWasJudged(t *testing.T) {
	s := newShop(t, dropsAnswers)
	o := smallCrowd(s)
	o.HistoryFile = filepath.Join(t.TempDir(), "history.jsonl")
	o.PublicURLs = append(o.PublicURLs, s.URL)
	o.Stopped = func() []judge.Stop {
		return []judge.Stop{{API: 2, From: time.Unix(0, 0).UTC(), Until: time.Unix(1, 0).UTC()}}
	}
	var progress bytes.Buffer
	o.Progress = &progress
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(o.HistoryFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := ReadHistory(f)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(h.Stops, o.Stopped()) || !slices.ContainsFunc(h.Calls, func(c judge.Call) bool { return c.API == 2 }) {
		t.Errorf("stops %v, or nobody asked the third process", h.Stops)
	}
	if len(h.Calls) != r.Attempts || h.Planned != r.Planned || h.Prefix != r.Run {
		t.Errorf("file has %d calls of %d planned by %s, report %d of %d by %s", len(h.Calls), h.Planned, h.Prefix, r.Attempts, r.Planned, r.Run)
	}
	again := newReport(o.withDefaults(), h, r.Evidence, r.Findings)
	again.StartedAt, again.History = r.StartedAt, r.History // the file has no monotonic clock
	if !reflect.DeepEqual(again, r) {
		t.Errorf("report from the file %+v, from the run %+v", again, r)
	}
	if !strings.Contains(progress.String(), "confirmed        60") {
		t.Errorf("last progress line: %q", progress.String())
	}
}

func TestReportIsWrittenTwice(t *testing.T) {
	s := newShop(t, doubtsItself)
	r, err := Run(t.Context(), smallCrowd(s))
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(table.String(), "\n")
	if len(lines) > 45 || !strings.Contains(table.String(), "I17  queues empty") || !strings.Contains(table.String(), "BREACH") {
		t.Errorf("%d lines:\n%s", len(lines), table.String())
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var twin struct {
		Planned  int
		Findings []judge.Finding
		Answers  struct {
			P99 float64 `json:"p99_ms"`
		}
	}
	if err := json.Unmarshal(b, &twin); err != nil {
		t.Fatal(err)
	}
	if twin.Planned != r.Planned || len(twin.Findings) != 20 || twin.Answers.P99 <= 0 {
		t.Errorf("JSON %s", b)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	s := newShop(t, stalls)
	o := smallCrowd(s)
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if r, err := Run(ctx, o); r != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run = %v, %v", r, err)
	}
}

func TestRunSaysWhatTheInternalAPISaid(t *testing.T) {
	s := newShop(t, sound)
	o := smallCrowd(s)
	o.Token = "wrong"
	if _, err := Run(t.Context(), o); !errors.Is(err, errAPI) || !strings.Contains(err.Error(), "unauthenticated") {
		t.Errorf("err = %v", err)
	}
	o, s.starts = smallCrowd(s), time.Now() // another crowd's sale
	o.Stock, o.Items = 0, []string{"nothing"}
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), `got "nothing"`) {
		t.Errorf("err = %v", err)
	}
}

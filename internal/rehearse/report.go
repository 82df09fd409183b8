package rehearse

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/orders"
)

// Report is the result of a run: performance and correctness. It marshals to JSON.
type Report struct {
	Sale          string          `json:"sale"`
	Run           string          `json:"run"` // prefix of its buyers
	StartedAt     time.Time       `json:"started_at"`
	Seed          uint64          `json:"seed"`
	Processes     int             `json:"processes"` // public base URLs
	Connections   int             `json:"connections"`
	Buyers        int             `json:"buyers"`
	Wave          Ms              `json:"wave_ms"`   // from the first to the last planned call
	Planned       int             `json:"planned"`   // calls; each of these and of Reordered ends admitted, replayed, refused or unknown
	Reordered     int             `json:"reordered"` // calls of buyers who had cancelled
	Sent          int             `json:"sent"`      // of the planned calls
	Attempts      int             `json:"attempts"`  // including retries after lost responses
	Admitted      int             `json:"admitted"`  // orders
	Replayed      int             `json:"replayed"`  // calls answered with an order that another call also got
	Refused       map[string]int  `json:"refused"`   // calls, by reason
	Lost          map[string]int  `json:"lost"`      // attempts without a definite answer, by reason
	Unknown       int             `json:"unknown"`   // calls that never got a definite answer; the list resolved them
	Confirmed     int             `json:"confirmed"`
	AdmittedPS    float64         `json:"admitted_per_second"`  // from the start of the run until the last one was answered
	ConfirmedPS   float64         `json:"confirmed_per_second"` // persisted: from the start until the last one was seen
	AdmittedPeak  int             `json:"admitted_peak"`        // in the busiest second
	ConfirmedPeak int             `json:"confirmed_peak"`       // in the busiest second
	Answers       Quantiles       `json:"answers"`              // from the planned time to the definite answer, without calls that hung up
	Confirm       Quantiles       `json:"time_to_confirmed"`    // from the 202 until the buyer saw it
	Lag           Quantiles       `json:"lag"`                  // of the generator: delay of sending after the planned time
	Ends          Ends            `json:"ends"`
	Findings      []judge.Finding `json:"findings"`
	Notes         []string        `json:"notes,omitempty"` // what a reader of the numbers must know

	History  *judge.History `json:"-"` // what was judged
	Evidence judge.Evidence `json:"-"`
}

// Ends count how orders of all buyers ended, according to the list and the feed.
type Ends struct {
	Paid       int       `json:"paid"`
	Cancelled  int       `json:"cancelled"`
	Expired    int       `json:"expired"`
	Rejected   int       `json:"rejected"`
	Waiting    int       `json:"waiting"`    // waiting for payment, or final without one
	Resold     int       `json:"resold"`     // units that had been returned
	Captured   int       `json:"captured"`   // answered payments of this crowd
	Refunds    int       `json:"refunds"`    // of these
	Repeats    int       `json:"repeats"`    // of payments and cancellations whose responses were lost
	Unanswered int       `json:"unanswered"` // payments and cancellations that were never answered
	Captures   Quantiles `json:"captures"`   // from a payment's first sending to its answer
}

// Ms is a duration that marshals as milliseconds.
type Ms time.Duration

// MarshalJSON rounds to microseconds.
func (m Ms) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(m).Microseconds()) / 1000)
}

// Quantiles summarize a histogram.
type Quantiles struct {
	N    int64 `json:"n"`
	P50  Ms    `json:"p50_ms"`
	P99  Ms    `json:"p99_ms"`
	P999 Ms    `json:"p999_ms"`
	Max  Ms    `json:"max_ms"`
}

// behind is the 99th percentile of the lag above which the generator, not the server, limits the crowd.
const behind = 50 * time.Millisecond

// indispensable are the invariants without which a run proves nothing.
var indispensable = []string{"I1", "I6", "I17", "I20"}

// OK reports whether the crowd was sent as planned, its orders could be listed and its sale verified, and no judged invariant
// is broken.
func (r *Report) OK() bool { return judge.Held(r.Findings, indispensable...) }

func newReport(o Options, h *judge.History, e judge.Evidence, findings []judge.Finding) *Report {
	r := &Report{
		Sale: h.Sale, Run: h.Prefix, StartedAt: h.StartedAt, Seed: h.Seed, Processes: len(o.PublicURLs), Connections: o.Connections,
		Buyers: o.Buyers, Planned: h.Planned, Attempts: len(h.Calls), Refused: map[string]int{}, Lost: map[string]int{}, Ends: endsOf(h, e),
		Findings: findings,
		History:  h, Evidence: e,
	}
	admitted := r.countCalls(h)
	firstRead := r.countConfirmations(h, admitted)
	r.Notes = r.notes(firstRead)
	return r
}

// countCalls counts calls and attempts, and returns when each order's first 202 came.
func (r *Report) countCalls(h *judge.History) (admitted map[string]time.Duration) {
	admitted = map[string]time.Duration{}
	var (
		answers, lag = histogram(), histogram()
		last         = map[int]*judge.Call{} // attempt of each call
		hungUp       = map[int]bool{}        // calls
		wave         time.Duration
		speed        pace
	)
	for i := range h.Calls {
		c := &h.Calls[i]
		switch planned := c.Seq < h.Planned; {
		case planned && c.Attempt == 1:
			r.Sent++
			lag.record(c.Started - c.Planned)
			wave = max(wave, c.Planned)
		case c.Attempt == 1:
			r.Reordered++
		}
		hungUp[c.Seq] = hungUp[c.Seq] || c.HungUp && c.Outcome == judge.Lost
		if l := last[c.Seq]; l == nil || l.Attempt < c.Attempt {
			last[c.Seq] = c
		}
		if c.Outcome == judge.Lost {
			r.Lost[c.Reason]++
		}
		if at, ok := admitted[c.OrderID]; c.Outcome == judge.Admitted && (!ok || c.Ended < at) {
			admitted[c.OrderID] = c.Ended
		}
	}
	for seq, c := range last {
		switch c.Outcome {
		case judge.Admitted:
			r.Replayed++
		case judge.Refused:
			r.Refused[c.Reason]++
		case judge.Lost:
			r.Unknown++
		}
		if c.Outcome != judge.Lost && !hungUp[seq] {
			answers.record(c.Ended - c.Planned)
		}
	}
	for _, at := range admitted {
		speed.add(at)
	}
	r.Admitted = len(admitted)
	r.Replayed -= r.Admitted
	r.AdmittedPS, r.AdmittedPeak = speed.rate(), speed.peak
	r.Wave, r.Answers, r.Lag = Ms(wave), answers.quantiles(), lag.quantiles()
	return admitted
}

// countConfirmations counts the orders that their buyers saw confirmed, and returns how long after the 202 they read them first.
func (r *Report) countConfirmations(h *judge.History, admitted map[string]time.Duration) (firstRead Quantiles) {
	var (
		confirm, first = histogram(), histogram()
		seen           = map[string]bool{} // orders
		speed          pace
	)
	for _, s := range h.StatusReads {
		at, ok := admitted[s.OrderID]
		if !ok || seen[s.OrderID] || s.State == orders.StatusAccepted || s.State == orders.StatusRejected {
			continue
		}
		seen[s.OrderID] = true
		speed.add(s.Ended)
		confirm.record(s.Ended - at)
		first.record(s.Since - at)
	}
	r.Confirmed = len(seen)
	r.ConfirmedPS, r.ConfirmedPeak = speed.rate(), speed.peak
	r.Confirm = confirm.quantiles()
	return first.quantiles()
}

// notes lists the latencies that are not the server's.
func (r *Report) notes(firstRead Quantiles) (notes []string) {
	if time.Duration(r.Lag.P99) > behind {
		notes = append(notes, fmt.Sprintf("the generator fell behind: 1 %% of the calls were sent at least %s late; latencies are measured "+
			"from the planned time",
			short(r.Lag.P99)))
	}
	if time.Duration(firstRead.P99) > behind {
		notes = append(notes, fmt.Sprintf("followers fell behind: 1 %% of the orders were first checked at least %s after the 202; their "+
			"time to confirmed is overestimated",
			short(firstRead.P99)))
	}
	return notes
}

// endsOf counts the ends of orders and payments.
func endsOf(h *judge.History, e judge.Evidence) (n Ends) {
	status := map[orders.Status]int{}
	for _, o := range e.Orders {
		status[o.Status]++
	}
	n.Paid, n.Cancelled, n.Expired = status[orders.StatusPaid], status[orders.StatusCancelled], status[orders.StatusExpired]
	n.Rejected, n.Waiting = status[orders.StatusRejected], status[orders.StatusConfirmed]
	if e.Events != nil {
		n.Resold = judge.Resold(e.Events)
	}
	type sending struct {
		kind             judge.OperationKind
		order, reference string
		sent             int
	}
	var (
		captures = histogram()
		first    = map[sending]time.Duration{}
		answered = map[sending]bool{}
		actions  = map[string]orders.Action{} // by reference
	)
	for _, a := range h.Operations {
		s := sending{a.Kind, a.OrderID, a.Reference, a.Sent}
		if a.Attempt == 1 {
			first[s] = a.Started
		} else {
			n.Repeats++
		}
		if a.Outcome == judge.Lost {
			continue
		}
		answered[s] = true
		if a.Kind == judge.Payment && a.Outcome == judge.Admitted {
			actions[a.Reference] = a.Action
			captures.record(a.Ended - first[s])
		}
	}
	n.Unanswered = len(first) - len(answered)
	n.Captured = len(actions)
	for _, action := range actions {
		if action == orders.ActionRefund {
			n.Refunds++
		}
	}
	n.Captures = captures.quantiles()
	return n
}

// pace counts events over the seconds of a run. The zero value is ready.
type pace struct {
	seconds map[int64]int
	n, peak int
	last    time.Duration
}

func (p *pace) add(at time.Duration) {
	if p.seconds == nil {
		p.seconds = map[int64]int{}
	}
	second := int64(at / time.Second)
	p.seconds[second]++
	p.n, p.peak, p.last = p.n+1, max(p.peak, p.seconds[second]), max(p.last, at)
}

// rate returns events per second, from the start of the run to the last event.
func (p *pace) rate() float64 {
	if p.last <= 0 {
		return 0
	}
	return float64(p.n) / p.last.Seconds()
}

// durations is a histogram of microseconds, up to an hour, three digits.
type durations struct{ h *hdrhistogram.Histogram }

func histogram() durations { return durations{hdrhistogram.New(1, time.Hour.Microseconds(), 3)} }

func (d durations) record(v time.Duration) {
	_ = d.h.RecordValue(min(max(v.Microseconds(), 0), time.Hour.Microseconds())) // in range, so it cannot fail
}

func (d durations) quantiles() Quantiles {
	at := func(q float64) Ms { return Ms(time.Duration(d.h.ValueAtQuantile(q)) * time.Microsecond) }
	return Quantiles{N: d.h.TotalCount(), P50: at(50), P99: at(99), P999: at(99.9), Max: at(100)}
}

package judge

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/orders"
)

// Verdict is the result for an invariant.
type Verdict string

// Verdicts.
const (
	OK        Verdict = "ok"
	Breach    Verdict = "breach"
	NotJudged Verdict = "not_judged"
)

// Finding is the verdict on one invariant of a sale, or on one property of a waiting room.
type Finding struct {
	Invariant string   `json:"invariant"` // I1 to I20, W1 to W34
	Title     string   `json:"title"`
	Verdict   Verdict  `json:"verdict"`
	Checked   int      `json:"checked"`  // things checked
	Breaches  int      `json:"breaches"` // of these, the wrong ones
	Detail    string   `json:"detail"`
	Examples  []string `json:"examples,omitempty"` // the first breaches
}

// maxExamples bounds the examples of breaches that are kept: the first ones lead to the cause.
const maxExamples = 5

var titles = []struct{ invariant, title string }{
	{"I1", "every 202 is one row"},
	{"I2", "no unrequested orders"},
	{"I3", "sold at most the stock"},
	{"I4", "quota per buyer"},
	{"I5", "one order per unit"},
	{"I6", "units add up"},
	{"I7", "same key, same order"},
	{"I8", "refusals leave nothing"},
	{"I9", "status only forward"},
	{"I10", "units return once"},
	{"I11", "captured = paid + refund"},
	{"I12", "limits hold"},
	{"I13", "sold within the hours"},
	{"I14", "every 202 is settled"},
	{"I15", "demand met, all sold"},
	{"I16", "sold out was true"},
	{"I17", "queues empty"},
	{"I18", "lost answers resolve"},
	{"I19", "one leader per epoch"},
	{"I20", "sent as planned"},
}

// Check counts one thing that was looked at, and records a breach if it is wrong.
func (f *Finding) Check(right bool, format string, args ...any) {
	f.Checked++
	if !right {
		f.breach(format, args...)
	}
}

// Conclude sets the verdict after the last Check.
func (f *Finding) Conclude() {
	if f.Checked == 0 {
		f.Verdict, f.Detail = NotJudged, "nothing to check"
		return
	}
	*f = f.conclude("%s checked", comma(f.Checked))
}

// breach records one breach.
func (f *Finding) breach(format string, args ...any) {
	f.Breaches++
	f.Verdict = Breach
	if len(f.Examples) < maxExamples {
		f.Examples = append(f.Examples, fmt.Sprintf(format, args...))
	}
}

// conclude sets the detail, and the verdict OK if there was no breach.
func (f Finding) conclude(format string, args ...any) Finding {
	f.Detail = fmt.Sprintf(format, args...)
	if f.Verdict == "" {
		f.Verdict = OK
	}
	return f
}

func notJudged(why string) Finding { return Finding{Verdict: NotJudged, Detail: why} }

// merge adds the server's own checks: they can break a finding, or decide one that was not judged, but never repair one.
func (f Finding) merge(checks []orders.Check) Finding {
	for _, c := range checks {
		if c.OK && c.Waiting > 0 { // no breach if the drain was too short: Asynq hands out tasks of a killed worker up to two minutes later
			c.OK = false
			c.Detail += ", and the drain is over"
		}
		switch {
		case !c.OK:
			if f.Verdict == NotJudged {
				f.Detail = "verify: " + c.Detail
			}
			f.Checked++
			f.breach("verify: %s", c.Detail)
		case f.Verdict == NotJudged:
			f.Checked++
			f.Verdict, f.Detail = OK, "verify: "+c.Detail
		}
	}
	return f
}

// Held reports whether no finding is a breach, and those that are needed were judged.
func Held(findings []Finding, needed ...string) bool {
	judged := 0
	for _, f := range findings {
		if f.Verdict == Breach {
			return false
		}
		if f.Verdict == OK && slices.Contains(needed, f.Invariant) {
			judged++
		}
	}
	return judged == len(needed)
}

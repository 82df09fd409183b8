package rehearse

import "fmt"

// Verdict is the result for an invariant.
type Verdict string

// Verdicts.
const (
	OK        Verdict = "ok"
	Breach    Verdict = "breach"
	NotJudged Verdict = "not_judged"
)

// Finding is the verdict on one invariant.
type Finding struct {
	Invariant string   `json:"invariant"` // I1 to I20
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
func (f Finding) merge(checks []Check) Finding {
	for _, c := range checks {
		c.OK = c.OK && c.Waiting == 0 // the drain is over
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

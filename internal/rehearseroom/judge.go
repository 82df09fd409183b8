package rehearseroom

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
)

// roomView is what the judge reads of a room.
type roomView struct {
	Phase  string `json:"phase"`
	Joined int64  `json:"joined"`
	Draw   struct {
		Commitment string `json:"commitment"`
		N          int64  `json:"n"`
	} `json:"draw"`
}

// Finding is the verdict on one property.
type Finding struct {
	Property string   `json:"property"` // W1 to W34
	Title    string   `json:"title"`
	Checked  int      `json:"checked"`
	Wrong    int      `json:"wrong"`
	Examples []string `json:"examples,omitempty"` // the first wrong ones
}

func (f *Finding) check(ok bool, format string, args ...any) {
	f.Checked++
	if ok {
		return
	}
	f.Wrong++
	if len(f.Examples) < 5 {
		f.Examples = append(f.Examples, fmt.Sprintf(format, args...))
	}
}

// Report is the result of a run.
type Report struct {
	Room     string         `json:"room"`
	Sale     string         `json:"sale"`
	Visitors int            `json:"visitors"`
	Stock    int            `json:"stock"`
	Ordered  int            `json:"ordered"`
	Ends     map[string]int `json:"ends"` // final states
	Took     time.Duration  `json:"took_ns"`
	Findings []*Finding     `json:"findings"`
}

// OK reports whether every property held, and was checked. Only a room whose rate or capacity is below its stock has people who wait and are
// certain, so that property may have nothing to check.
func (r *Report) OK() bool {
	for _, f := range r.Findings {
		if f.Wrong > 0 || f.Checked == 0 && f.Property != "W19" {
			return false
		}
	}
	return len(r.Findings) > 0
}

func (r *Report) finding(property, title string) *Finding {
	f := &Finding{Property: property, Title: title}
	r.Findings = append(r.Findings, f)
	return f
}

// judge compares what the visitors saw with what was promised.
func (r *Report) judge(ctx context.Context, o Options, crowd []*visitor, public, operator *caller, before *roomView) error {
	r.Ends = make(map[string]int)
	answered := r.finding("W18", "everybody is told how it ends")
	one := r.finding("W1", "one place a person")
	rises := r.finding("W3", "a position never rises")
	alone := r.finding("W4", "a position has one person")
	late := r.finding("W8", "who came after the start is behind the drawn")
	early := r.finding("W9", "no turn before the start")
	kept := r.finding("W17", "who takes a turn in time gets a unit")
	certain := r.finding("W19", "certain was true")
	once := r.finding("W29", "a turn is good for one order")
	barred := r.finding("W24", "no order without a turn")
	sold := r.finding("I3", "sold the stock, and no more")
	after := roomView{}
	if _, err := public.call(ctx, http.MethodGet, "/v1/rooms/"+o.Room, nil, nil, &after); err != nil {
		return err
	}
	holders := make(map[int64]string)
	for _, v := range crowd {
		answered.check(v.err == nil && v.final != "", "%s: %v", v.user, v.err)
		r.Ends[v.final]++
		one.check(len(v.numbers) == 1, "%s has the numbers %v", v.user, v.numbers)
		rises.check(v.rose == 0, "%s: %v", v.user, v.positions)
		early.check(!v.early, "%s had a turn before the start", v.user)
		if n := len(v.positions); n > 0 {
			position := v.positions[n-1]
			alone.check(holders[position] == "", "%s and %s have position %d", v.user, holders[position], position)
			holders[position] = v.user
			if v.late {
				late.check(position > after.Draw.N, "%s came after the start and has position %d of %d drawn", v.user, position, after.Draw.N)
			}
		}
		if v.claimCode != 0 && v.inTime {
			kept.check(v.claimed && v.ordered, "%s: claim %d, ordered %t", v.user, v.claimCode, v.ordered)
		}
		if v.certain && v.claimCode != 0 && v.inTime {
			certain.check(v.ordered, "%s was certain, and ended %s", v.user, v.final)
		}
		if v.ordered {
			r.Ordered++
			once.check(refused(v.twice), "%s: a second order of the turn answered %d", v.user, v.twice)
		}
		if v.sniped != 0 {
			barred.check(refused(v.sniped), "%s ordered without a turn: status %d", v.user, v.sniped)
		}
	}
	one.check(after.Joined == int64(len(crowd)), "%d joined, and %d people came", after.Joined, len(crowd))
	sold.check(r.Ordered == o.Stock && after.Phase == "exhausted", "%d of %d were ordered, the room is %s", r.Ordered, o.Stock, after.Phase)
	if err := r.judgeDraw(ctx, o, public, before); err != nil {
		return err
	}
	for _, c := range [...]struct{ property, title, path string }{
		{"W32", "the room adds up", "/v1/rooms/" + o.Room + "/verify"},
		{"I1", "the sale adds up", "/v1/sales/" + o.Sale + "/verify"},
	} {
		f := r.finding(c.property, c.title)
		var verdict struct {
			Checks []struct {
				Invariant, Detail string
				OK                bool
			}
		}
		if _, err := operator.call(ctx, http.MethodGet, c.path, nil, nil, &verdict); err != nil {
			return err
		}
		for _, c := range verdict.Checks {
			f.check(c.OK, "%s: %s", c.Invariant, c.Detail)
		}
	}
	return nil
}

// refused reports whether an order was answered as one without a turn has to be: 403, or 409 once everything is sold.
func refused(status int) bool {
	return status == http.StatusForbidden || status == http.StatusConflict
}

// judgeDraw checks the published list as a stranger would.
func (r *Report) judgeDraw(ctx context.Context, o Options, public *caller, before *roomView) error {
	f := r.finding("W25", "the draw can be recomputed")
	var list []byte
	status, err := public.call(ctx, http.MethodGet, "/v1/rooms/"+o.Room+"/draw.csv", nil, nil, &list)
	if err != nil {
		return err
	}
	drawn, err := waitingroom.VerifyDraw(bytes.NewReader(list))
	f.check(status == http.StatusOK && err == nil, "status %d: %v", status, err)
	f.check(before.Draw.Commitment != "" && drawn.Commitment == before.Draw.Commitment, "the commitment was %q before, and is %q", before.Draw.Commitment, drawn.Commitment)
	return nil
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Rehearsal of waiting room %q: %d visitors for %d units in %.1f s: %d ordered, %d lapsed, %d turned away\n\n",
		r.Room, r.Visitors, r.Stock, r.Took.Seconds(), r.Ordered, r.Ends["lapsed"], r.Ends["turned_away"])
	held, broken := 0, 0
	for _, f := range r.Findings {
		word, detail := "ok", fmt.Sprintf("%d checked", f.Checked)
		switch {
		case f.Wrong > 0:
			word, detail = "BREACH", fmt.Sprintf("%d× %.90s", f.Wrong, f.Examples[0])
			broken++
		case f.Checked == 0:
			word, detail = "–", "nothing to check"
		default:
			held++
		}
		fmt.Fprintf(&b, "  %-4s %-45s %-7s %s\n", f.Property, f.Title, word, detail)
	}
	verdict := "OK"
	if !r.OK() {
		verdict = "BREACH"
		if broken == 0 {
			verdict = "INCOMPLETE"
		}
	}
	fmt.Fprintf(&b, "\n  %s: %d hold, %d broken, %d not judged\n", verdict, held, broken, len(r.Findings)-held-broken)
	_, err := w.Write(b.Bytes())
	return err
}

package rehearseroom

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/waitingroom/draw"
)

// Report is the result of a run.
type Report struct {
	Room     string          `json:"room"`
	Sale     string          `json:"sale"`
	Visitors int             `json:"visitors"`
	Stock    int             `json:"stock"`
	Ordered  int             `json:"ordered"`
	Ends     map[string]int  `json:"ends"` // final states
	Took     time.Duration   `json:"took_ns"`
	Findings []judge.Finding `json:"findings"`
}

// OK reports whether no property is broken, and those were judged that every crowd shows. The others depend on the options: no
// visitor waits and is certain if neither rate nor capacity is below the stock (W19), and without late visitors none can overtake (W5).
func (r *Report) OK() bool {
	return judge.Held(r.Findings, "W1", "W3", "W4", "W9", "W17", "W18", "W25", "W26", "W29", "W32", "I1", "I3")
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	_, err := fmt.Fprintf(w, "\nRehearsal of waiting room %q: %d visitors for %d units in %.1f s: %d ordered, %d lapsed, %d turned away\n\n%s",
		r.Room, r.Visitors, r.Stock, r.Took.Seconds(), r.Ordered, r.Ends["lapsed"], r.Ends["turned_away"], judge.FormatFindings(r.Findings,
			nil, r.OK()))
	return err
}

// evidence is what the crowd and the server show, and the report to which the judge adds its findings.
type evidence struct {
	*Report

	o             Options
	crowd         []*visitor
	before, after rooms.RoomView // as everybody could read them
	list          []byte         // the published draw
	checks        map[string][]orders.Check
}

// newEvidence reads what the judge needs besides the crowd's own evidence.
func newEvidence(
	ctx context.Context, r *Report, o Options, crowd []*visitor, public, operator *caller, before *rooms.RoomView,
) (*evidence, error) {
	c := &evidence{Report: r, o: o, crowd: crowd, before: *before, checks: make(map[string][]orders.Check)}
	if _, err := public.call(ctx, http.MethodGet, "/v1/rooms/"+o.Room, nil, nil, &c.after); err != nil {
		return nil, err
	}
	if _, err := public.call(ctx, http.MethodGet, "/v1/rooms/"+o.Room+"/draw.csv", nil, nil, &c.list); err != nil {
		return nil, err
	}
	for _, path := range []string{"/v1/rooms/" + o.Room + "/verify", "/v1/sales/" + o.Sale + "/verify"} {
		var verdict judge.Verification
		if _, err := operator.call(ctx, http.MethodGet, path, nil, nil, &verdict); err != nil {
			return nil, err
		}
		c.checks[path] = verdict.Checks
	}
	return c, nil
}

// drawn returns how many visitors were drawn.
func (c *evidence) drawn() int64 {
	if d := c.after.Draw; d != nil && d.N != nil {
		return *d.N
	}
	return 0
}

// judge compares what the visitors saw with what was promised.
func (c *evidence) judge() {
	c.Ends = make(map[string]int)
	for _, v := range c.crowd {
		c.Ends[v.final]++
		if v.ordered {
			c.Ordered++
		}
	}
	c.find("W1", "one place a person", c.onePlace)
	c.find("W2", "a reload keeps the place", func(f *judge.Finding) {
		c.each(func(v *visitor) bool { return v.reloads && v.err == nil },
			func(v *visitor) { f.Check(len(v.numbers) == 1, "%s read the numbers %v", v.user, v.numbers) })
	})
	c.find("W3", "a position never rises", func(f *judge.Finding) {
		c.each(nil, func(v *visitor) { f.Check(v.rose == 0, "%s: %v", v.user, v.positions) })
	})
	c.find("W4", "a position has one person", c.onePosition)
	c.find("W5", "no visitor overtakes after the start", c.overtakes)
	c.find("W7", "a lost answer loses nothing", func(f *judge.Finding) {
		c.each(func(v *visitor) bool { return v.hangsUp && v.inTime }, func(v *visitor) {
			f.Check(len(v.numbers) == 1 && v.claimed && v.ordered, "%s: numbers %v, claim %d, ordered %t", v.user, v.numbers, v.claimCode, v.ordered)
		})
	})
	c.find("W8", "who came after the start is behind the drawn", func(f *judge.Finding) {
		c.each(func(v *visitor) bool { return v.late && v.position() > 0 }, func(v *visitor) {
			f.Check(v.position() > c.drawn(), "%s came after the start and has position %d of %d drawn", v.user, v.position(), c.drawn())
		})
	})
	c.find("W9", "no turn before the start", func(f *judge.Finding) {
		c.each(nil, func(v *visitor) { f.Check(!v.early, "%s had a turn before the start", v.user) })
	})
	c.find("W14", "no turn is shorter than promised", func(f *judge.Finding) {
		c.each(func(v *visitor) bool { return !v.lapsed.IsZero() && !v.turnUntil.IsZero() }, func(v *visitor) {
			f.Check(!v.lapsed.Before(v.turnUntil.Add(-time.Second)), "%s had a turn until %v, and it had lapsed at %v", v.user, v.turnUntil,
				v.lapsed)
		})
	})
	c.find("W17", "who takes a turn in time gets a unit", func(f *judge.Finding) {
		c.each(func(v *visitor) bool { return v.claimCode != 0 && v.inTime }, func(v *visitor) {
			f.Check(v.claimed && v.ordered, "%s: claim %d, order %d, ended %s", v.user, v.claimCode, v.orderCode, v.final)
		})
	})
	c.find("W18", "every visitor receives a final state", c.finalStates)
	c.find("W19", "certain was true", func(f *judge.Finding) {
		c.each(func(v *visitor) bool { return v.certain && v.claimCode != 0 && v.inTime }, func(v *visitor) {
			f.Check(v.ordered, "%s was certain, and ended %s", v.user, v.final)
		})
	})
	c.find("W24", "no order without a turn", func(f *judge.Finding) {
		c.each(func(v *visitor) bool { return v.sniped != 0 },
			func(v *visitor) { f.Check(refused(v.sniped), "%s ordered without a turn: status %d", v.user, v.sniped) })
	})
	c.find("W25", "the draw can be recomputed", func(f *judge.Finding) {
		drawn, err := draw.Verify(bytes.NewReader(c.list))
		f.Check(err == nil, "%v", err)
		before := ""
		if c.before.Draw != nil {
			before = c.before.Draw.Commitment
		}
		f.Check(before != "" && drawn.Commitment == before, "the commitment was %q before, and is %q", before, drawn.Commitment)
	})
	c.find("W26", "every receipt is in the list", c.receipts)
	c.find("W27", "coming early gives no advantage", c.early)
	c.find("W29", "a turn is good for one order", func(f *judge.Finding) {
		c.each(func(v *visitor) bool { return v.ordered }, func(v *visitor) {
			f.Check(refused(v.twice), "%s: a second order of the turn answered %d", v.user, v.twice)
		})
	})
	c.find("W32", "the room adds up", c.verified("/v1/rooms/"+c.o.Room+"/verify"))
	c.find("I1", "the sale adds up", c.verified("/v1/sales/"+c.o.Sale+"/verify"))
	c.find("I3", "sold the stock, and no more", func(f *judge.Finding) {
		f.Check(c.Ordered == c.o.Stock && c.after.Phase == "exhausted", "%d of %d were ordered, the room is %s", c.Ordered, c.o.Stock,
			c.after.Phase)
	})
}

// byClock are the properties for which a visitor's clock is compared with a time from the server.
var byClock = []string{"W7", "W8", "W9", "W14", "W17", "W19"}

// find adds the finding on a property.
func (c *evidence) find(property, title string, look func(*judge.Finding)) {
	f := judge.Finding{Invariant: property, Title: title}
	if !c.o.ClockJumps || !slices.Contains(byClock, property) {
		look(&f)
	}
	f.Conclude()
	c.Findings = append(c.Findings, f)
}

// each calls look for the visitors who are such; nil: for all.
func (c *evidence) each(such func(*visitor) bool, look func(*visitor)) {
	for _, v := range c.crowd {
		if such == nil || such(v) {
			look(v)
		}
	}
}

func (c *evidence) onePlace(f *judge.Finding) {
	c.each(nil, func(v *visitor) { f.Check(len(v.numbers) == 1, "%s has the numbers %v", v.user, v.numbers) })
	places := len(c.crowd)
	c.each(func(v *visitor) bool { return v.replaced }, func(*visitor) { places++ })
	f.Check(c.after.Joined == int64(places), "%d joined, and %d people came, for %d places", c.after.Joined, len(c.crowd), places)
}

func (c *evidence) onePosition(f *judge.Finding) {
	holders := make(map[int64]string)
	c.each(func(v *visitor) bool { return v.position() > 0 }, func(v *visitor) {
		f.Check(holders[v.position()] == "", "%s and %s have position %d", v.user, holders[v.position()], v.position())
		holders[v.position()] = v.user
	})
}

// overtakes compares everybody who came after the draw with whoever is in front.
func (c *evidence) overtakes(f *judge.Finding) {
	late := slices.DeleteFunc(slices.Clone(c.crowd), func(v *visitor) bool { return v.position() <= c.drawn() })
	slices.SortFunc(late, func(a, b *visitor) int { return int(a.position() - b.position()) })
	var last *visitor // of those in front, the one who asked last
	for _, v := range late {
		if last != nil {
			f.Check(!v.joined.Before(last.asked), "%s had a place before %s asked for one, and is behind", v.user, last.user)
		}
		if last == nil || v.asked.After(last.asked) {
			last = v
		}
	}
}

// finalStates checks that every visitor received a final state, and that no visitor was asked to wait after the first learned that
// everything is sold. Processes read the room five times a second, so one of them may be a second behind.
func (c *evidence) finalStates(f *judge.Finding) {
	var end time.Time
	c.each(func(v *visitor) bool { return v.final == "turned_away" }, func(v *visitor) {
		if end.IsZero() || v.ended.Before(end) {
			end = v.ended
		}
	})
	c.each(nil, func(v *visitor) {
		f.Check(v.err == nil && v.final != "", "%s: %v", v.user, v.err)
		if v.final == "turned_away" && !v.waited.IsZero() {
			f.Check(v.waited.Before(end.Add(time.Second)), "%s asked %v after the end, and the answer was to wait", v.user, v.waited.Sub(end))
		}
	})
}

// receipts checks that each receipt of a place that was drawn names a leaf of the published list.
func (c *evidence) receipts(f *judge.Finding) {
	leaves := make(map[string]bool)
	for line := range strings.Lines(string(c.list)) {
		if cells := strings.Split(strings.TrimSpace(line), ","); len(cells) == 4 && cells[0] != "index" {
			leaf := sha256.Sum256([]byte("\x00" + c.o.Room + "\n" + strings.Join(cells[:3], "\n")))
			leaves[hex.EncodeToString(leaf[:])] = true
		}
	}
	drawn := func(v *visitor) bool {
		return !v.replaced && !v.missed && v.position() > 0 && v.position() <= c.drawn()
	}
	c.each(drawn, func(v *visitor) {
		var claims struct{ Leaf string }
		_, rest, _ := strings.Cut(v.receipt, ".")
		payload, _, _ := strings.Cut(rest, ".")
		text, err := keyhash.DecodeRawURL(payload)
		f.Check(err == nil && json.Unmarshal(text, &claims) == nil && leaves[claims.Leaf], "the receipt %q of %s (%s) is not in the list", v.receipt,
			v.user, v.final)
	})
}

// unlikely is the number of standard deviations beyond which a mean is not chance: one run in a million is beyond it.
const unlikely = 5

// early compares the mean position of the half that joined first, the bot's identities among them, with that of all who were drawn.
func (c *evidence) early(f *judge.Finding) {
	drawn := slices.DeleteFunc(slices.Clone(c.crowd), func(v *visitor) bool { return v.position() == 0 || v.position() > c.drawn() })
	slices.SortFunc(drawn, func(a, b *visitor) int { return a.joined.Compare(b.joined) })
	n, half := float64(len(drawn)), len(drawn)/2
	if half == 0 {
		return
	}
	sum := 0.0
	for _, v := range drawn[:half] {
		sum += float64(v.position())
	}
	mean, expected, deviation := sum/float64(half), (n+1)/2, math.Sqrt((n-float64(half))*(n+1)/(12*float64(half)))
	f.Check(math.Abs(mean-expected) <= unlikely*deviation,
		"the half that joined first has the mean position %.1f of %.0f, %.1f standard deviations from the middle",
		mean, n, math.Abs(mean-expected)/deviation)
}

// verified checks the server's own report.
func (c *evidence) verified(path string) func(*judge.Finding) {
	return func(f *judge.Finding) {
		for _, check := range c.checks[path] {
			f.Check(check.OK, "%s: %s", check.Invariant, check.Detail)
		}
	}
}

// refused reports whether an order was answered as one without a turn has to be: 403, or 409 once everything is sold.
func refused(status int) bool {
	return status == http.StatusForbidden || status == http.StatusConflict
}

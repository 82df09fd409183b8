package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidegate/tidegate/admission/internal/algorithm"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/internal/rulesfile"
)

var calendarUnits = []Calendar{Minute, Hour, Day, Month}

// A windowDraft is a window that is read and not yet checked against the rule. If it is the only one, node is the rule.
type windowDraft struct {
	Counter
	node *rulesfile.Node
}

// windowsOf reads several windows, each {limit, window} and, depending on the algorithm, burst or base.
func windowsOf(n *rulesfile.Node) (windows []windowDraft, err error) {
	err = n.List("windows", func(n *rulesfile.Node) error {
		w := windowDraft{node: n}
		err := n.Fields("a window",
			rulesfile.Into("limit", &w.limit, limitsOf),
			rulesfile.Into("window", &w.Window, spanOf),
			rulesfile.Word("algorithm", &w.Algorithm, store.Algorithms...),
			rulesfile.Number("burst", &w.Burst, 1, store.MaxLimit),
			rulesfile.Into("base", &w.Base, baseOf),
		)
		switch {
		case err != nil:
			return err
		case n.Key("limit") == nil || n.Key("window") == nil:
			return n.Wrong("the window is not complete, it should be such as {limit: 5, window: 10s}")
		case slices.ContainsFunc(windows, func(o windowDraft) bool { return o.sameAs(&w) }):
			return n.Wrong("another window has the same length; keep only the one with the lower limit")
		case len(windows) == maxWindows:
			return n.Wrong("the rule has more than %d windows", maxWindows)
		}
		windows = append(windows, w)
		return nil
	})
	return windows, err
}

// sameAs reports whether two windows have the same length and, as far as specified, the same algorithm.
func (w *windowDraft) sameAs(o *windowDraft) bool {
	return w.Algorithm == o.Algorithm && sameSpan(w.Window, o.Window)
}

// sameSpan reports whether two windows are equal. All windows of a rule share one zone, so zones are not compared.
func sameSpan(w, o store.Window) bool {
	if w.Calendar == nil || o.Calendar == nil {
		return w == o
	}
	return w.Calendar.Unit == o.Calendar.Unit
}

// spanOf reads the length of a window, or its calendar unit; the zone is set later.
func spanOf(n *rulesfile.Node) (store.Window, error) {
	if unit, err := rulesfile.OneOf(n, "window", calendarUnits...); err == nil {
		return store.Window{Calendar: &store.Calendar{Unit: string(unit), Zone: time.UTC}}, nil
	}
	d, err := n.Duration("window")
	return store.Window{Length: d}, err
}

// baseOf reads the first stage of a two-stage rule.
func baseOf(n *rulesfile.Node) (*store.Base, error) {
	b := &store.Base{}
	err := n.Fields("base", rulesfile.Number("limit", &b.Limit, 1, store.MaxLimit), rulesfile.Into("window", &b.Window, spanOf))
	if err == nil && (b.Limit == 0 || b.Window == store.Window{}) {
		err = n.Wrong("base is not complete, it should be such as {limit: 30, window: day}")
	}
	return b, err
}

func zoneOf(n *rulesfile.Node) (*time.Location, error) {
	name, err := n.Text("zone")
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, n.Wrong("zone %.60q is unknown, it should be a name such as Asia/Shanghai, Europe/Berlin or UTC", name)
	}
	return zone, nil
}

// finishWindow completes w, the i-th window, from the settings of the whole rule, and sets its id.
func (d *draft) finishWindow(i int, w *windowDraft) error {
	highest, lowest := w.limit.highest(), w.limit.lowest()
	for _, o := range d.rule.overrides {
		highest = max(highest, o.limits[i].highest())
		if n := o.limits[i].lowest(); n > 0 && (lowest == 0 || n < lowest) {
			lowest = n
		}
	}
	calendar := w.Window.Calendar != nil
	w.Algorithm = cmp.Or(w.Algorithm, d.algorithm)
	switch {
	case w.Algorithm == "" && calendar:
		w.Algorithm = store.FixedWindow
	case w.Algorithm == "":
		w.Algorithm = sliding(highest)
	}
	place := func(key string) *rulesfile.Node { return cmp.Or(w.node.Key(key), d.node.Key(key), w.node) }
	at := place("algorithm")
	a := algorithm.Of(w.Algorithm)
	switch {
	case calendar && !a.Calendar:
		return place("window").Wrong("a window of the calendar is for algorithm: %s; %s needs a duration such as 24h",
			algorithm.Those(func(a *algorithm.Algorithm) bool { return a.Calendar }), w.Algorithm)
	case a.Base && w.Base == nil:
		return at.Wrong("rule %q has no base, it should be such as {limit: 30, window: day}", d.Name)
	case !a.Base && w.Base != nil:
		return place("base").Wrong("base is for algorithm: %s", algorithm.Those(func(a *algorithm.Algorithm) bool { return a.Base }))
	case !a.Burst && w.Burst > 0:
		return place("burst").Wrong("burst is for algorithm: %s", algorithm.Those(func(a *algorithm.Algorithm) bool { return a.Burst }))
	case a.Check != nil:
		if problem := a.Check(algorithm.Window{Highest: highest, Lowest: lowest, Length: w.Window.Length, Burst: w.Burst}); problem != "" {
			return at.Wrong("%s", problem)
		}
	}
	if calendar {
		w.Window.Calendar.Zone = d.zone
	}
	if w.Base != nil && w.Base.Window.Calendar != nil {
		w.Base.Window.Calendar.Zone = d.zone
	}
	w.Usual = usual(w.Window)
	w.ID = d.windowID(&w.Counter)
	return nil
}

// windowID hashes the properties of w that give its counts their meaning.
func (d *draft) windowID(w *Counter) string {
	parts := append([]string{d.Name, string(w.Algorithm), w.Window.String()}, d.subject...)
	if len(d.joint) > 0 {
		joint := slices.Sorted(slices.Values(d.joint))
		parts = append(append(parts, "", "joint"), joint...)
	}
	if w.Base != nil {
		parts = append(parts, "", "base", w.Base.Window.String())
	}
	return windowID(parts...)
}

// windowID hashes exactly the properties of a window that give its counts their meaning: a changed limit keeps the counts and applies to
// them, a changed length starts from zero.
func windowID(parts ...string) string {
	return keyhash.Of(keyhash.AppendParts(nil, parts...)).String()[:8]
}

// usual returns the duration of w; for a calendar window, the usual duration of its unit.
func usual(w store.Window) time.Duration {
	if w.Calendar == nil {
		return w.Length
	}
	return map[string]time.Duration{
		"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "month": 30 * 24 * time.Hour,
	}[w.Calendar.Unit]
}

// sliding returns the sliding algorithm for a limit.
func sliding(limit int) store.Algorithm {
	if limit <= maxLogged {
		return store.SlidingLog
	}
	return store.SlidingCounter
}

// highest returns the highest limit of all tiers, ignoring Unlimited.
func (l limits) highest() int {
	n := max(0, l.other)
	for _, limit := range l.tiers {
		n = max(n, limit)
	}
	return n
}

// lowest returns the lowest positive limit of all tiers, or 0.
func (l limits) lowest() int {
	n := max(0, l.other)
	for _, limit := range l.tiers {
		if limit > 0 && (n == 0 || limit < n) {
			n = limit
		}
	}
	return n
}

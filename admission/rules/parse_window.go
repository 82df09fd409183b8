package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/internal/rulesfile"
)

var (
	calendarUnits      = []string{"minute", "hour", "day", "month"}
	countingAlgorithms = []string{string(store.SlidingLog), string(store.SlidingCounter), string(store.FixedWindow), string(store.GCRA), string(store.TwoStage)}
)

// A windowDraft is a partly parsed window.
type windowDraft struct {
	Counter
	node ast.Node
	at   map[string]ast.Node // node of each key
}

// windows parses several windows, each {limit, window} and, depending on the algorithm, burst or base.
func (s *source) windows(n ast.Node) (windows []windowDraft, err error) {
	err = s.List(n, "windows", func(n ast.Node) error {
		w := windowDraft{node: n, at: map[string]ast.Node{}}
		keep := func(key string, read func(ast.Node) error) rulesfile.Field {
			return rulesfile.Key(key, func(at, n ast.Node) error {
				w.at[key] = at
				return read(n)
			})
		}
		err := s.Mapping(n, "a window",
			keep("limit", func(n ast.Node) (err error) {
				w.limit, err = s.limits(n)
				return err
			}),
			keep("window", func(n ast.Node) (err error) {
				w.Window, err = s.span(n)
				return err
			}),
			keep("algorithm", func(n ast.Node) error {
				word, err := s.OneOf(n, "algorithm", countingAlgorithms...)
				w.Algorithm = store.Algorithm(word)
				return err
			}),
			keep("burst", func(n ast.Node) (err error) {
				w.Burst, err = s.Number(n, "burst", 1, store.MaxLimit)
				return err
			}),
			keep("base", func(n ast.Node) (err error) {
				w.Base, err = s.base(n)
				return err
			}),
		)
		switch {
		case err != nil:
			return err
		case w.at["limit"] == nil || w.at["window"] == nil:
			return s.Wrong(n, "the window is not complete, it should be such as {limit: 5, window: 10s}")
		case slices.ContainsFunc(windows, func(o windowDraft) bool { return o.sameAs(&w) }):
			return s.Wrong(n, "a second window is as long, the lower limit alone says the same")
		case len(windows) == maxWindows:
			return s.Wrong(n, "the rule has more than %d windows", maxWindows)
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

// span parses the length of a window, or its calendar unit; the zone is set later.
func (s *source) span(n ast.Node) (store.Window, error) {
	if n, ok := n.(*ast.StringNode); ok && slices.Contains(calendarUnits, n.Value) {
		return store.Window{Calendar: &store.Calendar{Unit: n.Value, Zone: time.UTC}}, nil
	}
	d, err := s.Duration(n, "window")
	return store.Window{Length: d}, err
}

// base parses the first stage of a two-stage rule.
func (s *source) base(n ast.Node) (*store.Base, error) {
	b := &store.Base{}
	err := s.Mapping(n, "base",
		rulesfile.Key("limit", func(_, n ast.Node) (err error) {
			b.Limit, err = s.Number(n, "limit", 1, store.MaxLimit)
			return err
		}),
		rulesfile.Key("window", func(_, n ast.Node) (err error) {
			b.Window, err = s.span(n)
			return err
		}),
	)
	if err == nil && (b.Limit == 0 || b.Window == store.Window{}) {
		err = s.Wrong(n, "base is not complete, it should be such as {limit: 30, window: day}")
	}
	return b, err
}

func (s *source) zone(n ast.Node) (*time.Location, error) {
	name, err := s.Text(n, "zone")
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, s.Wrong(n, "zone %.60q is unknown, it should be a name such as Asia/Shanghai, Europe/Berlin or UTC", name)
	}
	return zone, nil
}

// finishWindow completes w, the i-th window, from the settings of the whole rule, and sets its id.
func (s *source) finishWindow(d *draft, i int, w *windowDraft) error {
	highest, lowest := w.limit.highest(), w.limit.lowest()
	for _, o := range d.rule.overrides {
		highest = max(highest, o.limits[i].highest())
		if n := o.limits[i].lowest(); n > 0 && (lowest == 0 || n < lowest) {
			lowest = n
		}
	}
	calendar := w.Window.Calendar != nil
	w.Algorithm = cmp.Or(w.Algorithm, store.Algorithm(d.algorithm))
	switch {
	case w.Algorithm == "" && calendar:
		w.Algorithm = store.FixedWindow
	case w.Algorithm == "":
		w.Algorithm = sliding(highest)
	}
	place := func(key string) ast.Node { return cmp.Or(w.at[key], d.at[key], w.node) }
	at := place("algorithm")
	switch {
	case calendar && w.Algorithm != store.FixedWindow:
		return s.Wrong(place("window"), "a window of the calendar is for algorithm: fixed_window; %s needs a duration such as 24h", w.Algorithm)
	case w.Algorithm == store.SlidingLog && highest > store.MaxLogged:
		return s.Wrong(at, "sliding_log keeps a time for each unit, at most %d; for a limit of %d use sliding_counter", store.MaxLogged, highest)
	case w.Algorithm == store.TwoStage && highest > store.MaxLogged:
		return s.Wrong(at, "the limit after the base should be at most %d, here is %d", store.MaxLogged, highest)
	case w.Algorithm == store.TwoStage && w.Base == nil:
		return s.Wrong(at, "rule %q has no base, it should be such as {limit: 30, window: day}", d.Name)
	case w.Algorithm != store.TwoStage && w.Base != nil:
		return s.Wrong(place("base"), "base is for algorithm: base")
	case w.Algorithm != store.GCRA && w.Burst > 0:
		return s.Wrong(place("burst"), "burst is for algorithm: gcra")
	}
	if w.Algorithm == store.GCRA {
		if fastest := w.Window.Length / (100 * time.Microsecond); int64(highest) > int64(fastest) {
			return s.Wrong(at, "gcra lets at most one unit pass in 100 µs, which is %d in %v; for a limit of %d use sliding_counter", fastest, w.Window.Length, highest)
		}
		if lowest > 0 && float64(w.Burst)*float64(w.Window.Length)/float64(lowest) > float64(maxDrain) {
			return s.Wrong(at, "a burst of %d at %d in %v takes more than ten years to pass", w.Burst, lowest, w.Window.Length)
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

// maxDrain is the longest time that a full burst may take to drain.
const maxDrain = 10 * 366 * 24 * time.Hour

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

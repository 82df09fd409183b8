package admission

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"
)

var (
	calendarUnits      = []string{"minute", "hour", "day", "month"}
	countingAlgorithms = []string{string(SlidingLog), string(SlidingCounter), string(FixedWindow), string(GCRA), string(TwoStage)}
)

// A windowDraft is a partly parsed window.
type windowDraft struct {
	window
	node ast.Node
	at   map[string]ast.Node // node of each key
}

// windows parses several windows, each {limit, window} and, depending on the algorithm, burst or base.
func (s *source) windows(n ast.Node) (windows []windowDraft, err error) {
	err = s.list(n, "windows", func(n ast.Node) error {
		w := windowDraft{node: n, at: map[string]ast.Node{}}
		keep := func(key string, read func(ast.Node) error) field {
			return field{key, func(at, n ast.Node) error {
				w.at[key] = at
				return read(n)
			}}
		}
		err := s.mapping(n, "a window",
			keep("limit", func(n ast.Node) (err error) {
				w.limit, err = s.limits(n)
				return err
			}),
			keep("window", func(n ast.Node) (err error) {
				w.span, err = s.span(n)
				return err
			}),
			keep("algorithm", func(n ast.Node) error {
				word, err := s.oneOf(n, "algorithm", countingAlgorithms...)
				w.algorithm = Algorithm(word)
				return err
			}),
			keep("burst", func(n ast.Node) (err error) {
				w.burst, err = s.number(n, "burst", 1, MaxLimit)
				return err
			}),
			keep("base", func(n ast.Node) (err error) {
				w.base, err = s.base(n)
				return err
			}),
		)
		switch {
		case err != nil:
			return err
		case w.at["limit"] == nil || w.at["window"] == nil:
			return s.wrong(n, "the window is not complete, it should be such as {limit: 5, window: 10s}")
		case slices.ContainsFunc(windows, func(o windowDraft) bool { return o.sameAs(&w) }):
			return s.wrong(n, "a second window is as long, the lower limit alone says the same")
		case len(windows) == maxWindows:
			return s.wrong(n, "the rule has more than %d windows", maxWindows)
		}
		windows = append(windows, w)
		return nil
	})
	return windows, err
}

// sameAs reports whether two windows have the same length and, as far as specified, the same algorithm.
func (w *windowDraft) sameAs(o *windowDraft) bool {
	return w.algorithm == o.algorithm && w.span.sameAs(o.span)
}

// sameAs reports whether two windows are equal. All windows of a rule share one zone, so zones are not compared.
func (w Window) sameAs(o Window) bool {
	if w.Calendar == nil || o.Calendar == nil {
		return w == o
	}
	return w.Calendar.Unit == o.Calendar.Unit
}

// span parses the length of a window, or its calendar unit; the zone is set later.
func (s *source) span(n ast.Node) (Window, error) {
	if n, ok := n.(*ast.StringNode); ok && slices.Contains(calendarUnits, n.Value) {
		return Window{Calendar: &Calendar{Unit: n.Value, Zone: time.UTC}}, nil
	}
	d, err := s.duration(n, "window")
	return Window{Length: d}, err
}

// base parses the first stage of a two-stage rule.
func (s *source) base(n ast.Node) (*base, error) {
	b := &base{}
	err := s.mapping(n, "base",
		field{"limit", func(_, n ast.Node) (err error) {
			b.limit, err = s.number(n, "limit", 1, MaxLimit)
			return err
		}},
		field{"window", func(_, n ast.Node) (err error) {
			b.span, err = s.span(n)
			return err
		}},
	)
	if err == nil && (b.limit == 0 || b.span == Window{}) {
		err = s.wrong(n, "base is not complete, it should be such as {limit: 30, window: day}")
	}
	return b, err
}

func (s *source) zone(n ast.Node) (*time.Location, error) {
	name, err := s.text(n, "zone")
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, s.wrong(n, "zone %.60q is unknown, it should be a name such as Asia/Shanghai, Europe/Berlin or UTC", name)
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
	calendar := w.span.Calendar != nil
	w.algorithm = cmp.Or(w.algorithm, Algorithm(d.algorithm))
	switch {
	case w.algorithm == "" && calendar:
		w.algorithm = FixedWindow
	case w.algorithm == "":
		w.algorithm = sliding(highest)
	}
	place := func(key string) ast.Node { return cmp.Or(w.at[key], d.at[key], w.node) }
	at := place("algorithm")
	switch {
	case calendar && w.algorithm != FixedWindow:
		return s.wrong(place("window"), "a window of the calendar is for algorithm: fixed_window; %s needs a duration such as 24h", w.algorithm)
	case w.algorithm == SlidingLog && highest > MaxLogged:
		return s.wrong(at, "sliding_log keeps a time for each unit, at most %d; for a limit of %d use sliding_counter", MaxLogged, highest)
	case w.algorithm == TwoStage && highest > MaxLogged:
		return s.wrong(at, "the limit after the base should be at most %d, here is %d", MaxLogged, highest)
	case w.algorithm == TwoStage && w.base == nil:
		return s.wrong(at, "rule %q has no base, it should be such as {limit: 30, window: day}", d.name)
	case w.algorithm != TwoStage && w.base != nil:
		return s.wrong(place("base"), "base is for algorithm: base")
	case w.algorithm != GCRA && w.burst > 0:
		return s.wrong(place("burst"), "burst is for algorithm: gcra")
	}
	if w.algorithm == GCRA {
		if fastest := w.span.Length / (100 * time.Microsecond); int64(highest) > int64(fastest) {
			return s.wrong(at, "gcra lets at most one unit pass in 100 µs, which is %d in %v; for a limit of %d use sliding_counter", fastest, w.span.Length, highest)
		}
		if lowest > 0 && float64(w.burst)*float64(w.span.Length)/float64(lowest) > float64(maxDrain) {
			return s.wrong(at, "a burst of %d at %d in %v takes more than ten years to pass", w.burst, lowest, w.span.Length)
		}
	}
	if calendar {
		w.span.Calendar.Zone = d.zone
	}
	if w.base != nil && w.base.span.Calendar != nil {
		w.base.span.Calendar.Zone = d.zone
	}
	w.id = d.windowID(&w.window)
	return nil
}

// maxDrain is the longest time that a full burst may take to drain.
const maxDrain = 10 * 366 * 24 * time.Hour

// windowID hashes the properties of w that give its counts their meaning.
func (d *draft) windowID(w *window) string {
	parts := append([]string{d.name, string(w.algorithm), w.span.String()}, d.subject...)
	if len(d.joint) > 0 {
		joint := slices.Sorted(slices.Values(d.joint))
		parts = append(append(parts, "", "joint"), joint...)
	}
	if w.base != nil {
		parts = append(parts, "", "base", w.base.span.String())
	}
	return windowID(parts...)
}

// String formats w as 1m0s or "day Asia/Shanghai".
func (w Window) String() string {
	if w.Calendar == nil {
		return w.Length.String()
	}
	return w.Calendar.Unit + " " + w.Calendar.Zone.String()
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

// duration parses a duration.
func (s *source) duration(n ast.Node, what string) (time.Duration, error) {
	if n, ok := n.(*ast.StringNode); ok {
		d, err := time.ParseDuration(n.Value)
		if err == nil && minWindow <= d && d <= maxWindow && d%time.Millisecond == 0 {
			return d, nil
		}
	}
	right := "such as 10s, 1m or 24h"
	if what == "window" {
		right += ", or minute, hour, day or month"
	}
	return 0, s.wrong(n, "%s should be a duration of whole milliseconds from 1ms to %sh, %s%s", what, strconv.Itoa(int(maxWindow/time.Hour)), right, found(n))
}

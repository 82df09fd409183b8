package koala

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// tallies are how often each rule was within its limit and beyond it today, in this process. Safe for concurrent use.
type tallies struct {
	zone *time.Location
	log  *slog.Logger
	now  func() time.Time

	mu    sync.Mutex
	date  string         // guarded by mu
	begin time.Time      // of the date; guarded by mu
	end   time.Time      // guarded by mu
	rules map[int]*Tally // guarded by mu
}

// A Tally is how often one rule let requests pass and how often it answered them.
type Tally struct {
	Rule  int   `json:"rule_no"`
	Allow int64 `json:"allow"`
	Deny  int64 `json:"deny"`
}

func newTallies(zone *time.Location, log *slog.Logger) *tallies {
	return &tallies{zone: zone, log: log, now: time.Now, rules: map[int]*Tally{}}
}

func (t *tallies) count(rule int, answered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn()
	one := t.rules[rule]
	if one == nil {
		one = &Tally{Rule: rule}
		t.rules[rule] = one
	}
	if answered {
		one.Deny++
	} else {
		one.Allow++
	}
}

// turn begins a new day, and logs the old one.
func (t *tallies) turn() {
	now := t.now()
	if !now.Before(t.begin) && now.Before(t.end) {
		return
	}
	year, month, day := now.In(t.zone).Date()
	t.begin, t.end = time.Date(year, month, day, 0, 0, 0, 0, t.zone), time.Date(year, month, day+1, 0, 0, 0, 0, t.zone)
	today := now.In(t.zone).Format(time.DateOnly)
	if today == t.date {
		return
	}
	for _, one := range t.sorted() {
		t.log.Info("koala: a rule's day", "date", t.date, "rule_no", one.Rule, "allow", one.Allow, "deny", one.Deny)
	}
	t.date = today
	clear(t.rules)
}

func (t *tallies) sorted() []Tally {
	all := []Tally{}
	for _, rule := range slices.Sorted(maps.Keys(t.rules)) {
		all = append(all, *t.rules[rule])
	}
	return all
}

// Today returns the date and the tallies of today, in the order of the return numbers.
func (s *Service) Today() (date string, rules []Tally) {
	s.day.mu.Lock()
	defer s.day.mu.Unlock()
	s.day.turn()
	return s.day.date, s.day.sorted()
}

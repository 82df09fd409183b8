package koala

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// tallies count how often each rule admitted and refused today, in this process. They are safe for concurrent use.
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

// A Tally is how often one rule admitted and refused requests: for a direct rule by its result, for others by their limit.
type Tally struct {
	Rule  int   `json:"rule_no"`
	Allow int64 `json:"allow"`
	Deny  int64 `json:"deny"`
}

func newTallies(zone *time.Location, log *slog.Logger) *tallies {
	return &tallies{zone: zone, log: log, now: time.Now, rules: map[int]*Tally{}}
}

// count adds outcomes to the tallies.
func (t *tallies) count(outcomes ...outcome) {
	day := t.now()
	t.mu.Lock()
	past, date := t.turn(day)
	for _, one := range outcomes {
		tally := t.rules[one.code]
		if tally == nil {
			tally = &Tally{Rule: one.code}
			t.rules[one.code] = tally
		}
		if one.refused {
			tally.Deny++
		} else {
			tally.Allow++
		}
	}
	t.mu.Unlock()
	t.report(past, date)
}

// An outcome is the outcome of one rule.
type outcome struct {
	code    int
	refused bool
}

// outcome returns the outcome of r; answers is false if the next rule was evaluated.
func (p *policy) outcome(r *rule, answers bool) outcome {
	return outcome{r.code, answers && !p.file.results[r.result].admits()}
}

// turn starts a new day if one has begun, and returns the tallies of the previous day, for report. The caller holds mu.
func (t *tallies) turn(now time.Time) (past map[int]*Tally, date string) {
	if !now.Before(t.begin) && now.Before(t.end) {
		return nil, ""
	}
	year, month, day := now.In(t.zone).Date()
	t.begin, t.end = time.Date(year, month, day, 0, 0, 0, 0, t.zone), time.Date(year, month, day+1, 0, 0, 0, 0, t.zone)
	today := now.In(t.zone).Format(time.DateOnly)
	if today == t.date {
		return nil, ""
	}
	past, date = t.rules, t.date
	t.rules, t.date = map[int]*Tally{}, today
	return past, date
}

// report logs a completed day. It is called without mu.
func (t *tallies) report(past map[int]*Tally, date string) {
	for _, one := range sorted(past) {
		t.log.Info("koala: a rule's day", "date", date, "rule_no", one.Rule, "allow", one.Allow, "deny", one.Deny)
	}
}

func sorted(rules map[int]*Tally) []Tally {
	all := []Tally{}
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		all = append(all, *rules[rule])
	}
	return all
}

// Today returns the date and the tallies of today, sorted by return number.
func (s *Service) Today() (date string, rules []Tally) {
	s.day.mu.Lock()
	past, before := s.day.turn(s.day.now())
	date, rules = s.day.date, sorted(s.day.rules)
	s.day.mu.Unlock()
	s.day.report(past, before)
	return date, rules
}

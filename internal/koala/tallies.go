package koala

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// tallies are how often each rule let in and refused today, in this process. Safe for concurrent use.
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

// A Tally is how often one rule let in and how often it refused: a direct rule as its result says, another one by its limit.
type Tally struct {
	Rule  int   `json:"rule_no"`
	Allow int64 `json:"allow"`
	Deny  int64 `json:"deny"`
}

func newTallies(zone *time.Location, log *slog.Logger) *tallies {
	return &tallies{zone: zone, log: log, now: time.Now, rules: map[int]*Tally{}}
}

// count adds what became of rules, by their return numbers.
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

// An outcome is what became of one rule.
type outcome struct {
	code    int
	refused bool
}

// outcome is what became of r, which answered, or let go on to the next one.
func (p *policy) outcome(r *rule, answers bool) outcome {
	return outcome{r.code, answers && !p.file.results[r.result].admits()}
}

// turn begins a new day where one has begun, and returns the day before it, for report. Whoever calls it has locked mu.
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

// report logs a day that is over. Nobody waits for a lock meanwhile.
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

// Today returns the date and the tallies of today, in the order of the return numbers.
func (s *Service) Today() (date string, rules []Tally) {
	s.day.mu.Lock()
	past, before := s.day.turn(s.day.now())
	date, rules = s.day.date, sorted(s.day.rules)
	s.day.mu.Unlock()
	s.day.report(past, before)
	return date, rules
}

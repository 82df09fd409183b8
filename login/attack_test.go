package login_test

import (
	"cmp"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var fullAttack = flag.Bool("attack.full", false, "TestAttacks with ten thousand addresses and three hours, for the table in docs/login.md")

// An attack is a day of logins: attackers, beside 200 regular users.
type attack struct {
	what      string
	addresses int
	names     int // that they try
	solves    bool
	careful   bool // stays below the ban
}

// TestAttacks lets the default rules stand against attackers who do all that they may as soon as they may. Nobody honest is ever refused.
//
// go test ./login -run TestAttacks -v -attack.full
func TestAttacks(t *testing.T) {
	addresses, names, long := 400, 1000, 2*time.Hour
	if *fullAttack {
		addresses, names, long = 10_000, 10_000, 3*time.Hour
	}
	attacks := []struct {
		attack

		most [2]int // guesses: in the first hour, and in the last
	}{
		{attack{"guessing one name", addresses, 1, false, false}, [2]int{36, 36}},
		{attack{"guessing one name", addresses, 1, true, false}, [2]int{2*addresses + 100, 100}},
		{attack{"spraying", 1, names, false, false}, [2]int{60, 60}},
		{attack{"spraying", 1, names, true, false}, [2]int{90, 60}},
		{attack{"spraying", 1, names, true, true}, [2]int{174, 174}},
		{attack{"stuffing", addresses / 10, names / 10, false, false}, [2]int{36 * names / 10, 36 * names / 10}},
		{attack{"stuffing", addresses / 10, names / 10, true, false}, [2]int{90 * addresses / 10, 60 * addresses / 10}},
		{attack{"stuffing", addresses / 10, names / 10, true, true}, [2]int{174 * addresses / 10, 174 * addresses / 10}},
	}
	table := "\n| Attack | CAPTCHAs solved | guesses in hour 1 | in the last hour | proofs paid (work) | banned | people: logins | refused | saw a CAPTCHA | waited (longest) " +
		"| owner with a token | owner at fresh addresses |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
	for _, a := range attacks {
		t.Run(fmt.Sprintf("%s solving %s", a.what, a.solving()), func(t *testing.T) {
			w := newWorld(t, a.attack)
			w.run(long)
			table += w.row() + "\n"
			for _, p := range w.people {
				if p.refused > 0 {
					t.Errorf("%s was refused %d times, at last %+v", p.what, p.refused, p.last)
				}
				if p.logins == 0 {
					t.Errorf("%s never got in, at last %+v", p.what, p.last)
				}
			}
			if first, last := w.guesses[0], w.lastHour(); first > a.most[0] || last > a.most[1] || first == 0 {
				t.Errorf("%d guesses in the first hour and %d in the last, want at most %v", first, last, a.most)
			}
			if owner := w.people[0]; a.names == 1 && owner.captchas+int(owner.waited) > 0 {
				t.Errorf("the owner with a token saw %d CAPTCHAs and waited %v", owner.captchas, owner.waited)
			}
		})
	}
	t.Log(table)
}

func (a *attack) solving() string {
	switch {
	case a.careful:
		return "all, below the ban"
	case a.solves:
		return "all"
	}
	return "none"
}

func (w *world) lastHour() int { return w.guesses[len(w.guesses)-1] }

// row is the world as it ended, as a line of a table.
func (w *world) row() string {
	var logins, refused, saw, waited int
	var longest time.Duration
	for _, p := range w.people[2:] {
		logins += p.logins
		refused += p.refused
		saw += min(p.captchas, 1)
		waited += cmp.Compare(p.waited, 0)
		longest = max(longest, p.longest)
	}
	owner := func(p *person) string {
		if w.attack.names > 1 {
			return "-"
		}
		return fmt.Sprintf("%d logins, %d refused, %d CAPTCHAs, waited at most %v", p.logins, p.refused, p.captchas, p.longest.Round(time.Second))
	}
	cells := []any{
		fmt.Sprintf("%s: %d addresses, %d names", w.attack.what, w.attack.addresses, w.attack.names), w.attack.solving(), w.guesses[0], w.lastHour(),
		fmt.Sprintf("%d (%d)", w.proofs, w.work), len(w.bans.until), logins, refused, saw, fmt.Sprintf("%d (%v)", waited, longest.Round(time.Second)),
		owner(w.people[0]), owner(w.people[1]),
	}
	var b strings.Builder
	for _, c := range cells {
		fmt.Fprintf(&b, "| %v ", c)
	}
	return b.String() + "|"
}

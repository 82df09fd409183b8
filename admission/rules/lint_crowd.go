package rules

import "slices"

// fewWindows is how many windows may count one request without a warning. Redis counts all of them in one script, and does nothing else
// meanwhile.
const fewWindows = 50

// crowded warns about rules of which so many can match one request that it delays all others.
func (l *linter) crowded() {
	needs := make([]match, len(l.rules)) // of the rules that count
	for i := range l.rules {
		if r := &l.rules[i]; len(r.windows) > 0 && l.ender(i) == nil {
			needs[i] = r.counted()
		}
	}
	for i := range l.rules {
		if needs[i] == nil {
			continue
		}
		together, windows := []int{i}, len(l.rules[i].windows)
		for j := range l.rules {
			if j == i || needs[j] == nil || slices.ContainsFunc(together, func(k int) bool { return apart(needs[k], needs[j]) }) {
				continue
			}
			together, windows = append(together, j), windows+len(l.rules[j].windows)
		}
		if windows > fewWindows {
			l.warn(&l.rules[slices.Min(together)],
				"%d rules with %d windows can match one request, and Redis counts them in one script, during which it does "+
					"nothing else. Match fewer requests with each, or merge rules, to at most %d windows", len(together), windows, fewWindows)
			return
		}
	}
}

// counted returns what a request must meet to be counted by r. It is not nil.
func (r *rule) counted() match {
	m := append(match{}, r.match...)
	for _, part := range r.subject {
		if !isAddress(part) {
			m = append(m, condition{part: part, test: present(true)})
		}
	}
	return m
}

// apart reports whether certainly no request meets both a and b.
func apart(a, b match) bool {
	return slices.ContainsFunc(a, func(c condition) bool {
		return slices.ContainsFunc(b, func(d condition) bool {
			return c.part == d.part && (excludes(c.test, d.test) || excludes(d.test, c.test))
		})
	})
}

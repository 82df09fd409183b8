package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A table is a Markdown table.
type table struct{ rows [][]string }

func newTable(head ...string) *table { return &table{[][]string{head}} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(out io.Writer, title string) {
	width := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	fmt.Fprintf(out, "\n### %s\n\n", title)
	for n, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				cell += pad
			} else {
				cell = pad + cell
			}
			line.WriteString("| " + cell + " ")
		}
		fmt.Fprintln(out, line.String()+"|")
		if n > 0 {
			continue
		}
		for i := range row {
			rule := strings.Repeat("-", width[i])
			if i > 0 && width[i] > 0 {
				rule = rule[1:] + ":"
			}
			fmt.Fprint(out, "| "+rule+" ")
		}
		fmt.Fprintln(out, "|")
	}
}

// median of values, which need not be sorted. It is 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// quotient formats the median ratio of one to other over the rounds, with the lowest and the highest. It is empty without rounds.
func quotient(one, other []float64) string {
	var all []float64
	for i := range one {
		if other[i] != 0 && one[i] != 0 {
			all = append(all, one[i]/other[i])
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s–%s)", times(median(all)), times(slices.Min(all)), times(slices.Max(all)))
}

// whole and one format numbers with zero and one decimals.
func whole(f float64) string { return fmt.Sprintf("%.0f", f) }
func one(f float64) string   { return fmt.Sprintf("%.1f", f) }

// byCost sorts names by cost, highest first.
func byCost(names []string, cost func(string) float64) {
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(cost(b), cost(a)) })
}

// ratio formats how many times faster first was than other: the median over the rounds, with the lowest and the highest.
func ratio(first, other []result) string {
	ratios := make([]float64, len(first))
	for i := range first {
		ratios[i] = first[i].perSecond / other[i].perSecond
	}
	return fmt.Sprintf("%s (%s–%s)", times(median(ratios)), times(slices.Min(ratios)), times(slices.Max(ratios)))
}

func times(f float64) string {
	if f >= 10 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// perSecond formats a rate with three significant digits.
func perSecond(f float64) string {
	if f >= 1e6 {
		return fmt.Sprintf("%.2f M", f/1e6)
	}
	return fmt.Sprintf("%.1f k", f/1e3)
}

func short(d time.Duration) string {
	switch {
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d >= time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	}
	return fmt.Sprintf("%d ns", d)
}

// speeds prints the table of a comparison.
func (r *run) speeds(title string, t trial, results [][]result) {
	tab := newTable("", "decisions/s", "p50", "p99", "admitted", "first ÷ this (lowest–highest)")
	var failures []string
	for i, c := range t.contenders {
		var rates, p50, p99, admitted []float64
		failed := int64(0)
		for _, res := range results[i] {
			rates, p50, p99 = append(rates, res.perSecond), append(p50, float64(res.p50)), append(p99, float64(res.p99))
			admitted = append(admitted, 100*float64(res.admitted)/float64(max(1, res.asked-res.failed)))
			failed += res.failed
			if res.err != nil && (len(failures) == 0 || !strings.HasPrefix(failures[len(failures)-1], c.name)) {
				failures = append(failures, fmt.Sprintf("%s: %v", c.name, res.err))
			}
		}
		name := c.name
		if failed > 0 {
			name = fmt.Sprintf("%s (%d failed)", name, failed)
		}
		tab.add(name, perSecond(median(rates)), short(time.Duration(median(p50))), short(time.Duration(median(p99))),
			fmt.Sprintf("%.0f %%", median(admitted)), ratio(results[0], results[i]))
	}
	r.print(tab, title)
	for _, f := range failures {
		fmt.Fprintf(r.out, "\nFailed with, among others: %s\n", f)
	}
}

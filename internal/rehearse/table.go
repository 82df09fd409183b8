package rehearse

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/tidegate/tidegate/internal/judge"
)

// WriteTable writes performance and correctness in one table.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	row := func(name, value, format string, args ...any) {
		fmt.Fprintln(&b, judge.Clip(fmt.Sprintf("  %-10s %11s   %s", name, value, fmt.Sprintf(format, args...))))
	}
	fmt.Fprintf(&b, "Rehearsal of sale %q: %s buyers in %s at %s, over at most %s connections, seed %d\n\n", r.Sale, comma(r.Buyers),
		short(r.Wave), plural(r.Processes, "API process", "API processes"), comma(r.Connections), r.Seed)
	row("planned", comma(r.Planned), "sent %s · attempts %s · lag p99 %s, max %s", comma(r.Sent), comma(r.Attempts), short(r.Lag.P99),
		short(r.Lag.Max))
	row("admitted", comma(r.Admitted), "%s/s, %s in the busiest second · replayed %s", comma(int(r.AdmittedPS)), comma(r.AdmittedPeak),
		comma(r.Replayed))
	lost := reasons(r.Lost)
	if len(r.Lost) > 0 {
		lost += fmt.Sprintf(" · %s calls never answered", comma(r.Unknown))
	}
	row("refused", comma(sum(r.Refused)), "%s", reasons(r.Refused))
	row("lost", comma(sum(r.Lost)), "%s", lost)
	row("persisted", comma(r.Confirmed), "%s/s, %s in the busiest second", comma(int(r.ConfirmedPS)), comma(r.ConfirmedPeak))
	row("answers", "", "p50 %s · p99 %s · p99.9 %s · max %s, from the planned time", short(r.Answers.P50), short(r.Answers.P99),
		short(r.Answers.P999), short(r.Answers.Max))
	row("confirmed", "", "p50 %s · p99 %s · max %s, from the 202 until the buyer saw it", short(r.Confirm.P50), short(r.Confirm.P99),
		short(r.Confirm.Max))
	if n := r.Ends; n.Captured+n.Cancelled+n.Expired > 0 {
		row("paid", comma(n.Paid), "captured %s · refunds %s · repeats %s · p50 %s · p99 %s until answered", comma(n.Captured), comma(n.Refunds),
			comma(n.Repeats), short(n.Captures.P50), short(n.Captures.P99))
		row("returned", comma(n.Cancelled+n.Expired), "cancelled %s · expired %s · units sold again %s", comma(n.Cancelled), comma(n.Expired),
			comma(n.Resold))
	}
	fmt.Fprintln(&b)
	b.WriteString(judge.FormatFindings(r.Findings, r.Notes, r.OK()))
	_, err := io.WriteString(w, b.String())
	return err
}

// reasons formats counts by reason, the most frequent first.
func reasons(n map[string]int) string {
	words := slices.SortedFunc(maps.Keys(n), func(a, b string) int {
		if n[a] != n[b] {
			return n[b] - n[a]
		}
		return strings.Compare(a, b)
	})
	for i, word := range words {
		words[i] = word + " " + comma(n[word])
	}
	return strings.Join(words, " · ")
}

func sum(n map[string]int) (total int) {
	for _, v := range n {
		total += v
	}
	return total
}

// short formats a duration with three significant digits.
func short(m Ms) string {
	v, unit := float64(time.Duration(m).Microseconds())/1000, "ms"
	if v >= 1000 {
		v, unit = v/1000, "s"
	}
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f %s", v, unit)
	case v >= 10:
		return fmt.Sprintf("%.1f %s", v, unit)
	}
	return fmt.Sprintf("%.2f %s", v, unit)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return comma(n) + " " + many
}

func comma(n int) string { return humanize.Comma(int64(n)) }

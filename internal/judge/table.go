package judge

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// tableWidth is the maximum length of a line; the JSON has everything.
const tableWidth = 118

// FormatFindings formats findings as a table, with notes and the overall result below it. held is the result of Held.
func FormatFindings(findings []Finding, notes []string, held bool) string {
	var b strings.Builder
	width, verdicts := 0, map[Verdict]int{}
	for _, f := range findings {
		width = max(width, utf8.RuneCountInString(f.Title))
	}
	for _, f := range findings {
		verdicts[f.Verdict]++
		word := map[Verdict]string{OK: "ok", Breach: "BREACH", NotJudged: "–"}[f.Verdict]
		detail := f.Detail
		if f.Verdict == Breach && len(f.Examples) > 0 {
			detail = fmt.Sprintf("%s× %s", comma(f.Breaches), f.Examples[0])
		}
		fmt.Fprintln(&b, Clip(fmt.Sprintf("  %-4s %-*s %-7s %s", f.Invariant, width, f.Title, word, detail)))
	}
	fmt.Fprintln(&b)
	for _, n := range notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	result := "INCOMPLETE"
	switch {
	case held:
		result = "OK"
	case verdicts[Breach] > 0:
		result = "BREACH"
	}
	fmt.Fprintf(&b, "  %s: %d hold, %d broken, %d not judged\n", result, verdicts[OK], verdicts[Breach], verdicts[NotJudged])
	return b.String()
}

// Clip shortens a line of a table to 118 characters.
func Clip(s string) string {
	s = strings.TrimRight(s, " ")
	if utf8.RuneCountInString(s) <= tableWidth {
		return s
	}
	return string([]rune(s)[:tableWidth-1]) + "…"
}

func comma(n int) string { return humanize.Comma(int64(n)) }

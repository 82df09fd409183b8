package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/livepage"
)

// lost is the message that the stream has ended and will be reopened.
type lost struct{ err error }

// A screen is the terminal UI. The zero value waits for its first frame.
type screen struct {
	frame         *livepage.Frame
	err           error // why no newer frame has arrived
	help          bool
	width, height int // in cells; 0: width 80, unlimited height
}

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case *livepage.Frame:
		s.frame, s.err = msg, nil
	case lost:
		s.err = msg.err
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		case "?", "h":
			s.help = !s.help
		}
	}
	return s, nil
}

// View implements tea.Model.
func (s screen) View() tea.View {
	v := tea.NewView(s.text())
	v.AltScreen = true
	return v
}

var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
	good  = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	low   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

const helpText = `
q, Esc, Ctrl-C   quit
?                show or hide this help

Requests, rules and decisions are counted by the connected server, in the time that is shown.
Sales, waiting rooms, pending orders, semaphores and bans are those of all servers.
Parts marked "old" could not be updated and show their last numbers.
To change something, use the page of the internal listener, or tidegate sales, rooms, orders, bans and semaphores.
`

// text returns all lines, cut to the width and height of the screen.
func (s screen) text() string {
	s.width = cmp.Or(s.width, 80)
	var lines []string
	switch {
	case s.help:
		lines = strings.Split(ansi.Wordwrap(strings.TrimSpace(helpText), s.width, ""), "\n")
	case s.frame == nil:
		lines = []string{"connecting…"}
	default:
		lines = s.body()
	}
	foot := faint.Render("q quit · ? help")
	if s.err != nil {
		foot = bad.Render("no answer, retrying: " + input.Harmless(s.err.Error()))
	}
	if s.height > 0 {
		if most := max(0, s.height-1); len(lines) > most {
			foot += faint.Render(fmt.Sprintf(" · %d more lines", len(lines)-most))
			lines = lines[:most]
		}
		lines = append(lines, foot)
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], max(1, s.width), "…")
	}
	return strings.Join(lines, "\n")
}

// body renders the frame, most important part first.
func (s screen) body() []string {
	f := s.frame
	b := &sections{width: s.width, at: f.At}
	p := &f.Process
	running := plural(p.Processes, "API")
	if p.Workers != nil {
		running += " · " + plural(*p.Workers, "worker")
	}
	head := fmt.Sprintf("tidegate %s · %s · rules %s · %s", input.Harmless(p.Version), running, input.Harmless(p.Rules),
		f.At.Local().Format(time.TimeOnly))
	b.add("%s", bold.Render(head))
	for _, what := range p.Degraded {
		style := bad
		if slices.Contains(p.Warnings, what) {
			style = low
		}
		b.add("%s", style.Render("! "+input.Harmless(what)))
	}
	unknown(b, "sales", f.Sales)
	unknown(b, "waiting rooms", f.Rooms)
	unknown(b, "pending orders", f.Queue)
	unknown(b, "semaphores", f.Semaphores)
	unknown(b, "bans", f.Bans)
	b.answers(f)
	b.verified(p.Invariants)
	if sales := f.Sales.Known(); sales != nil {
		b.head("SALES, free/stock", f.Sales.AgeMS, f.Sales.Error)
		b.sales(*sales)
		b.more("", f.MoreSales)
	}
	if rooms := f.Rooms.Known(); rooms != nil && len(*rooms) > 0 {
		b.head("WAITING ROOMS", f.Rooms.AgeMS, f.Rooms.Error)
		b.rooms(*rooms)
		b.more("", f.MoreRooms)
	}
	if queue := f.Queue.Known(); queue != nil {
		b.head("PENDING ORDERS", f.Queue.AgeMS, f.Queue.Error)
		b.queue(queue, f.WindowMS)
	}
	if all := f.Semaphores.Known(); all != nil && len(*all) > 0 {
		b.head("SEMAPHORES", f.Semaphores.AgeMS, f.Semaphores.Error)
		for _, one := range *all {
			b.gauge(one.Name, one.InUse, one.Limit, fmt.Sprintf("%d/%d held, %d wait", one.InUse, one.Limit, one.Waiting))
		}
		b.more("", f.MoreSemaphores)
	}
	if len(f.Rules) > 0 {
		b.head("RULES", 0, "")
		for _, r := range f.Rules {
			text := fmt.Sprintf("%s passed, %s refused", perSecond(r.Charged, f.WindowMS), perSecond(r.Refused, f.WindowMS))
			if r.Shadow > 0 {
				text += fmt.Sprintf(", %s shadow", perSecond(r.Shadow, f.WindowMS))
			}
			b.gauge(r.Name, int(r.Fullest*1000), 1000, text)
		}
		b.more("", f.MoreRules)
	}
	if bans := f.Bans.Known(); bans != nil && bans.Count > 0 {
		b.head(fmt.Sprintf("BANS %d", bans.Count), f.Bans.AgeMS, f.Bans.Error)
		for _, ban := range bans.Bans[:min(5, len(bans.Bans))] {
			b.row(ban.Kind+" "+ban.Value, fmt.Sprintf("%s left  %s", span(ban.Until.Sub(f.At)),
				faint.Render(input.Harmless(cmp.Or(ban.Reason, ban.Rule)))))
		}
	}
	if len(f.Latest) > 0 {
		b.head("LAST DECISIONS", 0, "")
		for _, a := range f.Latest[:min(8, len(f.Latest))] {
			b.row(a.Who, fmt.Sprintf("%s %s %s", a.At.Local().Format(time.TimeOnly), styleOf(a.Answer).Render(fit(input.Harmless(a.Answer), 18)),
				faint.Render(input.Harmless(a.What))))
		}
	}
	return b.lines
}

// sections collects the lines of a body.
type sections struct {
	lines []string
	width int
	at    time.Time
}

func (b *sections) add(format string, args ...any) {
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

// unknown renders a part that could not be queried yet.
func unknown[T any](b *sections, what string, p *livepage.Part[T]) {
	if p != nil && p.Value == nil {
		b.add("%s", bad.Render("! "+what+": unknown: "+input.Harmless(p.Error)))
	}
}

// more renders the number of elements that the frame has left out.
func (b *sections) more(of string, n int) {
	if n > 0 {
		b.add("  %s", faint.Render(andMore(n)+of))
	}
}

// head begins a section. If its data could not be refreshed in time, it shows their age.
func (b *sections) head(text string, ageMS int64, problem string) {
	line := bold.Render(text)
	if ageMS > 3000 || problem != "" {
		line += bad.Render(fmt.Sprintf("  %s old  %s", span(time.Duration(ageMS)*time.Millisecond), input.Harmless(problem)))
	}
	b.lines = append(b.lines, "", line)
}

// row appends a row of a name and a text.
func (b *sections) row(name, text string) {
	b.add("  %s %s", fit(input.Harmless(name), min(30, max(8, b.width/4))), text)
}

// gauge appends a row with a bar for n of all, if there is room.
func (b *sections) gauge(name string, n, all int, text string) {
	if width := b.width/4 - 2; width >= 10 {
		text = bar(n, all, width) + " " + text
	}
	b.row(name, text)
}

// answers renders the results of requests, admitted ones first.
func (b *sections) answers(f *livepage.Frame) {
	var all, most uint64
	for _, n := range f.Answers {
		all, most = all+n, max(most, n)
	}
	b.head(fmt.Sprintf("REQUESTS  %s  in the last %s", perSecond(all, f.WindowMS), span(time.Duration(f.WindowMS)*time.Millisecond)), 0, "")
	refusals := slices.DeleteFunc(slices.Sorted(maps.Keys(f.Answers)), func(answer string) bool { return answer == livepage.Admitted })
	for _, answer := range append([]string{livepage.Admitted}, refusals...) {
		n := f.Answers[answer]
		text := fmt.Sprintf("%8s", perSecond(n, f.WindowMS))
		if long := int(float64(n) / float64(max(1, most)) * float64(b.width/2)); long > 0 {
			text += " " + styleOf(answer).Render(strings.Repeat("█", long))
		}
		b.row(strings.ReplaceAll(answer, "_", " "), text)
	}
	if l := f.Latency; l != nil {
		b.row("time to answer", fmt.Sprintf("p50 %s, p99 %s", micros(l.P50US), micros(l.P99US)))
	}
}

// verified renders the results of the latest verifications.
func (b *sections) verified(v *livepage.Invariants) {
	switch {
	case v == nil:
		b.row("invariants", "not verified lately")
	case v.Violations > 0:
		b.row("invariants", bad.Render(fmt.Sprintf("%s, verified %s ago: tidegate verify", plural(v.Violations, "violation"),
			span(b.at.Sub(v.VerifiedAt)))))
	default:
		b.row("invariants", fmt.Sprintf("hold in %s, verified %s ago", plural(v.Sales, "sale"), span(b.at.Sub(v.VerifiedAt))))
	}
}

// rooms renders who waits in each room.
func (b *sections) rooms(all []livepage.Room) {
	for _, r := range all {
		text := fmt.Sprintf("%s, %d waiting, %d had their turn", input.Harmless(r.Phase), r.Waiting, r.Served)
		switch starts := r.StartsAt.Sub(b.at); {
		case r.Phase == "closed" || r.Phase == "exhausted":
		case starts > 0:
			text += ", turns in " + span(starts)
		default:
			text += fmt.Sprintf(", %d admitted/min", r.Admitted)
		}
		b.row(r.Room, text)
	}
}

// plural formats a number of things.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// micros formats microseconds.
func micros(us int64) string {
	if d := time.Duration(us) * time.Microsecond; d >= 10*time.Millisecond {
		return d.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%.1fms", float64(us)/1000)
}

func (b *sections) sales(all []livepage.Sale) {
	if len(all) == 0 {
		b.add("  none; tidegate sales create defines one")
	}
	for _, sale := range all {
		for _, it := range sale.Items {
			free, text := 0, fmt.Sprintf("–/%d", it.Stock)
			if it.Free != nil {
				free = *it.Free
				text = fmt.Sprintf("%d/%d", free, it.Stock)
			}
			switch {
			case it.Free != nil && free == 0:
				text += " sold out"
				if it.SoldOutAt != nil {
					text += " at " + moment(*it.SoldOutAt, b.at)
				}
			case it.PerSecond > 0:
				text += fmt.Sprintf(" sold out in %s at %.3g/s", span(time.Duration(it.SoldOutIn)*time.Millisecond), it.PerSecond)
			case b.at.Before(sale.StartsAt) && !sale.Draft: // a draft does not open by itself
				text += " starts in " + span(sale.StartsAt.Sub(b.at))
			}
			if sale.State != "open" {
				text += ", " + input.Harmless(sale.State)
			}
			if it.Cancelled+it.Expired > 0 {
				text += fmt.Sprintf(", %d came back", it.Cancelled+it.Expired)
			}
			if sale.Draft {
				text += ", draft"
			}
			b.gauge(sale.Sale+" "+it.Item, free, it.Stock, text)
		}
		b.more(" of "+input.Harmless(sale.Sale), sale.MoreItems)
		if o := sale.Orders; o != nil && o.Paid+o.Confirmed+o.Cancelled+o.Expired+o.Refunds > 0 {
			text := fmt.Sprintf("%d paid, %d confirmed, %d cancelled, %d expired", o.Paid, o.Confirmed, o.Cancelled, o.Expired)
			if o.Refunds > 0 {
				text = low.Render(plural(o.Refunds, "refund")+" due") + ", " + text
			}
			b.row("orders", text)
		}
	}
}

func (b *sections) queue(q *livepage.Queue, windowMS int64) {
	oldest := time.Duration(q.OldestMS) * time.Millisecond
	text := fmt.Sprintf("%d waiting, oldest %s, since %s, %d in progress, %s committed", q.Waiting, span(oldest),
		b.at.Add(-oldest).Local().Format(time.TimeOnly), q.InProgress, perSecond(q.Committed, windowMS))
	if q.Waiting == 0 {
		text = perSecond(q.Committed, windowMS) + " committed, none waiting"
	}
	b.add("  %s", text)
	if n := len(q.Dead); n > 0 {
		more := ""
		if q.MoreDead {
			more = "+"
		}
		b.add("  %s", bad.Render(fmt.Sprintf("%d%s dead: tidegate orders dead", n, more)))
	}
}

func styleOf(answer string) lipgloss.Style {
	if answer == livepage.Admitted {
		return good
	}
	return bad
}

func perSecond(n uint64, windowMS int64) string {
	return fmt.Sprintf("%.0f/s", float64(n)*1000/float64(max(1, windowMS)))
}

// span formats a duration in its largest units.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", max(0, d).Seconds())
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// moment formats a time, with its date unless it is of the last 12 hours.
func moment(at, now time.Time) string {
	if now.Sub(at) < 12*time.Hour {
		return at.Local().Format(time.TimeOnly)
	}
	return at.Local().Format(time.DateTime)
}

// bar renders n of all as blocks.
func bar(n, all, width int) string {
	filled := 0
	if all > 0 {
		filled = int(float64(width) * min(1, max(0, float64(n)/float64(all))))
	}
	return good.Render(strings.Repeat("█", filled)) + faint.Render(strings.Repeat("░", width-filled))
}

// fit cuts or pads a text to width cells.
func fit(text string, width int) string {
	text = ansi.Truncate(text, width, "…")
	return text + strings.Repeat(" ", width-ansi.StringWidth(text))
}

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/dashboard"
)

func topCommand(getenv func(string) string) *cobra.Command {
	var (
		api    internalAPI
		once   bool
		asJSON bool
	)
	cmd := &cobra.Command{
		Use: "top", Short: "Show live what the page of the internal listener shows, in a terminal",
		Long: "Show live who comes in, how sales sell, what waits for Postgres, and who holds semaphores. q ends it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			if once || asJSON {
				return api.frames(ctx, func(raw []byte, frame *dashboard.Frame) (more bool, err error) {
					if asJSON {
						_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", raw)
					} else {
						_, err = fmt.Fprintln(cmd.OutOrStdout(), screen{frame: frame, width: 100, height: 100}.text())
					}
					return !once, err
				})
			}
			program := tea.NewProgram(screen{}, tea.WithContext(ctx), tea.WithInput(cmd.InOrStdin()), tea.WithOutput(cmd.OutOrStdout()))
			go func() {
				for ctx.Err() == nil {
					err := api.frames(ctx, func(_ []byte, frame *dashboard.Frame) (bool, error) {
						program.Send(frame)
						return true, nil
					})
					program.Send(lost{err})
					pause(ctx, time.Second)
				}
			}()
			_, err := program.Run()
			return err
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one frame and end")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each frame as JSON, one a line")
	api.addFlags(cmd, getenv)
	return cmd
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// frames calls fn for each frame of the stream until it wants no more, or the stream ends.
func (a *internalAPI) frames(ctx context.Context, fn func(raw []byte, frame *dashboard.Frame) (more bool, err error)) error {
	req, err := a.request(ctx, http.MethodGet, nil, nil, "events")
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%w; is the server running, and --internal its internal listener?", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // whatever it is, there is the status
		return refusal(req.URL.String(), resp.StatusCode, body)
	}
	event := ""
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		line := lines.Bytes()
		if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			event = string(name)
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || event != "frame" {
			continue
		}
		frame := &dashboard.Frame{}
		if err := json.Unmarshal(data, frame); err != nil {
			return fmt.Errorf("%s answers with something else than expected: %w", a.base, err)
		}
		if more, err := fn(data, frame); err != nil || !more {
			return err
		}
	}
	return cmp.Or(lines.Err(), ctx.Err(), error(io.ErrUnexpectedEOF))
}

// lost says that the stream has ended.
type lost struct{ err error }

// A screen is what the terminal shows.
type screen struct {
	frame         *dashboard.Frame
	err           error
	width, height int
}

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case *dashboard.Frame:
		s.frame, s.err = msg, nil
	case lost:
		s.err = msg.err
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if slices.Contains([]string{"q", "esc", "ctrl+c"}, msg.String()) {
			return s, tea.Quit
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
	good  = lipgloss.NewStyle().Foreground(lipgloss.Color("6"))
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Color("1"))
)

func (s screen) text() string {
	if s.frame == nil {
		if s.err != nil {
			return bad.Render(s.err.Error()) + "\n"
		}
		return "connecting…\n"
	}
	var b strings.Builder
	f := s.frame
	width := max(40, s.width)
	title := bold.Render("Tidegate") + faint.Render(fmt.Sprintf("  rules %s · %d process(es) · counted over %d ms · %s", f.Process.Rules, f.Process.Processes, f.WindowMS, f.At.Local().Format(time.TimeOnly)))
	fmt.Fprintln(&b, title)
	for _, text := range f.Process.Degraded {
		fmt.Fprintln(&b, bad.Render("! "+text))
	}
	if s.err != nil {
		fmt.Fprintln(&b, bad.Render("! no connection: "+s.err.Error()))
	}
	fmt.Fprintln(&b)
	s.traffic(&b, width)
	if p := f.Sales; p != nil {
		heading(&b, "SALES", p.AgeMS, p.Error)
		for _, sale := range p.Value {
			for _, it := range sale.Items {
				gone := ""
				switch {
				case it.Free == 0:
					gone = "sold out"
				case it.PerSecond > 0:
					gone = fmt.Sprintf("%.0f/s, sold out in %s", it.PerSecond, (time.Duration(it.SoldOutIn) * time.Millisecond).Round(time.Second))
				}
				fmt.Fprintf(&b, "  %-30s %-10s %s %d/%d  %s\n", clip(sale.Sale+" "+it.Item, 30), sale.State, bar(it.Free, it.Stock, max(10, width/4)), it.Free, it.Stock, faint.Render(gone))
			}
		}
	}
	if p := f.Queue; p != nil {
		heading(&b, "ON THE WAY TO POSTGRES", p.AgeMS, p.Error)
		fmt.Fprintf(&b, "  %d waiting, the oldest since %s · %s/s committed · %d dead letters\n", p.Value.Waiting,
			(time.Duration(p.Value.OldestMS) * time.Millisecond).Round(time.Millisecond), perSecond(p.Value.Committed, f.WindowMS), len(p.Value.Dead))
	}
	if p := f.Semaphores; p != nil && len(p.Value) > 0 {
		heading(&b, "SEMAPHORES", p.AgeMS, p.Error)
		for _, one := range p.Value {
			fmt.Fprintf(&b, "  %-30s %s %d/%d, %d wait\n", clip(one.Name, 30), bar(one.InUse, one.Limit, max(10, width/4)), one.InUse, one.Limit, one.Waiting)
		}
	}
	if len(f.Rules) > 0 {
		heading(&b, "RULES", 0, "")
		for _, r := range f.Rules {
			fmt.Fprintf(&b, "  %-30s %s %s/s in, %s/s refused\n", clip(r.Name, 30), bar(int(r.Fullest*1000), 1000, max(10, width/4)), perSecond(r.Charged, f.WindowMS), perSecond(r.Refused, f.WindowMS))
		}
	}
	if p := f.Bans; p != nil && p.Value.Count > 0 {
		heading(&b, fmt.Sprintf("BANS  %d", p.Value.Count), p.AgeMS, p.Error)
		for _, ban := range p.Value.Bans[:min(5, len(p.Value.Bans))] {
			fmt.Fprintf(&b, "  %-30s %s left  %s\n", clip(cell(ban.Kind+" "+ban.Value), 30), ban.Until.Sub(f.At).Round(time.Second), faint.Render(clip(cell(cmp.Or(ban.Reason, ban.Rule)), 40)))
		}
	}
	if len(f.Latest) > 0 {
		heading(&b, "LAST DECISIONS", 0, "")
		for _, a := range f.Latest[:min(8, len(f.Latest))] {
			style := bad
			if a.Answer == dashboard.Admitted {
				style = good
			}
			fmt.Fprintf(&b, "  %s %s %-24s %s\n", a.At.Local().Format(time.TimeOnly), style.Render(fmt.Sprintf("%-18s", a.Answer)), clip(cell(a.Who), 24), faint.Render(clip(cell(a.What), max(10, width-60))))
		}
	}
	lines := strings.Split(b.String(), "\n")
	return strings.Join(lines[:min(len(lines), max(10, s.height))], "\n")
}

// traffic shows how requests ended in the last second.
func (s screen) traffic(b *strings.Builder, width int) {
	f := s.frame
	all, most := 0, uint64(1)
	names := []string{dashboard.Admitted}
	for name, n := range f.Answers {
		most = max(most, n)
		all += int(n)
		if name != dashboard.Admitted {
			names = append(names, name)
		}
	}
	slices.Sort(names[1:])
	fmt.Fprintf(b, "%s  %s/s\n", bold.Render("WHO COMES IN"), perSecond(uint64(all), f.WindowMS))
	for _, name := range names {
		style := bad
		if name == dashboard.Admitted {
			style = good
		}
		n := f.Answers[name]
		length := int(n) * max(10, width/2) / int(most)
		fmt.Fprintf(b, "  %-20s %8s/s %s\n", strings.ReplaceAll(name, "_", " "), perSecond(n, f.WindowMS), style.Render(strings.Repeat("█", length)))
	}
}

func heading(b *strings.Builder, text string, age int64, problem string) {
	line := "\n" + bold.Render(text)
	if age > 3000 || problem != "" {
		line += "  " + bad.Render(fmt.Sprintf("as of %s ago %s", time.Duration(age)*time.Millisecond, problem))
	}
	fmt.Fprintln(b, line)
}

func perSecond(n uint64, windowMS int64) string {
	return fmt.Sprintf("%.0f", float64(n)*1000/float64(max(1, windowMS)))
}

// bar is n of all as blocks.
func bar(n, all, width int) string {
	filled := 0
	if all > 0 {
		filled = min(width, max(0, n)*width/all)
	}
	return good.Render(strings.Repeat("█", filled)) + faint.Render(strings.Repeat("░", width-filled))
}

// clip cuts a text to so many characters.
func clip(text string, width int) string {
	runes := []rune(text)
	if len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

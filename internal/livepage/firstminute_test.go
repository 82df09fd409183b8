package livepage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/internal/testenv"
)

// sold is a frame of a morning on which something is wrong: no worker runs, and of three sales the second is selling.
func sold(at time.Time, left int) livepage.Frame {
	hours := func(s livepage.Sale) livepage.Sale {
		s.StartsAt, s.EndsAt = at.Add(-time.Hour), time.Date(2031, 12, 24, 18, 0, 0, 0, time.UTC)
		return s
	}
	return livepage.Frame{
		At: at, RoundTrips: 20,
		Process: livepage.Process{
			Version: "test", Rules: "abc", Processes: 1, Workers: new(0), Degraded: []string{"commits: no worker has committed orders", "these secrets are published: SECRET"},
			Warnings: []string{"these secrets are published: SECRET"}, Invariants: &livepage.Invariants{Sales: 2, VerifiedAt: at.Add(-12 * time.Second)},
		},
		Answers: map[string]uint64{livepage.Admitted: 5, "captcha_required": 2, "sold_out": 3}, Latency: &livepage.Latency{P50US: 812, P99US: 48_400},
		Sales: &livepage.Part[[]livepage.Sale]{Value: &[]livepage.Sale{
			hours(livepage.Sale{
				Sale: "quiet", State: "open", Items: []livepage.Item{{Item: "lamp", Stock: 5, Free: new(0), SoldOutAt: new(at.Add(-time.Minute))}},
				Orders: &livepage.Orders{Confirmed: 5},
			}),
			hours(livepage.Sale{
				Sale: "flash", State: "open", Items: []livepage.Item{{Item: "shoe", Stock: 600, Free: new(left), Cancelled: 1, Expired: 16, PerSecond: 2, OverMS: 10_000, SoldOutIn: 9000}},
				Orders: &livepage.Orders{Paid: 120, Confirmed: 30, Cancelled: 1, Expired: 16, Refunds: 3},
			}),
			hours(livepage.Sale{Sale: "late", State: "ended", Items: []livepage.Item{{Item: "cap", Stock: 5, Free: new(5)}}}),
			hours(livepage.Sale{Sale: "next", State: "open", Items: []livepage.Item{{Item: "hat", Stock: 5, Free: new(5)}}}),
		}},
		Queue: &livepage.Part[livepage.Queue]{Value: &livepage.Queue{Waiting: 7, OldestMS: 45_000, Dead: []livepage.Dead{}}},
	}
}

// The page answers in its first minute how fast, how many workers, what is wrong and what was sold.
func TestTheFirstMinute(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := testenv.NewTab(t)
	b.Do(chromedp.EmulateViewport(1280, 900))
	b.Open(s.URL + "/")
	at := time.Now().Truncate(time.Second)
	for i := range 3 {
		s.show(t, sold(at.Add(time.Duration(i)*time.Second), 300-50*i))
	}
	shows := func(selector, text string) {
		t.Helper()
		b.Until(fmt.Sprintf(`document.querySelector(%q)?.innerText.replace(/\s+/g, ' ').trim() === %q`, selector, text))
	}
	clock := func(at time.Time) string {
		return testenv.Eval[string](b, fmt.Sprintf(`new Date(%d).toLocaleTimeString('en-GB')`, at.UnixMilli()))
	}
	at = at.Add(2 * time.Second)
	shows(".k-took", "0.8 ms answer p50 · p99 48 ms")
	shows(".k-workers", "0 workers · 1 API")
	shows(".k-limited", "3 /s refused, 2/s challenged")
	shows(".k-waiting", "7 pending orders, the oldest for 45 s, since "+clock(at.Add(-45*time.Second)))
	shows(".k-paid", "120 orders paid · 3 refunds due")
	shows(".k-invariants", "OK invariants, 2 sales verified 12 s ago")
	shows("#trips", "Redis trips per decision: 2.00")
	shows("#who", "ops, operator")
	shows("#state", "degraded")
	shows("#degraded", "commits: no worker has committed orders")
	shows("#warnings", "these secrets are published: SECRET")
	if testenv.Eval[bool](b, `document.querySelector('#warnings').getBoundingClientRect().top < document.querySelector('#degraded').getBoundingClientRect().bottom`) {
		t.Error("the warning is not below the fault")
	}
	shows(".sale[data-key=kflash] .back", "17 units came back: 16 not paid in time, 1 cancelled")
	shows(".sale[data-key=kflash] .totals", "Orders: 120 paid · 30 confirmed · 1 cancelled · 16 expired · 3 refunds due")
	shows(".sale[data-key=kquiet] .left", "Sold out all 5, at "+clock(at.Add(-time.Minute)))
	shows(".sale[data-key=kflash] .units", "600 0")
	b.Until(fmt.Sprintf(`document.querySelector('.sale[data-key=kflash] .over').innerText.endsWith(%q)`, clock(at)))
	b.Until(`document.querySelector('.sale[data-key=kflash] .hours').innerText.includes(' 2031, ')`)
	for _, plot := range []string{"#chart", "#took"} {
		if !testenv.Eval[bool](b, fmt.Sprintf(`document.querySelector('%s canvas').getAttribute('aria-label').length > 20 && document.querySelector('%[1]s').clientHeight > 80`, plot)) {
			t.Errorf("the canvas of %s has no name, or no room", plot)
		}
	}
	b.Picture("live/first-minute-1280-light.png", 1280, 900, "light")

	// The tab key goes through the sales as they are seen: what sells is first, and what is over last.
	b.Do(chromedp.EmulateViewport(1280, 900))
	visited := testenv.Eval[[]string](b, `[...document.querySelectorAll('.sale')].map((s) => s.dataset.key)`)
	if fmt.Sprint(visited) != "[kflash kquiet knext klate]" {
		t.Errorf("the sales are %v", visited)
	}
	var focused []string
	for len(focused) < 3 {
		b.Do(chromedp.KeyEvent(kb.Tab))
		if key := testenv.Eval[string](b, `document.activeElement.closest('.sale')?.dataset.key ?? ''`); key != "" {
			focused = append(focused, key)
		}
	}
	if fmt.Sprint(focused) != fmt.Sprint(visited[:3]) {
		t.Errorf("the tab key goes to %v, want %v", focused, visited[:3])
	}
	// inOrder is whether no button is seen above or left of one that the tab key reaches before it.
	const inOrder = `(() => {
		const at = [...document.querySelectorAll('button, input, [tabindex="0"]')].filter((e) => e.checkVisibility() && e.closest('#sales')).map((e) => e.getBoundingClientRect());
		return at.every((r, i) => i === 0 || r.top >= at[i - 1].bottom || r.left >= at[i - 1].right);
	})()`
	for _, width := range []int64{1280, 900, 320} {
		b.Do(chromedp.EmulateViewport(width, 900))
		if !testenv.Eval[bool](b, inOrder) {
			t.Errorf("%d wide, buttons are seen in another order than the tab key has", width)
		}
	}

	// On a phone what is sold out is a heading, until somebody wants to see more.
	const items = `document.querySelector('.sale[data-key=kquiet] .items').checkVisibility()`
	b.Picture("live/first-minute-320-dark.png", 320, 700, "dark")
	if testenv.Eval[bool](b, items) || !testenv.Eval[bool](b, `document.querySelector('.sale[data-key=kflash] .items').checkVisibility()`) {
		t.Error("what is sold out is not folded, or what is not is")
	}
	shows(".sale[data-key=kquiet] .fold", "Show")
	b.Do(chromedp.Click(`.sale[data-key=kquiet] .fold`))
	b.Until(items + ` && document.querySelector('.sale[data-key=kquiet] .fold[aria-expanded=true]')?.innerText === 'Hide'`)
	b.Do(chromedp.EmulateViewport(1280, 900))
	if testenv.Eval[bool](b, `document.querySelector('.fold').checkVisibility()`) {
		t.Error("on a large screen there is a button to fold")
	}

	// Warnings alone are no degraded part.
	frame := sold(at.Add(time.Second), 150)
	frame.Process.Degraded, frame.Process.Workers = frame.Process.Warnings, nil
	s.show(t, frame)
	shows("#state", "live")
	shows(".k-workers b", "–")
	shows("#warnings", "these secrets are published: SECRET")
}

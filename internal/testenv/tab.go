package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A Tab is a browser tab with the actions and observations of a user. Every failure ends the test. Make it with NewTab.
type Tab struct {
	t   testing.TB
	ctx context.Context
}

// NewTab starts a Browser.
func NewTab(t testing.TB, allowed ...string) Tab {
	t.Helper()
	return Tab{t, Browser(t, allowed...)}
}

// Of returns the same tab for a subtest.
func (b Tab) Of(t testing.TB) Tab { return Tab{t, b.ctx} }

// Do executes steps in order.
func (b Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// Command sends a DevTools command to the browser.
func Command[P, R any](b Tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// Open navigates to a page.
func (b Tab) Open(url string) {
	b.t.Helper()
	b.Do(chromedp.Navigate(url))
}

// Follow clicks on an element that leads to another page, and returns that page's status.
func (b Tab) Follow(what string) int64 {
	b.t.Helper()
	resp, err := chromedp.RunResponse(b.ctx, chromedp.Click(what))
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.Status
}

// Eval returns the value of a JavaScript expression, or the result of its promise.
func Eval[T any](b Tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Until waits until a JavaScript expression is true, also if another page is loaded meanwhile.
func (b Tab) Until(expression string) {
	b.t.Helper()
	const wait = `new Promise((done) => {
		const end = Date.now() + 30000, look = () => ((%s) ? done(true) : Date.now() > end ? done(false) : setTimeout(look, 50));
		look();
	})`
	for begun := time.Now(); ; {
		found, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](fmt.Sprintf(wait, expression), chromedp.EvalAwaitPromise))
		switch gone := err != nil && (strings.Contains(err.Error(), "navigated or closed") ||
			strings.Contains(err.Error(), "context was destroyed")); {
		case gone && time.Since(begun) < 30*time.Second:
			continue
		case err != nil:
			b.t.Fatalf("%s: %v", expression, err)
		case found:
			return
		}
		b.t.Fatalf("timed out waiting for %s; the page shows:\n%s", expression, b.Text("body"))
	}
}

// Has reports whether an element exists.
func (b Tab) Has(selector string) bool {
	b.t.Helper()
	return Eval[bool](b, fmt.Sprintf("document.querySelector(%q) !== null", selector))
}

// Text returns the visible text of an element.
func (b Tab) Text(selector string) string {
	b.t.Helper()
	return Eval[string](b, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// TabTo presses the tab key until a JavaScript expression is true, such as one about document.activeElement.
func (b Tab) TabTo(condition string) {
	b.t.Helper()
	for range 80 {
		if Eval[bool](b, condition) {
			return
		}
		b.Do(chromedp.KeyEvent(kb.Tab))
	}
	b.t.Fatalf("the tab key does not lead to %s", condition)
}

// Controls returns what a screen reader calls the buttons and links, in the order of the page. It fails if two have the same
// name, or one has none.
func (b Tab) Controls() []string {
	b.t.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	text := func(v *accessibility.Value) (s string) {
		if v != nil {
			_ = json.Unmarshal(v.Value, &s) // numbers stay empty
		}
		return s
	}
	var names []string
	for _, node := range tree.Nodes {
		if role := text(node.Role); node.Ignored || role != "button" && role != "link" {
			continue
		}
		if name := text(node.Name); name == "" || slices.Contains(names, name) {
			b.t.Errorf("a screen reader calls two controls %q", name)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// Fits fails if the page is wider than the window.
func (b Tab) Fits() {
	b.t.Helper()
	if wide := Eval[int64](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
		b.t.Errorf("the page is %d pixels wider than the window", wide)
	}
}

// Translate changes all texts of the page as a browser that translates it does: at once, and whenever they change, except in
// elements with translate="no". «» enclose what is translated.
func (b Tab) Translate() {
	b.t.Helper()
	Eval[bool](b, `(() => {
		const translate = () => {
			const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
			while (texts.nextNode()) found.push(texts.currentNode);
			for (const text of found) {
				if (!text.data.trim() || text.parentElement.closest('[translate=no], font, script, style')) continue;
				const font = document.createElement('font');
				font.textContent = '«' + text.data + '»';
				text.replaceWith(font);
			}
		};
		translate();
		new MutationObserver(translate).observe(document.body, { childList: true, characterData: true, subtree: true });
		return true;
	})()`)
}

// Picture saves a screenshot in the directory of the variable ARTIFACTS. It fails if the page overflows horizontally.
func (b Tab) Picture(file string, width, height int64, scheme string) {
	b.t.Helper()
	b.Do(chromedp.EmulateViewport(width, height))
	Command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	// settled is true when finite animations have ended and the page fits its width. Without scripts, promises would not resolve.
	const settled = `document.documentElement.scrollWidth <= innerWidth &&
		document.getAnimations().every((a) => a.playState !== 'running' || a.effect.getTiming().iterations === Infinity)`
	for end := time.Now().Add(5 * time.Second); !Eval[bool](b, settled); time.Sleep(pollInterval) {
		if time.Now().After(end) {
			b.t.Errorf("%s is %d wide in a window of %d, or does not come to rest", file, Eval[int64](b, "document.documentElement.scrollWidth"),
				width)
			break
		}
	}
	image, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(artifacts(), file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, image, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// artifacts returns the directory for files to keep: that of the variable, or artifacts beside go.mod.
func artifacts() string {
	if folder := os.Getenv("ARTIFACTS"); folder != "" {
		return folder
	}
	for at := "."; ; at = filepath.Join(at, "..") {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return filepath.Join(at, "artifacts")
		}
		if abs, err := filepath.Abs(at); err != nil || abs == "/" {
			return "artifacts"
		}
	}
}

package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// A Tab is what a person does in front of a browser and sees there. Whatever fails ends the test. Make it with NewTab.
type Tab struct {
	t   testing.TB
	ctx context.Context
}

// NewTab starts a Browser.
func NewTab(t testing.TB, allowed ...string) Tab {
	t.Helper()
	return Tab{t, Browser(t, allowed...)}
}

// Of is the same tab in a subtest.
func (b Tab) Of(t testing.TB) Tab { return Tab{t, b.ctx} }

// Do does one thing after the other.
func (b Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// Command sends the browser a command of its protocol.
func Command[P, R any](b Tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// Open goes to a page.
func (b Tab) Open(url string) {
	b.t.Helper()
	b.Do(chromedp.Navigate(url))
}

// Follow clicks on something that leads to another page, and returns the status that it came with.
func (b Tab) Follow(what string) int64 {
	b.t.Helper()
	resp, err := chromedp.RunResponse(b.ctx, chromedp.Click(what))
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.Status
}

// Eval is the value of an expression in JavaScript, or what its promise comes to.
func Eval[T any](b Tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Until waits until an expression in JavaScript is true.
func (b Tab) Until(expression string) {
	b.t.Helper()
	const wait = `new Promise((done) => {
		const end = Date.now() + 30000, look = () => ((%s) ? done(true) : Date.now() > end ? done(false) : setTimeout(look, 50));
		look();
	})`
	if !Eval[bool](b, fmt.Sprintf(wait, expression)) {
		b.t.Fatalf("it did not come to be that %s; the page says:\n%s", expression, b.Text("body"))
	}
}

// Has tells whether there is an element.
func (b Tab) Has(selector string) bool {
	b.t.Helper()
	return Eval[bool](b, fmt.Sprintf("document.querySelector(%q) !== null", selector))
}

// Text is what is to be read of an element.
func (b Tab) Text(selector string) string {
	b.t.Helper()
	return Eval[string](b, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// Picture keeps what the window shows, in the folder of the variable ARTIFACTS. Nothing may stick out of the window's sides.
func (b Tab) Picture(file string, width, height int64, scheme string) {
	b.t.Helper()
	b.Do(chromedp.EmulateViewport(width, height))
	Command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	// What moves comes to rest, but for what never does; and the page takes notice of its width. Where scripts are off, no promise would be kept.
	const settled = `document.documentElement.scrollWidth <= innerWidth &&
		document.getAnimations().every((a) => a.playState !== 'running' || a.effect.getTiming().iterations === Infinity)`
	for end := time.Now().Add(5 * time.Second); !Eval[bool](b, settled); time.Sleep(pollInterval) {
		if time.Now().After(end) {
			b.t.Errorf("%s is %d wide in a window of %d, or does not come to rest", file, Eval[int64](b, "document.documentElement.scrollWidth"), width)
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

// artifacts is the folder that is kept after the tests: that of the variable, or artifacts beside go.mod.
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

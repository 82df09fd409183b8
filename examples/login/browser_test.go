package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tidegate/tidegate/internal/testenv"
)

// Browsers put it on the console when a page comes with such a status, as ours do on purpose.
var refusals = []string{"the server responded with a status of 401", "the server responded with a status of 403"}

// Either ends the wait for a solution.
const solved, unsolved = `altcha-widget [data-state="verified"]`, `altcha-widget [data-state="error"]`

// The page works under its own policy: what it forbids would be on the console, and fail the test.
func TestThreeWrongPasswordsBringTheWidget(t *testing.T) {
	page, _ := start(t)
	b := browser{t, testenv.Browser(t, refusals...)}
	b.open(page)
	b.do(chromedp.SendKeys("#name", owner)) // once: the page keeps it
	for i := range 3 {
		if status := b.enter("wrong"); status != http.StatusUnauthorized {
			t.Fatalf("wrong password: %d", status)
		}
		if there := b.has("altcha-widget"); there != (i == 2) {
			t.Fatalf("after %d wrong passwords the widget is there: %t", i+1, there)
		}
	}
	if b.do(chromedp.WaitReady(solved + ", " + unsolved)); !b.has(solved) {
		t.Fatal("the widget has failed")
	}
	b.picture("login-widget.png", 1280, 800, "light")
	b.picture("login-widget-320.png", 320, 640, "dark")
	if status := b.enter(password); status != http.StatusOK || !strings.Contains(b.text("main"), "Hello, ada") {
		t.Errorf("%d %q", status, b.text("main"))
	}
	b.picture("login-entered.png", 1280, 800, "light")
	if b.open(page + "/"); !strings.Contains(b.text("main"), "Hello, ada") {
		t.Errorf("a moment later: %q", b.text("main"))
	}
}

// Thirty addresses guess, and the name's owner notices nothing. Somebody else, or the owner on a new device, has to solve a challenge.
func TestTheOwnersDeviceIsLetInWhileTheNameIsAttacked(t *testing.T) {
	page, tidegate := start(t)
	b := browser{t, testenv.Browser(t, refusals...)}
	b.open(page)
	if status := b.login(owner, password); status != http.StatusOK {
		t.Fatalf("in peace: %d", status)
	}
	b.click("button") // log out

	var addresses []string
	for i := range 30 {
		addresses = append(addresses, fmt.Sprintf("198.51.100.%d", i+1))
	}
	report(t, tidegate, owner, addresses...)

	if a := newVisitor(t, page).login(owner, password, ""); a.status != http.StatusForbidden || !strings.Contains(a.body, "<altcha-widget") {
		t.Errorf("somebody else: %d %s", a.status, a.body)
	}
	if status := b.login(owner, password); status != http.StatusOK || !strings.Contains(b.text("main"), "Hello, ada") {
		t.Errorf("the owner: %d %q", status, b.text("main"))
	}
}

func TestWithoutJavaScriptThePageExplains(t *testing.T) {
	page, tidegate := start(t)
	report(t, tidegate, owner, "198.51.100.1", "198.51.100.2", "198.51.100.3")
	b := browser{t, testenv.Browser(t, refusals...)}
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(page)
	if status := b.login(owner, password); status != http.StatusForbidden {
		t.Errorf("status %d", status)
	}
	if text := b.text("main"); !strings.Contains(text, "needs JavaScript") {
		t.Errorf("%q", text)
	}
	b.picture("login-noscript.png", 1280, 800, "light")
}

// A browser is a person in front of one.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func (b browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func call[P, R any](b browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

func (b browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// login fills in the form, and returns the status of the page that comes of it.
func (b browser) login(name, password string) int64 {
	b.t.Helper()
	b.do(chromedp.SetValue("#name", name))
	return b.enter(password)
}

func (b browser) enter(password string) int64 {
	b.t.Helper()
	b.do(chromedp.SendKeys("#password", password))
	return b.click("form > button")
}

func (b browser) click(what string) int64 {
	b.t.Helper()
	resp, err := chromedp.RunResponse(b.ctx, chromedp.Click(what))
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.Status
}

func (b browser) has(what string) bool {
	b.t.Helper()
	has, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](fmt.Sprintf("document.querySelector(%q) !== null", what)))
	if err != nil {
		b.t.Fatal(err)
	}
	return has
}

func (b browser) text(of string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Text(of))
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

// picture keeps what the page looks like, in the folder of the variable ARTIFACTS. Nothing may stick out of the window.
func (b browser) picture(file string, width, height int64, scheme string) {
	b.t.Helper()
	folder := os.Getenv("ARTIFACTS")
	if folder == "" {
		folder = filepath.Join("..", "..", "artifacts")
	}
	b.do(chromedp.EmulateViewport(width, height))
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	wide, err := chromedp.Run(b.ctx, chromedp.Evaluate[int64]("document.documentElement.scrollWidth"))
	if err != nil || wide > width {
		b.t.Errorf("%s is %d wide in a window of %d, %v", file, wide, width, err)
	}
	if b.has("altcha-widget") { // its tick is drawn slowly
		settled := "Promise.all(document.getAnimations().map(a => a.finished)).then(() => true)"
		if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](settled, chromedp.EvalAwaitPromise)); err != nil {
			b.t.Fatal(err)
		}
	}
	image, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, file), image, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

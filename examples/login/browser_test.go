package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

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
	b := browser{testenv.NewTab(t, refusals...)}
	b.Open(page)
	b.Do(chromedp.SendKeys("#name", owner)) // once: the page keeps it
	for i := range 3 {
		if status := b.enter("wrong"); status != http.StatusUnauthorized {
			t.Fatalf("wrong password: %d", status)
		}
		if there := b.Has("altcha-widget"); there != (i == 2) {
			t.Fatalf("after %d wrong passwords the widget is there: %t", i+1, there)
		}
	}
	if b.Do(chromedp.WaitReady(solved + ", " + unsolved)); !b.Has(solved) {
		t.Fatal("the widget has failed")
	}
	b.Picture("login-widget.png", 1280, 800, "light")
	b.Picture("login-widget-320.png", 320, 640, "dark")
	if status := b.enter(password); status != http.StatusOK || !strings.Contains(b.Text("main"), "Hello, ada") {
		t.Errorf("%d %q", status, b.Text("main"))
	}
	b.Picture("login-entered.png", 1280, 800, "light")
	if b.Open(page + "/"); !strings.Contains(b.Text("main"), "Hello, ada") {
		t.Errorf("a moment later: %q", b.Text("main"))
	}
}

// Thirty addresses guess, and the name's owner is not affected. A new device, of the owner or of others, must solve a challenge.
func TestTheOwnersDeviceIsLetInWhileTheNameIsAttacked(t *testing.T) {
	page, tidegate := start(t)
	b := browser{testenv.NewTab(t, refusals...)}
	b.Open(page)
	if status := b.login(owner, password); status != http.StatusOK {
		t.Fatalf("in peace: %d", status)
	}
	b.Follow("button") // log out

	var addresses []string
	for i := range 30 {
		addresses = append(addresses, fmt.Sprintf("198.51.100.%d", i+1))
	}
	report(t, tidegate, owner, addresses...)

	if a := newVisitor(t, page).login(owner, password, ""); a.status != http.StatusForbidden || !strings.Contains(a.body, "<altcha-widget") {
		t.Errorf("somebody else: %d %s", a.status, a.body)
	}
	if status := b.login(owner, password); status != http.StatusOK || !strings.Contains(b.Text("main"), "Hello, ada") {
		t.Errorf("the owner: %d %q", status, b.Text("main"))
	}
}

func TestWithoutJavaScriptThePageExplains(t *testing.T) {
	page, tidegate := start(t)
	report(t, tidegate, owner, "198.51.100.1", "198.51.100.2", "198.51.100.3")
	b := browser{testenv.NewTab(t, refusals...)}
	testenv.Command(b.Tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.Open(page)
	if status := b.login(owner, password); status != http.StatusForbidden {
		t.Errorf("status %d", status)
	}
	if text := b.Text("main"); !strings.Contains(text, "needs JavaScript") {
		t.Errorf("%q", text)
	}
	b.Picture("login-noscript.png", 1280, 800, "light")
}

// A browser is a person in front of one, at our page.
type browser struct{ testenv.Tab }

// login fills in the form, and returns the status of the page that comes of it.
func (b browser) login(name, password string) int64 {
	b.Do(chromedp.SetValue("#name", name))
	return b.enter(password)
}

func (b browser) enter(password string) int64 {
	b.Do(chromedp.SendKeys("#password", password))
	return b.Follow("form > button")
}

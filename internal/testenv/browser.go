package testenv

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browserTimeout bounds a test with a browser. It is long enough that only a hanging test reaches it.
const browserTimeout = 2 * time.Minute

// Insecure is another name of this machine, for browsers only. Its pages have no secure context, unlike those of 127.0.0.1.
const Insecure = "shop.test"

// Browser starts a headless Chromium with an empty profile, and returns a chromedp context for one tab. The browser can only connect to
// this machine. The test fails at its end if a page reported an error: console errors, uncaught exceptions, violations of its
// Content-Security-Policy and failed resources, except for messages that contain one of allowed.
func Browser(t testing.TB, allowed ...string) context.Context {
	t.Helper()
	path, err := findBinary("chromium")
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	dir, err := tempDir("browser")
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // files still being written are removed with the other data

	ctx, cancel := context.WithTimeout(context.Background(), browserTimeout)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx,
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("host-resolver-rules", "MAP "+Insecure+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
	)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("testenv: start chromium: %v", err)
	}

	var complaints []string
	read := make(chan struct{})
	messages := chromedp.Console(ctx)
	go func() {
		defer close(read)
		for m, err := range messages {
			if err != nil || m.Text == lastMessage {
				return
			}
			if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleException {
				complaints = append(complaints, m.String()+" "+m.URL)
			}
		}
	}()
	t.Cleanup(func() {
		// All earlier messages have been received when this one arrives.
		if err := chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](`console.debug("`+lastMessage+`")`)); err != nil {
			t.Errorf("testenv: end chromium: %v", err)
			closeTab()
		}
		<-read
		for _, c := range complaints {
			if !slices.ContainsFunc(allowed, func(a string) bool { return strings.Contains(c, a) }) {
				t.Errorf("the page logged an error: %s", c)
			}
		}
		ending, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_ = chromedp.Cancel(ending) // kills what is left of it
	})
	return ctx
}

const lastMessage = "testenv: the test is over"

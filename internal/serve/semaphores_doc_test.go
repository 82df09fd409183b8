package serve

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// cappedScript writes the script of docs/semaphores.md to a file.
func cappedScript(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/semaphores.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(doc), "```sh\n#!")
	block, _, ok := strings.Cut(block, "\n```")
	if !ok {
		t.Fatal("docs/semaphores.md has no script")
	}
	path := filepath.Join(t.TempDir(), "capped")
	if err := os.WriteFile(path, []byte("#!"+block+"\n"), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	return path
}

// A run is a running script.
type run struct {
	*exec.Cmd
	said   *bufio.Scanner // its standard output, by line
	errors bytes.Buffer
}

func scriptCommand(t *testing.T, api, script string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{script}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TIDEGATE=" + api, "TOKEN=" + tokenOf("bob"), "no_proxy=*"}
	return cmd
}

func startScript(t *testing.T, api, script string, args ...string) *run {
	t.Helper()
	r := &run{Cmd: scriptCommand(t, api, script, args...)}
	r.WaitDelay = 10 * time.Second // remaining processes are found by other means
	r.Stderr = &r.errors
	pipe, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.said = bufio.NewScanner(pipe)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// stopped sends SIGTERM and waits for the end.
func (r *run) stopped(t *testing.T) {
	t.Helper()
	if err := r.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err == nil || r.ProcessState.ExitCode() != 143 {
		t.Errorf("%v %s", err, &r.errors)
	}
}

// line waits for the next line.
func (r *run) line(t *testing.T) string {
	t.Helper()
	if !r.said.Scan() {
		t.Fatalf("it has ended: %v %s", r.said.Err(), &r.errors)
	}
	return r.said.Text()
}

// TestLinesOfTheDocs: the three lines of docs/semaphores.md do the work with a permit, release it, and do nothing without one.
func TestLinesOfTheDocs(t *testing.T) {
	t.Parallel()
	env, _ := cappedEnv(t, testenv.Redis(t), "report: {limit: 1, lease: 1m}, full: {limit: 0, lease: 1m}")
	c := startCapped(t, env)
	lines := servetest.Commands(t, "../../docs/semaphores.md", "## Over HTTP")
	do := func(semaphore string) string {
		t.Helper()
		script := strings.NewReplacer("http://127.0.0.1:8081", c.URL("internal"), "./make-report", "echo made", "/report/", "/"+semaphore+"/", "30000", "1").Replace(lines)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TOKEN=" + tokenOf("bob"), "no_proxy=*"}
		out, _ := cmd.CombinedOutput() // curl fails without a permit
		return string(out)
	}
	for range 2 { // so the first has released its permit
		if out := do("report"); out != "made\n" {
			t.Errorf("it printed %q", out)
		}
	}
	if out := do("full"); strings.Contains(out, "made") || !strings.Contains(out, "returned error") {
		t.Errorf("without a permit it printed %q", out)
	}
}

// TestScriptOfTheDocs: the script of docs/semaphores.md runs one at a time, renews its permit for longer than a lease, releases
// it however it ends, and ends when the permit is lost.
func TestScriptOfTheDocs(t *testing.T) {
	t.Parallel()
	script := cappedScript(t)
	env, _ := cappedEnv(t, testenv.Redis(t), "one: {limit: 1, lease: 1m}, renewed: {limit: 1, lease: 9s}, ended: {limit: 1, lease: 6s}, queued: {limit: 1, lease: 1m}, "+
		"deaf: {limit: 1, lease: 3s}, lost: {limit: 1, lease: 3s}, slow: {limit: 1, lease: 1m}, short: {limit: 1, lease: 2s}")
	server := startCapped(t, env)
	api := server.URL("internal")
	of := func(t *testing.T) capped {
		c := server
		c.t = t
		return c
	}

	t.Run("one at a time", func(t *testing.T) {
		t.Parallel()
		c := of(t)
		dir := filepath.Join(t.TempDir(), "working")
		var fences []string
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 4 {
			r := startScript(t, api, script, "one", "sh", "-c", `mkdir "$0" && echo "$FENCING_TOKEN" && rmdir "$0"`, dir)
			wg.Go(func() {
				for r.said.Scan() {
					mu.Lock()
					fences = append(fences, r.said.Text())
					mu.Unlock()
				}
				if err := r.Wait(); err != nil {
					t.Errorf("%v %s", err, &r.errors)
				}
			})
		}
		wg.Wait()
		last := 0
		for _, f := range fences {
			n, err := strconv.Atoi(f)
			if err != nil || n == 0 {
				t.Errorf("fencing token %q", f)
			}
			last = max(last, n)
		}
		if len(fences) != 4 || last == 0 {
			t.Errorf("%v", fences)
		}
		if s := c.standing("one"); s.InUse != 0 || s.Totals.Granted != 4 {
			t.Errorf("%+v", s)
		}
	})

	t.Run("renewed", func(t *testing.T) {
		t.Parallel()
		c := of(t)
		address, err := url.Parse(api)
		if err != nil {
			t.Fatal(err)
		}
		forward := httputil.NewSingleHostReverseProxy(address)
		var renewals atomic.Int64
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && renewals.Add(1) == 1 { // the script asks again before the lease ends
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			forward.ServeHTTP(w, r)
		}))
		defer proxy.Close()
		r := startScript(t, proxy.URL, script, "renewed", "sh", "-c", "echo begun; sleep 11; echo done; exit 3")
		r.line(t)
		since := c.standing("renewed").Holders[0].Since
		if got := r.line(t); got != "done" {
			t.Errorf("%q", got)
		}
		if err := r.Wait(); err == nil || r.ProcessState.ExitCode() != 3 {
			t.Errorf("%v, want the status of the command: %s", err, &r.errors)
		}
		if s := c.standing("renewed"); s.InUse != 0 {
			t.Errorf("%+v of %v", s, since)
		}
		if lost := regexp.MustCompile("lost").FindString(r.errors.String()); lost != "" {
			t.Errorf("%s", &r.errors)
		}
	})

	t.Run("told to end", func(t *testing.T) {
		t.Parallel()
		c := of(t)
		// The grandchild takes longer than a lease, and no other holder gets a permit meanwhile.
		grandchild := `trap 'echo ending; sleep 7; mkdir "$0"; exit' TERM; echo begun; while :; do sleep 0.1; done`
		ended := filepath.Join(t.TempDir(), "ended")
		r := startScript(t, api, script, "ended", "sh", "-c", `sh -c "$0" "$1" & wait`, grandchild, ended)
		r.line(t)
		next := startScript(t, api, script, "ended", "sh", "-c", `ls -d "$0"`, ended)
		c.until("ended", func(s standing) bool { return s.Waiting == 1 })
		r.stopped(t)
		if got := next.line(t); got != ended {
			t.Errorf("%q", got)
		}
		if err := next.Wait(); err != nil {
			t.Errorf("the permit was released first: %v %s", err, &next.errors)
		}
	})

	t.Run("told to end in the queue", func(t *testing.T) {
		t.Parallel()
		c := of(t)
		holder := startScript(t, api, script, "queued", "sh", "-c", "echo begun; sleep 60")
		holder.line(t)
		r := startScript(t, api, script, "queued", "true")
		c.until("queued", func(s standing) bool { return s.Waiting == 1 })
		r.stopped(t)
		c.until("queued", func(s standing) bool { return s.Waiting == 0 })
		holder.stopped(t)
		if s := c.standing("queued"); s.InUse != 0 {
			t.Errorf("the permit was not released: %+v", s)
		}
	})

	t.Run("in a pipe", func(t *testing.T) {
		t.Parallel()
		cmd := scriptCommand(t, api, script, "slow", "sh", "-c", "cat; echo to both >&2; exit 7")
		var out bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("from the input\n"), &out, &out
		cmd.WaitDelay = 5 * time.Second // longer than a renewal, after which nothing may hold its output
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 7 || errors.Is(err, exec.ErrWaitDelay) {
			t.Errorf("%v", err)
		}
		if got := out.String(); got != "from the input\nto both\n" {
			t.Errorf("%q", got)
		}
	})

	t.Run("deaf", func(t *testing.T) {
		t.Parallel()
		c := of(t)
		r := startScript(t, api, script, "deaf", "sh", "-c", `trap '' TERM; echo begun; while :; do sleep 0.1; done`)
		r.line(t)
		r.stopped(t)
		if s := c.standing("deaf"); s.InUse != 0 {
			t.Errorf("the permit was not released: %+v", s)
		}
	})

	t.Run("too short a lease", func(t *testing.T) {
		t.Parallel()
		r := startScript(t, api, script, "short", "true")
		if err := r.Wait(); err == nil || !strings.Contains(r.errors.String(), "too short") {
			t.Errorf("%v %s", err, &r.errors)
		}
	})

	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		c := of(t)
		r := startScript(t, api, script, "lost", "sh", "-c", "echo begun; exec sleep 60")
		r.line(t)
		c.want(http.StatusNoContent, "DELETE", "/lost/permits/"+c.standing("lost").Holders[0].PermitID, "")
		if err := r.Wait(); err == nil || !strings.Contains(r.errors.String(), "the permit is lost") {
			t.Errorf("%v %s", err, &r.errors)
		}
	})

	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		r := startScript(t, api, script, "none", "true")
		if err := r.Wait(); err == nil || !strings.Contains(r.errors.String(), "unknown_semaphore") {
			t.Errorf("%v %s", err, &r.errors)
		}
	})
}

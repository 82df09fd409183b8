package servetest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// ReadmeCalls runs the commands of the README's section "Call it" against the listeners of a running server, and checks what they print.
func ReadmeCalls(t *testing.T, readme, public, internal string) {
	t.Helper()
	parts := strings.Split(Commands(t, readme, "## Call it"), "\n\n")
	if len(parts) != 8 {
		t.Fatalf("%d parts, want the variables, the sale, the order, a look at it, payment, feed, verify, and a decision:\n%s", len(parts), parts)
	}
	setup := strings.NewReplacer("http://127.0.0.1:8081", internal, "http://127.0.0.1:8080", public).Replace(parts[0])
	sale, order, look, pay, feed, verify, admit := parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], parts[7]
	var id string
	for _, step := range []struct {
		what, script string
		statuses     []string
		want         []string
	}{
		{"the sale", sale, []string{"201", "200"}, []string{`"state":"open"`}},
		{"the order", order, []string{"202"}, []string{`"order_id":"`}},
		{"the same again", order, []string{"202"}, []string{"Idempotency-Replayed: true", "ORDER_ID"}},
		{"what became of it", look, []string{"200"}, []string{`"status":"confirmed"`, "ORDER_ID"}},
		{"its payment", pay, []string{"200"}, []string{`"status":"paid","action":"none"`}},
		{"the feed", feed, []string{"200"}, []string{`"status":"confirmed"`, `"status":"paid"`, "ORDER_ID", `"next_cursor":"`}},
		{"verify", verify, []string{"200"}, []string{`"ok":true,"checks"`}},
		{"a decision", admit, []string{"200"}, []string{`"admitted":true`, `"rule":"orders"`}},
	} {
		script := setup + "\n" + strings.ReplaceAll(step.script, "ORDER_ID", id)
		out := Bash(t, script)
		repeated := false
		for start := time.Now(); late.MatchString(out) && time.Since(start) < 20*time.Second; repeated = true {
			out = Bash(t, script)
		}
		if found := orderID.FindStringSubmatch(out); id == "" && found != nil {
			id = found[1]
		}
		var statuses []string
		for _, s := range status.FindAllStringSubmatch(out, -1) {
			statuses = append(statuses, s[1])
		}
		if repeated && statuses[0] == "200" && step.statuses[0] == "201" { // the call that came too late has made it
			statuses[0] = "201"
		}
		if !slices.Equal(statuses, step.statuses) {
			t.Fatalf("%s: statuses %v, want %v:\n%s", step.what, statuses, step.statuses, out)
		}
		for _, want := range step.want {
			if !strings.Contains(out, strings.ReplaceAll(want, "ORDER_ID", id)) {
				t.Fatalf("%s: no %s in:\n%s", step.what, want, out)
			}
		}
	}
}

var (
	orderID = regexp.MustCompile(`"order_id":"([^"]+)"`)
	status  = regexp.MustCompile(`(?m)^status (\d+)$`)
	late    = regexp.MustCompile(`(?m)^status 503$|"degraded":true`) // on a machine too busy to answer in time
)

// Commands returns the first shell commands below a heading of a page.
func Commands(t *testing.T, path, heading string) string {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n"+heading+"\n")
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, ok := strings.Cut(block, "\n```")
	if !ok {
		t.Fatalf("%s has no shell commands below %q", path, heading)
	}
	return block
}

// Bash runs a script in which every curl also prints its status.
func Bash(t *testing.T, script string) string {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".curlrc"),
		[]byte("silent\nshow-error\nnoproxy = *\nmax-time = 30\nwrite-out = \"\\nstatus %{http_code}\\n\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CURL_HOME=" + home}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v:\n%s\n%s", err, script, &out)
	}
	return out.String()
}

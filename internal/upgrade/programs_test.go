//go:build upgrade

package upgrade

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// build compiles cmd/api and cmd/worker of a commit, and returns their folder.
func build(t *testing.T, commit string) string {
	t.Helper()
	root := strings.TrimSpace(run(t, ".", "git", "rev-parse", "--show-toplevel"))
	if _, err := command(root, "git", "rev-parse", "--verify", "--quiet", commit+"^{commit}"); err != nil {
		t.Fatalf("OLD must be a commit of this repository, got %q; a shallow clone lacks it until git fetch --unshallow --tags", commit)
	}
	source, bin := filepath.Join(t.TempDir(), "source"), t.TempDir()
	run(t, root, "git", "worktree", "add", "--detach", source, commit)
	t.Cleanup(func() { run(t, root, "git", "worktree", "remove", "--force", source) })
	// Without paths in them, packages that were compiled once are in the cache next time.
	run(t, source, "go", "build", "-trimpath", "-o", bin, "./cmd/api", "./cmd/worker")
	return bin
}

func run(t *testing.T, dir string, words ...string) string {
	t.Helper()
	out, err := command(dir, words...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return out
}

func command(dir string, words ...string) (string, error) {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// process is an API or a worker that keeps its addresses when another version replaces it.
type process struct {
	name    string // of the program
	env     []string
	ready   []string // URLs that answer 200 then
	program *servetest.Program
	output  string // of the versions that ended
}

func newAPI(common []string) (p *process, public, internal string) {
	public, internal = freeAddr(), freeAddr()
	env := append([]string{"LISTEN=" + public, "INTERNAL_LISTEN=" + internal}, common...)
	// readyz of older APIs answers before the public listener does.
	ready := []string{"http://" + internal + "/readyz", "http://" + public + "/livez"}
	return &process{name: "api", env: env, ready: ready}, "http://" + public, "http://" + internal
}

func newWorker(common []string) *process {
	probes := freeAddr()
	return &process{name: "worker", env: append([]string{"WORKER_LISTEN=" + probes}, common...), ready: []string{"http://" + probes + "/readyz"}}
}

// start starts the program of the folder, and waits until it is ready.
func (p *process) start(t testing.TB, bin string) {
	t.Helper()
	p.program = servetest.Exec(t, filepath.Join(bin, p.name), p.env...)
	for _, url := range p.ready {
		servetest.Until(t, 200, func() servetest.Answer { return servetest.Once("GET", url, "") })
	}
}

// replace ends the process as SIGTERM does, and starts the program of the folder in its place.
func (p *process) replace(t testing.TB, bin string) {
	t.Helper()
	if err := p.program.Stop(); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
	p.output += p.program.Output()
	p.start(t, bin)
}

func freeAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(testenv.FreePort())) }

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

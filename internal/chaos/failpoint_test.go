package chaos

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNormalBuildsHaveNoFailpoints: a normal build contains neither the calls nor the names of failpoints.
func TestNormalBuildsHaveNoFailpoints(t *testing.T) {
	for _, c := range []struct {
		args []string
		has  bool
	}{
		{nil, false},
		{[]string{"-tags", "failpoints"}, true},
	} {
		program := filepath.Join(t.TempDir(), "worker")
		args := append([]string{"build", "-o", program}, c.args...)
		if out, err := exec.CommandContext(t.Context(), "go", append(args, "github.com/tidegate/tidegate/cmd/worker")...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		content, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"failpoint.Hit", "failpoint.Step", "between_statements", "before_ack", "leader_raises", "leader_opened", "FAILPOINT_DIR"} {
			if bytes.Contains(content, []byte(text)) != c.has {
				t.Errorf("go %v: %q in the program: %v", args, text, !c.has)
			}
		}
	}
}

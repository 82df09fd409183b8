package chaos

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
)

// TestNormalBuildsHaveNoFailpoints: a normal build contains neither the calls nor the names of failpoints.
func TestNormalBuildsHaveNoFailpoints(t *testing.T) {
	failpoints, err := programs(t.Context(), t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	for dir, has := range map[string]bool{testenv.Programs(t): false, failpoints: true} {
		content, err := os.ReadFile(filepath.Join(dir, "worker"))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"failpoint.Hit", "failpoint.Step", "between_statements", "before_ack", "leader_raises", "leader_opened", "FAILPOINT_DIR"} {
			if bytes.Contains(content, []byte(text)) != has {
				t.Errorf("%s: %q in the program: %v", dir, text, !has)
			}
		}
	}
}

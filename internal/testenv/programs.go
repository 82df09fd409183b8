package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

var sharedPrograms lazy[string]

// Programs compiles cmd/api and cmd/worker, once in a test binary, and returns their folder. If PROGRAMS is set, as make test does, they
// are there already, and in its folder failpoints with the build tag of that name.
func Programs(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("PROGRAMS"); dir != "" {
		return dir
	}
	return sharedPrograms.get(t, func() (string, error) {
		dir, err := os.MkdirTemp("", "tidegate-programs-") // not in memory, where programs may not be executable
		if err != nil {
			return "", err
		}
		//nolint:noctx // for all tests, not for the first one
		cmd := exec.Command("go", "build", "-o", dir, "github.com/tidegate/tidegate/cmd/api", "github.com/tidegate/tidegate/cmd/worker")
		if out, err := cmd.CombinedOutput(); err != nil {
			_ = os.RemoveAll(dir)
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		return dir, nil
	})
}

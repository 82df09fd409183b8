package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs returns a folder with the programs, with failpoints: that of make test, or dir after a build. If clocks is set,
// CLOCK_FILE shifts their clock; that takes a compilation of everything, also of the standard library.
func programs(ctx context.Context, dir string, clocks bool) (string, error) {
	if built := os.Getenv("PROGRAMS"); built != "" && !clocks { // see testenv.Programs
		return filepath.Join(built, "failpoints"), nil
	}
	return dir, build(ctx, dir, clocks)
}

func build(ctx context.Context, dir string, clocks bool) error {
	args := []string{"build", "-tags", "failpoints", "-o", dir}
	if clocks {
		overlay, err := shiftedClock(ctx, dir)
		if err != nil {
			return fmt.Errorf("build: %w", err)
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/tidegate/tidegate/cmd/api", "github.com/tidegate/tidegate/cmd/worker")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// shiftedClock writes an overlay for the compiler in which time.Now is shifted by the whole seconds in CLOCK_FILE, also when they change, so
// that the product's code needs no support for wrong clocks. Only the wall clock is shifted, as on a real machine; the monotonic one is not.
func shiftedClock(ctx context.Context, dir string) (overlay string, err error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for _, change := range [][2]string{
		{"\t\"math/bits\"\n\t_ \"unsafe\"", "\t\"math/bits\"\n\t\"sync/atomic\"\n\t\"syscall\"\n\t\"unsafe\""},
		{"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n\tsec += atomic.LoadInt64(clockShift)\n"},
	} {
		if !bytes.Contains(source, []byte(change[0])) {
			return "", errors.New("unknown time.Now of this Go version; update the overlay")
		}
		source = bytes.Replace(source, []byte(change[0]), []byte(change[1]), 1)
	}
	source = append(source, clockSource...)
	shifted := filepath.Join(dir, "time.go")
	if err := os.WriteFile(shifted, source, 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: shifted}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// clockSource declares clockShift: the file, mapped into memory: 8 bytes in the byte order of the machine. It must not use packages that import time.
const clockSource = `
var clockShift = func() *int64 {
	name, is := syscall.Getenv("CLOCK_FILE")
	if !is {
		return new(int64)
	}
	fd, err := syscall.Open(name, syscall.O_RDONLY, 0)
	if err != nil {
		panic("CLOCK_FILE: " + err.Error())
	}
	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("CLOCK_FILE: " + err.Error())
	}
	return (*int64)(unsafe.Pointer(&page[0]))
}()
`

package enforce

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

const (
	scriptPath   = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	scriptOutput = 1 << 10         // bytes of it that are kept for the log
	lettingGo    = time.Second     // for the output of a program that has ended or was killed
	scriptWithin = 5 * time.Second // for one run
)

// errSlow is the error of a program that was killed because it took too long.
var errSlow = errors.New("enforce: the program did not end in time and was killed")

// execute runs a program with nothing of ours: no shell, no environment but a PATH, no input, its folder is the root. The error says how
// its output began. Its whole process group is killed when it takes longer than within, when ctx ends, or when it ends and leaves
// somebody behind who holds its output.
func execute(ctx context.Context, within time.Duration, argv []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errSlow)
	defer cancel()
	var out head
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = []string{scriptPath}, "/"
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = lettingGo
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever is left of the group
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%w; it wrote %q", err, out.text)
}

// A head keeps the beginning of what is written, and lets the rest go.
type head struct{ text []byte }

func (t *head) Write(p []byte) (int, error) {
	t.text = append(t.text, p[:min(len(p), scriptOutput-len(t.text))]...)
	return len(p), nil
}

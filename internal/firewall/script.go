package firewall

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/tidegate/tidegate/internal/processgroup"
)

const (
	scriptPath   = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	scriptOutput = 1 << 10         // bytes of its output kept for the log
	lettingGo    = time.Second     // wait for the output of a program that has ended or was killed
	scriptWithin = 5 * time.Second // for one run
)

// errSlow is the error of a program that was killed after a timeout.
var errSlow = errors.New("firewall: the program did not end in time and was killed")

// execute runs a program in isolation: no shell, no environment except PATH, no input, the root as its directory. The error contains the
// start of its output. Its whole process group is killed after the time within, when ctx ends, or when it ends but leaves a process that
// holds its output.
func execute(ctx context.Context, within time.Duration, argv []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errSlow)
	defer cancel()
	var out head
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = []string{scriptPath}, "/"
	cmd.Stdout, cmd.Stderr = &out, &out
	processgroup.Begin(cmd)
	cmd.Cancel = func() error { return processgroup.Kill(cmd) }
	cmd.WaitDelay = lettingGo
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = processgroup.Kill(cmd) // the remaining processes of the group
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%w; it wrote %q", err, out.text)
}

// A head keeps the beginning of what is written, and discards the rest.
type head struct{ text []byte }

func (t *head) Write(p []byte) (int, error) {
	t.text = append(t.text, p[:min(len(p), scriptOutput-len(t.text))]...)
	return len(p), nil
}

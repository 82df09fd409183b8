//go:build !unix

package processgroup

import "os/exec"

// Supported reports whether the system has process groups. Without them only the command itself is ended.
const Supported = false

func Begin(*exec.Cmd) {}

func Terminate(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func Kill(cmd *exec.Cmd) error { return cmd.Process.Kill() }

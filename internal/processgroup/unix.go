//go:build unix

// Package processgroup ends a command together with the processes that it has started.
package processgroup

import (
	"os/exec"
	"syscall"
)

// Supported reports whether the system has process groups.
const Supported = true

// Begin makes a command that is not started yet the leader of a group of its own.
func Begin(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Terminate asks the group of a command to end.
func Terminate(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// Kill ends what remains of the group of a command, which itself may have ended.
func Kill(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

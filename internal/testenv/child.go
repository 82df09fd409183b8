package testenv

import (
	"fmt"
	"os/exec"
	"syscall"
)

// StartChild starts a process that does not outlive the test process. It has its own process group, so that an interrupt from the
// terminal only reaches the tests, which stop it.
func StartChild(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return keeper.run(cmd.Start)
}

// FreePort returns a free loopback port that is not used for outgoing connections.
func FreePort() int { return freePort() }

// FreeAddr returns the address of a FreePort.
func FreeAddr() string { return fmt.Sprintf("127.0.0.1:%d", freePort()) }

package testenv

import (
	"os/exec"
	"syscall"
)

// StartChild starts a process that does not outlive the test process, however that ends. Its group is its own: the interrupt key is
// for the tests, which end it.
func StartChild(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return keeper.run(cmd.Start)
}

// FreePort is a port of the loopback that nobody has just now, and that no outgoing connection will take.
func FreePort() int { return freePort() }

package exec

import (
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// forkHelper executes this binary again as name, with the socket theirs, which it closes. attr comes with what differs.
func forkHelper(name string, theirs int, files [3]uintptr, sys *syscall.SysProcAttr) (pid int, err error) {
	self.mu.Lock()
	defer self.mu.Unlock()
	defer unix.Close(theirs)
	exe, err := executable()
	if err != nil {
		return 0, fmt.Errorf("exec: start %s: %w", name, err)
	}
	if err := inheritable(theirs, true); err != nil {
		return 0, fmt.Errorf("exec: start %s: %w", name, err)
	}
	pid, err = syscall.ForkExec(exe, []string{name, strconv.Itoa(theirs)}, &syscall.ProcAttr{
		Env:   helperEnv(),
		Files: files[:],
		Sys:   sys,
	})
	if err != nil {
		return 0, fmt.Errorf("exec: start %s: %w", name, err)
	}
	if name == sentinelName {
		self.addHelper(pid)
	}
	return pid, nil
}

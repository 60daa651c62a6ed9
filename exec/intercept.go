package exec

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// init takes over in a process that was executed as guard or sentinel, before the other packages of the program are
// initialised: that halves the time until the guard is ready. The goroutine of init is locked to the main thread, so a
// child forked here has a parent-death signal that fires when this process ends and not before. ARCHITECTURE.md G2.
func init() {
	if len(os.Args) != 2 {
		return
	}
	var role func(fd int) *CrashReport
	switch os.Args[0] {
	case guardName:
		role = guardMain
	case sentinelName:
		role = sentinelMain
	default:
		return
	}
	fd, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return
	}
	if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return // somebody's link to us that is called so
	}
	if err := inheritable(fd, false); err != nil {
		return
	}
	self.crashed = role(fd)
	if self.crashed == nil {
		os.Exit(0)
	}
}

// Crashed returns what this process, a guard until now, has to hand back, or nil in every other process. To be asked
// first thing in main. The standard input and output are /dev/null then, so that whoever reads from the child's pipes
// sees their end; HUP, INT, TERM and QUIT have no effect: hand back within a time-out, and exit.
func Crashed() *CrashReport { return self.crashed }

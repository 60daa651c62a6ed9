package exec

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// DieBy ends this process as the child ended: by the signal itself, since only that stops a shell script at Ctrl-C, and
// since who waits for us reads "killed by 2" as it would without us. Where that cannot be (we are process 1 of a
// namespace, whom no signal of its own kills) or would dump core, it exits with 128 + sig, which is what $? is either
// way. It does not return, and runs no deferred calls. ARCHITECTURE.md G13.
func DieBy(sig unix.Signal) {
	if os.Getpid() != 1 && harmless(sig) {
		signal.Reset(sig)
		defaultAction(sig)
		_ = unix.Kill(os.Getpid(), sig)
		time.Sleep(100 * time.Millisecond) // it may be delivered to another thread, or be blocked since before us
	}
	os.Exit(128 + int(sig))
}

// harmless reports whether the default effect of a signal is to end the process without a core dump.
func harmless(sig unix.Signal) bool {
	switch sig {
	case unix.SIGHUP, unix.SIGINT, unix.SIGKILL, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM,
		unix.SIGVTALRM, unix.SIGPROF:
		return true
	}
	return false
}

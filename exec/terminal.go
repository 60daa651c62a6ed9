package exec

import (
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// hasTerminal reports whether there is a controlling terminal, whatever the standard descriptors are.
func hasTerminal() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// foreground reports whether our process group is the one that the terminal talks to.
func foreground(tty int) bool {
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && int32(group) == int32(unix.Getpgrp())
}

// Terminal is the state of the controlling terminal at the start: a child that is killed in raw mode leaves it
// unusable. ARCHITECTURE.md G14. A nil Terminal has nothing to restore.
type Terminal struct {
	fd    int
	saved *unix.Termios
}

// SaveTerminal reads the terminal's state, if there is a controlling terminal and we are in its foreground, or returns
// nil. To be called before the child is started.
func SaveTerminal() *Terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	saved, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil || !foreground(fd) {
		unix.Close(fd)
		return nil
	}
	return &Terminal{fd, saved}
}

// Restore puts the state back if it has changed and we are in the foreground. To be called once, after Gone, when the
// child did not end by itself; it frees the Terminal. It waits for pending output, for at most a second: the person may
// have stopped it with Ctrl-S.
func (t *Terminal) Restore() {
	if t == nil {
		return
	}
	defer unix.Close(t.fd)
	now, err := unix.IoctlGetTermios(t.fd, getTermios)
	if err != nil || *now == *t.saved || !foreground(t.fd) {
		return
	}
	// Between the look and the call we may become a background process. Ignored only here: whoever is started while it
	// is would inherit that.
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = unix.IoctlSetTermios(t.fd, setTermiosDrained, t.saved)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
		_ = unix.IoctlSetTermios(t.fd, setTermios, t.saved)
	}
}

// Discard frees a Terminal that need not be restored.
func (t *Terminal) Discard() {
	if t != nil {
		unix.Close(t.fd)
	}
}

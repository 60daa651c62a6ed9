//go:build !linux

package exec

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

// marker is above the signals that the sentinel watches, but for USR1 and USR2. A terminal sends it too when its size
// changes; then the sentinel answers too early, at worst.
const marker = unix.SIGWINCH

func executable() (string, error) { return os.Executable() }

// No child subreapers here: an orphan goes to init, out of reach (see tree).
func adopt() error { return nil }

func checkProc() error { return nil }

func children() []int { return nil }

func guardAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func sentinelAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// No parent-death signal here: when the guard is killed, leaderrun kills the child.
func childAttr(group int, pidfd *int) *syscall.SysProcAttr {
	*pidfd = -1
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}

func asHelper(string, unix.Signal) {}

// alarm is the time-out of the poll, on the runtime's monotonic clock.
type alarm struct {
	fd int
	at *boottime.Time
}

func newAlarm() (alarm, error) { return alarm{-1, new(boottime.Time)}, nil }

func (a alarm) set(at boottime.Time) { *a.at = at }

// wait polls the descriptors until the alarm, and for at most limit; a negative limit is none. To the millisecond.
func (a alarm) wait(fds []unix.PollFd, limit time.Duration) {
	if !a.at.IsZero() {
		if left := max(a.at.Sub(boottime.Now()), 0); limit < 0 || left < limit {
			limit = left
		}
	}
	ms := -1
	if limit >= 0 {
		ms = int((limit + time.Millisecond - 1) / time.Millisecond)
	}
	_, _ = unix.Poll(fds, ms)
}

// letGo releases the standard input and output, which belong to the child's world.
func letGo() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	for fd := range 2 {
		_ = unix.Dup2(int(null.Fd()), fd)
	}
}

// closeInherited does nothing: there is no list of them, and the sentinel holding one does little harm.
func closeInherited(int) {}

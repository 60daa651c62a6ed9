package exec

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

// marker is a signal that nobody else sends, above those that the sentinel watches.
const marker = unix.Signal(60)

// executable is what a helper executes. The link works also when the binary was replaced or removed since.
func executable() (string, error) { return "/proc/self/exe", nil }

// adopt makes this process the one that inherits every orphan below it.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("exec: PR_SET_CHILD_SUBREAPER: %w", err)
	}
	return nil
}

// checkProc refuses to work without the /proc of our own PID namespace: the numbers that a walk finds in another one
// are other processes here.
func checkProc() error {
	link, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("exec: /proc is needed to find the processes of the command, mount it: %w", err)
	}
	if link != strconv.Itoa(os.Getpid()) {
		return errors.New("exec: /proc belongs to another PID namespace: mount one for this (unshare --mount-proc)")
	}
	return nil
}

// children lists the direct children of this process.
func children() []int {
	var w walker
	return w.children(os.Getpid())
}

// guardAttr gives the guard a process group of its own, in our session: with ours, "kill -9 %1" would take both; with a
// session of its own it could not put the child into our group. The parent-death signal is SIGCONT and not SIGKILL: the
// guard has to survive our death, and to notice it also when it was stopped. ARCHITECTURE.md G1, G3.
func guardAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGCONT}
}

// sentinelAttr leaves the sentinel in our group. It has nothing to do without us, be it stopped.
func sentinelAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
}

// childAttr is for the child: it dies with the guard's main thread, which is the guard. group 0 is a group of its own.
// The descriptor stored in pidfd tells when it ended, -1 where the kernel has none.
func childAttr(group int, pidfd *int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group, Pdeathsig: unix.SIGKILL, PidFD: pidfd}
}

// asHelper names this process. Parent-death signals do not outlive the exec of a binary with capabilities, so it is set
// once more.
func asHelper(name string, parentDeath unix.Signal) {
	text := append([]byte(name), 0)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&text[0])), 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(parentDeath), 0, 0, 0)
}

// alarm is a descriptor that is readable once an instant on the boot clock has passed.
type alarm struct{ fd int }

func newAlarm() (alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return alarm{}, fmt.Errorf("exec: timerfd: %w", err)
	}
	return alarm{fd}, nil
}

// set arms the alarm; the zero Time disarms it. Setting it makes it unreadable until the instant has passed.
func (a alarm) set(at boottime.Time) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 0)))}
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic("exec: timerfd_settime: " + err.Error()) // our own arguments were wrong
	}
}

// wait polls the descriptors, the alarm among them, for at most limit; a negative limit is none.
func (a alarm) wait(fds []unix.PollFd, limit time.Duration) {
	var ts *unix.Timespec
	if limit >= 0 {
		t := unix.NsecToTimespec(int64(limit))
		ts = &t
	}
	_, _ = unix.Ppoll(fds, ts, nil) // EINTR: the caller looks at everything anyway
}

// letGo releases what belongs to the child's world, but for the standard error output.
func letGo() {
	closeInherited(-1)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(null)
	for fd := range 2 {
		_ = unix.Dup3(null, fd, 0)
	}
}

// closeInherited closes the descriptors above 2 that came through exec, but for keep.
func closeInherited(keep int) {
	for _, name := range names("/proc/self/fd") {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 || fd == keep {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

package exec

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

// kernelTimer sends this process a signal at an instant, also when the process is stopped: timer_create(2) on
// CLOCK_BOOTTIME. It is made once, because making it can fail (it counts against RLIMIT_SIGPENDING) and setting it
// cannot. ARCHITECTURE.md rule 19.
type kernelTimer struct {
	id    int32
	at    boottime.Time
	every time.Duration
}

// sigevent is the kernel's struct sigevent; what follows the first three fields is not used.
type sigevent struct {
	value  uintptr
	signal int32
	notify int32
	_      [56]byte
}

// newKernelTimer makes a timer that is not set.
func newKernelTimer(signal unix.Signal) (*kernelTimer, error) {
	event := sigevent{signal: int32(signal)} // notify 0 is SIGEV_SIGNAL
	t := &kernelTimer{}
	_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&t.id)))
	switch {
	case errno == 0:
		return t, nil
	case errors.Is(errno, unix.EAGAIN):
		return nil, fmt.Errorf("exec: no kernel timer to be had: the limit of pending signals is used up: "+
			"raise it (ulimit -i, or LimitSIGPENDING= in a systemd unit): %w", errno)
	}
	return nil, fmt.Errorf("exec: timer_create on the boot clock: %w", errno)
}

// set arms the timer for the instant at, and from then on every so often if that is not zero; the zero Time disarms it.
func (t *kernelTimer) set(at boottime.Time, every time.Duration) {
	if at == t.at && every == t.every {
		return
	}
	t.at, t.every = at, every
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	if !at.IsZero() {
		spec.Interval = unix.NsecToTimespec(int64(every))
	}
	_, _, errno := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(t.id), 1 /* TIMER_ABSTIME */, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		panic("exec: timer_settime: " + errno.Error()) // our own arguments were wrong
	}
}

// close frees the timer.
func (t *kernelTimer) close() {
	_, _, _ = unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(t.id), 0, 0)
}

package boottime

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Now reads CLOCK_BOOTTIME. It cannot fail on a kernel that Go supports.
func Now() Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("boottime: CLOCK_BOOTTIME: " + err.Error())
	}
	return Time(ts.Nano())
}

// Timer sends on C when the boot clock has reached the instant that it was last set to. It is a timerfd with an
// absolute time, so it fires at once after a suspend that went past it.
type Timer struct {
	c    chan struct{}
	file *os.File
	done sync.WaitGroup
}

// NewTimer makes a timer that is not set. Close frees it.
func NewTimer() (*Timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("boottime: timerfd: %w", err)
	}
	t := &Timer{c: make(chan struct{}, 1), file: os.NewFile(uintptr(fd), "timerfd")}
	t.done.Add(1)
	go t.read()
	return t, nil
}

// C is where the timer says that it fired. It holds one value; the instant that it belongs to may have been replaced
// since, so who receives looks at the clock.
func (t *Timer) C() <-chan struct{} { return t.c }

// Set arms the timer for the instant at (also one that has passed: it fires at once). The zero Time disarms it.
// Safe for concurrent use.
func (t *Timer) Set(at Time) {
	if at < 0 {
		at = 1 // before boot: fire at once; the kernel refuses a negative instant, and zero disarms
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	raw, err := t.file.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = raw.Control(func(fd uintptr) {
		if err := unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
			panic("boottime: timerfd_settime: " + err.Error()) // our own arguments were wrong
		}
	})
}

// Close frees the timer and waits for its goroutine.
func (t *Timer) Close() error {
	err := t.file.Close()
	t.done.Wait()
	return err
}

func (t *Timer) read() {
	defer t.done.Done()
	var buf [8]byte
	for {
		n, err := t.file.Read(buf[:])
		if err != nil {
			return // closed
		}
		if n == len(buf) && binary.NativeEndian.Uint64(buf[:]) > 0 {
			select {
			case t.c <- struct{}{}:
			default: // one is waiting already
			}
		}
	}
}

//go:build !linux

package boottime

import (
	"sync"
	"time"
)

// The runtime's monotonic clock. On darwin it is mach_absolute_time, which stands still while the machine sleeps; on
// the BSDs CLOCK_MONOTONIC, whose behaviour in suspend differs from one to the next. So on these systems a deadline may
// be late by the time that the machine slept: the manual says so, and the fencing token is the defence.
var start = time.Now()

// Now reads the runtime's monotonic clock, counted from one second before the program started so that it is never zero.
func Now() Time { return Time(time.Since(start) + time.Second) }

// Timer sends on C when the clock has reached the instant that it was last set to.
type Timer struct {
	c     chan struct{}
	mu    sync.Mutex
	timer *time.Timer
}

// NewTimer makes a timer that is not set. Close frees it.
func NewTimer() (*Timer, error) { return &Timer{c: make(chan struct{}, 1)}, nil }

// C is where the timer says that it fired. It holds one value; the instant that it belongs to may have been replaced
// since, so who receives looks at the clock.
func (t *Timer) C() <-chan struct{} { return t.c }

// Set arms the timer for the instant at (also one that has passed: it fires at once). The zero Time disarms it.
// Safe for concurrent use.
func (t *Timer) Set(at Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if at.IsZero() {
		return
	}
	t.timer = time.AfterFunc(at.Sub(Now()), func() {
		select {
		case t.c <- struct{}{}:
		default: // one is waiting already
		}
	})
}

// Close frees the timer.
func (t *Timer) Close() error {
	t.Set(0)
	return nil
}

//go:build !linux

package exec

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
)

// kernelTimer does nothing here: macOS has no timer_create and no clock for it that counts sleep. A stopped leaderrun
// with a stopped guard keeps its tree for as long as both are stopped; either of them alone is covered by the other.
type kernelTimer struct{}

func newKernelTimer(unix.Signal) (*kernelTimer, error) { return &kernelTimer{}, nil }

func (*kernelTimer) set(boottime.Time, time.Duration) {}
func (*kernelTimer) close()                           {}

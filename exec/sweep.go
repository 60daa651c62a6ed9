package exec

import "time"

// Swept is what a Sweep did.
type Swept struct {
	Killed     int // processes that were sent SIGKILL
	Unreadable int // processes that we may not look into: other users'
}

// sweepPause is the time between two passes.
func sweepPause(pass int) time.Duration {
	return min(time.Duration(pass+1)*500*time.Microsecond, 20*time.Millisecond)
}

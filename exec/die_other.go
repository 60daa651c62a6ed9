//go:build !linux

package exec

import "golang.org/x/sys/unix"

// defaultAction leaves it to the runtime: signals that it gives no effect, USR1 for one, end in an exit.
func defaultAction(unix.Signal) {}

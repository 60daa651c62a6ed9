//go:build !linux

package exec

import "golang.org/x/sys/unix"

const (
	getTermios        = unix.TIOCGETA
	setTermios        = unix.TIOCSETA
	setTermiosDrained = unix.TIOCSETAW
)

//go:build !linux

package exec

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Without MSG_CMSG_CLOEXEC a descriptor that was just received is inheritable for an instant; the guard, the only one
// that receives any, forks from the goroutine that receives.
const (
	recvFlags = unix.MSG_DONTWAIT
	sendFlags = unix.MSG_DONTWAIT
)

func streamPair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return pair, err
	}
	for _, fd := range pair {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return pair, err
		}
	}
	return pair, nil
}

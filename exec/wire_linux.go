package exec

import "golang.org/x/sys/unix"

const (
	recvFlags = unix.MSG_DONTWAIT | unix.MSG_CMSG_CLOEXEC
	sendFlags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
)

func streamPair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

package exec

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// highFD is where guard and sentinel have their socket: a low number would be taken from the child, which may have been
// given descriptors 3, 4, … by whoever started us (socket activation, "3<file"). ARCHITECTURE.md G16.
const highFD = 200

// socketpair makes the two ends of a connection, both close-on-exec and non-blocking, the second one at a high number.
func socketpair() (ours, theirs int, err error) {
	pair, err := streamPair()
	if err != nil {
		return -1, -1, fmt.Errorf("exec: socketpair: %w", err)
	}
	for _, low := range []int{highFD, 64, 32, 16, 10} { // where the limit of open files is below it
		if theirs, err = unix.FcntlInt(uintptr(pair[1]), unix.F_DUPFD_CLOEXEC, low); err == nil {
			break
		}
	}
	unix.Close(pair[1])
	if err != nil {
		unix.Close(pair[0])
		return -1, -1, fmt.Errorf("exec: a high descriptor: %w (raise the limit of open files)", err)
	}
	return pair[0], theirs, nil
}

// wire is the reading side of a connection: a stream socket that carries messages, and descriptors beside them. A
// stream and not packets, because a command's environment is larger than any packet, and because macOS has no others.
type wire struct {
	in    []byte
	buf   []byte
	oob   []byte
	files []int // received, not yet claimed by a message
}

// fill receives once, without blocking. It returns io.EOF at the end, which includes every error that means it.
func (w *wire) fill(fd int) error {
	if w.buf == nil {
		w.buf = make([]byte, 32<<10)
		w.oob = make([]byte, unix.CmsgSpace(4*maxFiles))
	}
	n, oobn, flags, _, err := unix.Recvmsg(fd, w.buf, w.oob, recvFlags)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return err
	case err != nil, n == 0:
		return io.EOF
	}
	if oobn > 0 {
		if err := w.claim(w.oob[:oobn]); err != nil {
			return err
		}
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return errMessage
	}
	w.in = append(w.in, w.buf[:n]...)
	return nil
}

func (w *wire) claim(oob []byte) error {
	controls, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return err
	}
	for i := range controls {
		files, err := unix.ParseUnixRights(&controls[i])
		if err != nil {
			continue // not descriptors
		}
		for _, fd := range files {
			unix.CloseOnExec(fd) // where recvmsg cannot do it
		}
		w.files = append(w.files, files...)
	}
	return nil
}

// next takes the next complete message, with its descriptors, which then belong to the caller. It returns false when
// there is none.
func (w *wire) next() (m message, files []int, ok bool, err error) {
	body, rest, err := frame(w.in)
	if err != nil || body == nil {
		if len(w.in) == 0 {
			w.in = nil // a large message must not keep its memory
		}
		return message{}, nil, false, err
	}
	if m, err = decode(body); err != nil {
		return message{}, nil, false, err
	}
	w.in = rest
	if m.files > len(w.files) {
		return message{}, nil, false, errMessage
	}
	files, w.files = w.files[:m.files:m.files], w.files[m.files:]
	return m, files, true, nil
}

// push sends as much of b as goes without blocking; the descriptors go with the first byte.
func push(fd int, b []byte, files []int) (int, error) {
	var oob []byte
	if len(files) > 0 {
		oob = unix.UnixRights(files...)
	}
	for {
		n, err := unix.SendmsgN(fd, b, oob, nil, sendFlags)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func closeAll(files []int) {
	for _, fd := range files {
		unix.Close(fd)
	}
}

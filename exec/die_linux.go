package exec

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// defaultAction gives a signal its default effect, past the runtime, which keeps a handler of its own for most and lets
// USR1, for one, have no effect. All zero is SIG_DFL with no flags and an empty mask in the kernel's struct sigaction
// on every architecture; 8 is the size of its mask on all but mips, where the call fails and the caller exits.
func defaultAction(sig unix.Signal) {
	var action [64]byte
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

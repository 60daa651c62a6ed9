package exec

import (
	"os/signal"

	"golang.org/x/sys/unix"
)

// inheritedIgnores lists the signals that were ignored when this process was executed, one byte each, as far as they
// can still be found out. The Go runtime keeps what it found for HUP and INT only. POSIX shells ignore QUIT whenever
// they ignore INT (for a command with "&" in a script). The others are known in a build with the tag sigign.
// ARCHITECTURE.md G15.
func inheritedIgnores() []string {
	ignored := runtimeIgnores()
	add := func(n unix.Signal) {
		for _, s := range ignored {
			if s[0] == byte(n) {
				return
			}
		}
		ignored = append(ignored, string([]byte{byte(n)}))
	}
	if signal.Ignored(unix.SIGHUP) {
		add(unix.SIGHUP)
	}
	if signal.Ignored(unix.SIGINT) {
		add(unix.SIGINT)
		add(unix.SIGQUIT)
	}
	return ignored
}

package exec

import (
	"errors"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// start forks the child, on the main thread. It has our descriptors 0, 1, 2, those that are not close-on-exec, and the
// working directory, as leaderrun had them.
func (k *keeper) start(extra []string) (pid int, err error) {
	k.rank.give()
	defer k.rank.raise()
	pidfd := -1
	attr := &syscall.ProcAttr{
		Env:   merge(k.command.env, extra),
		Files: []uintptr{0, 1, 2},
		Sys:   childAttr(int(k.command.number), &pidfd),
	}
	pid, err = syscall.ForkExec(k.command.text, k.command.args, attr)
	if errors.Is(err, unix.ENOEXEC) {
		// A script without a #! line: execvp(3) and every shell hand it to sh.
		args := []string{"sh", k.command.text}
		if len(k.command.args) > 0 {
			args = append(args, k.command.args[1:]...)
		}
		pid, err = syscall.ForkExec("/bin/sh", args, attr)
	}
	if err != nil {
		return 0, err
	}
	k.pidfd = pidfd
	k.tree.found(pid, int(k.command.number))
	return pid, nil
}

// merge puts the entries of extra in the place of those with the same name.
func merge(env, extra []string) []string {
	replaced := make(map[string]bool, len(extra))
	for _, entry := range extra {
		name, _, _ := strings.Cut(entry, "=")
		replaced[name] = true
	}
	merged := make([]string, 0, len(env)+len(extra))
	for _, entry := range env {
		if name, _, _ := strings.Cut(entry, "="); !replaced[name] {
			merged = append(merged, entry)
		}
	}
	return append(merged, extra...)
}

// ignoreForChild restores what leaderrun inherited as ignored: a caught signal becomes the default at exec, an ignored
// one stays ignored. SIGCHLD cannot be given on: a parent that ignores it is not told how its child ended.
func ignoreForChild(signals []string) {
	for _, s := range signals {
		if len(s) != 1 {
			continue
		}
		if n := unix.Signal(s[0]); n != unix.SIGCHLD && n != unix.SIGCONT && n != unix.SIGURG {
			signal.Ignore(n)
		}
	}
}

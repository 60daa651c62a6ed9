//go:build !linux

package exec

import (
	"errors"

	"golang.org/x/sys/unix"
)

// tree is what can be reached here without child subreapers and without /proc: the child, and its process group when it
// has one of its own. A descendant that left the group, or, with a controlling terminal (where the child shares
// leaderrun's group), any descendant but the child, is not killed: the fencing token is the defence.
type tree struct {
	child int // 0 when there is none
	group int // the child's own process group, 0 when it has none
	round int
	skip  map[int]bool
}

// reap collects every child that has ended, and reports whether no child is left at all.
func reap(each func(pid int, status unix.WaitStatus)) (none bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return true
		case pid <= 0:
			return false
		}
		each(pid, status)
	}
}

// each calls f for what can be signalled.
func (t *tree) each(f func(pid int)) {
	if t.child > 0 {
		f(t.child)
	}
	if t.group > 0 {
		f(-t.group)
	}
}

// step sends SIGKILL to all that can be reached, and reports whether nothing of it is left.
func (t *tree) step(none bool) (empty bool) {
	t.round++
	left := 0
	t.each(func(pid int) {
		if err := unix.Kill(pid, unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
			left++
		}
	})
	return left == 0
}

func (t *tree) begin() { t.round = 0 }

// found notes the child. group is the one that it was put into, 0 for one of its own.
func (t *tree) found(pid, group int) {
	t.child, t.group = pid, 0
	if group == 0 {
		t.group = pid
	}
}

// lost notes that the child was reaped. Its group may live on.
func (t *tree) lost() { t.child = 0 }

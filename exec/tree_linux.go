package exec

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// tree is the processes below this one: all that it has started and all that those have started. As a child subreaper
// (prctl(2)) it inherits each of them whose parent dies, whatever session or group it is in, so "no child is left" is
// proof that no descendant is.
type tree struct {
	skip  map[int]bool // children that are not of the tree; nothing below them is either
	round int
	quiet int // consecutive walks that found nothing alive
}

// reap collects every child that has ended, and reports whether no child is left at all. __WALL: a child made by
// clone(2) with another exit signal is not waited for otherwise.
func reap(ended func(pid int, status unix.WaitStatus)) (none bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return true // ECHILD is the only other one
		case pid <= 0:
			return false
		}
		ended(pid, status)
	}
}

// each calls f for every process of the tree that one walk finds, parents before children. A walk alone proves nothing:
// processes come and go beside it.
func (t *tree) each(f func(pid int)) {
	for _, pid := range descendants(os.Getpid(), t.skip) {
		f(pid)
	}
}

// step is one round of the kill loop, to be called after reap with what it returned: it sends SIGKILL to all that it
// finds, and reports whether the tree is empty. SIGSTOP first is not needed, also against fork bombs: GUARD.md G7.
//
// The proof is that no child is left. Where that cannot come (children of ours that are not of the tree, or a zombie
// that a debugger holds), it is two walks in a row that find nothing alive. Children are only added to the end of the
// kernel's list while nobody reaps, and nobody does during a walk, so one walk has seen every child that is left.
func (t *tree) step(none bool) (empty bool) {
	if none {
		return true
	}
	alive := 0
	t.each(func(pid int) {
		_ = unix.Kill(pid, unix.SIGKILL) // gone already, or not ours to kill: the next round tells
		if !dead(pid) {
			alive++
		}
	})
	t.round++
	t.quiet++
	if alive > 0 || t.round < 10 && len(t.skip) == 0 {
		t.quiet = 0
	}
	return t.quiet > 1
}

// found and lost note the child. The walk needs neither.
func (t *tree) found(pid, group int) {}
func (t *tree) lost()                {}

// begin makes ready for a new kill loop.
func (t *tree) begin() { t.round, t.quiet = 0, 0 }

// descendants lists the processes below root, without those in skip and what is below them.
func descendants(root int, skip map[int]bool) []int {
	list := childrenOf
	if unix.Access("/proc/thread-self/children", unix.F_OK) != nil {
		list = scanChildren() // a kernel without CONFIG_PROC_CHILDREN
	}
	var found []int
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, pid := range list(next[0]) {
			if !skip[pid] {
				found = append(found, pid)
				next = append(next, pid)
			}
		}
	}
	return found
}

// childrenOf reads the children of every thread of a process.
func childrenOf(pid int) []int {
	var found []int
	base := "/proc/" + strconv.Itoa(pid) + "/task"
	for _, thread := range names(base) {
		text, err := os.ReadFile(base + "/" + thread + "/children")
		if err != nil {
			continue // the thread ended: its children have moved to another
		}
		for field := range bytes.FieldsSeq(text) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}

// scanChildren reads the parents of all processes once, and returns the lookup of children in it.
func scanChildren() func(pid int) []int {
	children := map[int][]int{}
	for _, name := range names("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if fields := stat(pid); len(fields) > 1 {
			if parent, err := strconv.Atoi(string(fields[1])); err == nil {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	return func(pid int) []int { return children[pid] }
}

// dead reports whether a process has ended, be it that nobody has waited for it yet. One whose first thread alone has
// ended shows the same state and has other threads left (proc(5): field 20 of stat counts them).
func dead(pid int) bool {
	fields := stat(pid)
	if len(fields) < 18 {
		return true // it is not there any more
	}
	state := fields[0][0]
	return state == 'X' || state == 'Z' && string(fields[17]) <= "1"
}

// stat reads the fields of /proc/<pid>/stat from the third on (state, parent, …). The second one is the name of the
// process, which may hold anything, so what counts is the last parenthesis.
func stat(pid int) [][]byte {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
}

// names lists a directory; an error is an empty one.
func names(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	list, _ := d.Readdirnames(-1)
	return list
}

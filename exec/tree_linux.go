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
	dead  map[int]bool // what the last walk found dead
}

// reap collects every child that has ended, and reports whether no child is left at all. __WALL: a child made by
// clone(2) with another exit signal is not waited for otherwise.
func reap(each func(pid int, status unix.WaitStatus)) (none bool) {
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
		each(pid, status)
	}
}

// each calls f for every process of the tree that one walk finds, parents before children. A walk alone proves nothing:
// processes come and go beside it.
func (t *tree) each(f func(pid int)) {
	var w walker
	w.walk(os.Getpid(), t.skip, f)
}

// step is one round of the kill loop, to be called after reap with what it returned: it sends SIGKILL to all that it
// finds, and reports whether the tree is empty. SIGSTOP first is not needed, also against fork bombs:
// ARCHITECTURE.md G7.
//
// The proof is that no child is left. Where that cannot come (children of ours that are not of the tree, or a zombie
// that a debugger holds), it is a walk that finds nothing but what the walk before had found dead. The kernel adds
// orphans at the end of our list of children, and takes none out but by our own reap; so such a walk has seen every
// child that there is, and what has no living child of ours above it does not live.
func (t *tree) step(none bool) (empty bool) {
	if none {
		return true
	}
	empty = t.round > 0
	dead := map[int]bool{}
	t.each(func(pid int) {
		if !t.dead[pid] {
			empty = false
		}
		_ = unix.Kill(pid, unix.SIGKILL) // gone already, or not ours to kill: the next round tells
		if (t.round > 5 || len(t.skip) > 0) && ended(pid) {
			dead[pid] = true
		}
	})
	t.dead = dead
	t.round++
	return empty
}

// begin makes ready for a new kill loop.
func (t *tree) begin() { t.round, t.dead = 0, nil }

// found and lost note the child. The walk needs neither.
func (t *tree) found(pid, group int) {}
func (t *tree) lost()                {}

// walker goes through the processes below one.
type walker struct {
	buf   [4096]byte
	found []int
}

// walk calls f for each process below root as soon as it is found, without those in skip and what is below them. It
// does not collect them first: with a tree that grows all the time, whoever dies early starts nobody any more. The
// children of one that dies meanwhile come to us, to be found by the next walk.
func (w *walker) walk(root int, skip map[int]bool, f func(pid int)) {
	list := w.children
	if unix.Access("/proc/thread-self/children", unix.F_OK) != nil {
		list = scanChildren() // a kernel without CONFIG_PROC_CHILDREN
	}
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, pid := range list(next[0]) {
			if !skip[pid] {
				f(pid)
				next = append(next, pid)
			}
		}
	}
}

// children reads the children of every thread of a process. What it returns is valid until the next call.
func (w *walker) children(pid int) []int {
	w.found = w.found[:0]
	base := "/proc/" + strconv.Itoa(pid) + "/task"
	// A directory of one thread, which is most of them, has three links: no need to list it.
	var info unix.Stat_t
	if err := unix.Stat(base, &info); err != nil {
		return nil
	}
	if info.Nlink == 3 {
		w.read(base + "/" + strconv.Itoa(pid) + "/children")
		return w.found
	}
	for _, thread := range names(base) {
		w.read(base + "/" + thread + "/children")
	}
	return w.found
}

// read adds the numbers in a file. One that is not there was a thread that has ended: its children have moved to another.
func (w *walker) read(name string) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	number := 0
	for {
		n, err := unix.Read(fd, w.buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		for _, c := range w.buf[:n] { // "12 345 ": each number is followed by a space
			if c != ' ' {
				number = number*10 + int(c-'0')
				continue
			}
			w.found = append(w.found, number)
			number = 0
		}
	}
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

// ended reports whether a process has ended, be it that nobody has waited for it yet. One whose first thread alone has
// ended shows the same state and has other threads left (proc(5): field 20 of stat counts them).
func ended(pid int) bool {
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

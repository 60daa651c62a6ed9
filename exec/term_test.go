//go:build linux

package exec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
	"github.com/leaderrun/leaderrun/exec"
)

// What comes too late, or for another term, is refused by the guard itself: ARCHITECTURE.md rule 1.
func TestLateBegin(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "started")
	for _, c := range []struct {
		name string
		do   func(l *leaderrun)
	}{
		{"another term", func(l *leaderrun) {
			l.do("arm", 1, far())
			l.do("begin", 2, far())
		}},
		{"no term", func(l *leaderrun) { l.do("begin", 1, far()) }},
		{"deadline passed", func(l *leaderrun) {
			l.do("arm", 1, far())
			l.do("begin", 1, in(-time.Millisecond, time.Second, 2*time.Second))
		}},
		{"guard stopped meanwhile", func(l *leaderrun) {
			l.do("arm", 1, far())
			l.want(exec.Acked)
			kill(l.guard, unix.SIGSTOP)
			stopped(l.t, l.guard)
			d := in(50*time.Millisecond, 30*time.Second, 40*time.Second)
			l.do("begin", 1, d)
			for boottime.Now().Before(d.Term) {
				time.Sleep(time.Millisecond)
			}
			kill(l.guard, unix.SIGCONT)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := play(t)
			l.do("prepare", "/bin/touch", marker)
			c.do(l)
			l.want(exec.Refused)
			l.want(exec.Gone)
			l.do("close")
			if _, err := os.Stat(marker); err == nil {
				t.Error("the child was started")
			}
		})
	}
}

func TestBeginWithoutCommand(t *testing.T) {
	l := play(t)
	l.do("arm", 1, far())
	l.do("begin", 1, far())
	if e := l.want(exec.Refused); !strings.Contains(e.err, "command") {
		t.Errorf("refused because %q, want a word about the command", e.err)
	}
}

// An extension is acknowledged with its own deadline and moves the kill; after TERM it is refused.
func TestExtend(t *testing.T) {
	t.Parallel()
	l := play(t)
	f := newTree(t)
	first := in(1500*time.Millisecond, 3*time.Second, 6*time.Second)
	l.run(first, f.script(`trap 'echo term >&9' TERM; echo ready >&9; while :; do sleep 0.01; done`)...)
	f.ready()
	second := in(3*time.Second, 3500*time.Millisecond, 6*time.Second)
	l.do("extend", 1, second)
	for {
		if e := l.want(exec.Acked); e.end == second.End {
			break
		}
	}
	if line := f.line(); line != "term" {
		t.Fatalf("the child said %q, want term", line)
	}
	if now := boottime.Now(); now.Before(second.Term) {
		t.Errorf("TERM came %v before the extended deadline", second.Term.Sub(now))
	}
	l.want(exec.Lapsed)
	l.do("extend", 1, far())
	l.want(exec.Refused)
	if gone := f.gone(); gone.Before(second.Kill) || !gone.Before(second.End) {
		t.Errorf("the tree was gone %v after KILL was due", gone.Sub(second.Kill))
	}
	l.want(exec.Exited)
	l.want(exec.Gone)
	l.do("begin", 1, far())
	l.want(exec.Refused)
}

// At Term the whole tree gets TERM, then CONT, so that one that is stopped can act; who does need not be killed.
func TestLapse(t *testing.T) {
	t.Parallel()
	l := play(t)
	f := newTree(t)
	d := in(1500*time.Millisecond, 15*time.Second, 18*time.Second)
	child := l.run(d, f.script(`trap 'exit 3' TERM
sh -c 'trap "echo grandchild >&9; exit" TERM; echo ready >&9; while :; do sleep 0.01; done' &
while :; do sleep 0.01; done`)...)
	f.ready()
	kill(child.pid, unix.SIGSTOP)
	stopped(t, child.pid)
	if line := f.line(); line != "grandchild" {
		t.Fatalf("%q, want the grandchild's word at TERM", line)
	}
	l.want(exec.Lapsed)
	if e := l.want(exec.Exited); e.status.ExitStatus() != 3 {
		t.Errorf("exited %+v, want status 3", e)
	}
	l.want(exec.Gone)
	if now := f.gone(); !now.Before(d.Kill) {
		t.Error("the tree lived until KILL")
	}
}

// A term that was armed and in which nothing was ever begun runs out all the same, and is handed back at End unless
// leaderrun does.
func TestArmedLapses(t *testing.T) {
	t.Parallel()
	l := play(t)
	d := in(100*time.Millisecond, 400*time.Millisecond, 1500*time.Millisecond)
	l.do("arm", 1, d)
	l.want(exec.Lapsed)
	if e := l.want(exec.Gone); !e.at.Before(d.End) {
		t.Errorf("Gone came %v after the end", e.at.Sub(d.End))
	}
	c := l.crashReport()
	if c.Begun || c.Token != 1 || c.Crash != "secret1" || c.End != int64(d.End) {
		t.Errorf("report %+v, want term 1, not begun, its secret, its deadline", c)
	}
	if now := boottime.Now(); now.Before(d.End) {
		t.Errorf("handed back %v before the end of the term", d.End.Sub(now))
	}
	l.want(exec.GuardDied)
}

// leaderrun lives and does nothing: its term is over, the tree gone, and at End the guard hands it back.
func TestHangs(t *testing.T) {
	t.Parallel()
	l := play(t)
	f := newTree(t)
	d := in(1500*time.Millisecond, 1700*time.Millisecond, 3*time.Second)
	l.run(d, f.stubborn()...)
	f.ready()
	c := l.crashReport()
	if !c.Begun || c.Token != 1 {
		t.Errorf("report %+v, want term 1, begun", c)
	}
	if now := boottime.Now(); now.Before(d.End) {
		t.Errorf("handed back %v before the end of the term", d.End.Sub(now))
	}
	l.want(exec.Lapsed)
	l.want(exec.Exited)
	l.want(exec.Gone)
	l.want(exec.GuardDied)
}

func TestDisarmedInTime(t *testing.T) {
	t.Parallel()
	l := play(t)
	d := in(100*time.Millisecond, 400*time.Millisecond, 1500*time.Millisecond)
	l.do("arm", 1, d)
	l.want(exec.Lapsed)
	l.want(exec.Gone)
	l.do("disarm", 1)
	next := far()
	l.do("arm", 2, next) // the answer shows that the guard is there after the first one's End
	for e := l.want(exec.Acked); e.token != 2; e = l.want(exec.Acked) {
	}
	for boottime.Now().Before(d.End.Add(50 * time.Millisecond)) {
		time.Sleep(time.Millisecond)
	}
	l.do("prepare", "/bin/true")
	l.do("begin", 2, next)
	if e := l.want(exec.Started); e.token != 2 {
		t.Errorf("started %+v, want term 2", e)
	}
}

func TestArmTwice(t *testing.T) {
	l := play(t)
	l.do("arm", 1, far())
	l.do("arm", 2, far())
	if e := l.want(exec.Refused); e.token != 2 {
		t.Errorf("refused %+v, want term 2", e)
	}
}

// The guard hands back what it was given, its files are open until then, and the child never had them.
func TestCrash(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(name, []byte("the lock"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, begun := range []bool{false, true} {
		t.Run(fmt.Sprintf("begun %v", begun), func(t *testing.T) {
			l := play(t)
			f := newTree(t)
			l.do("prepare", f.stubborn())
			l.do("arm", 1, far(), name)
			l.want(exec.Acked)
			if !holds(l.guard, name) || holds(l.cmd.Process.Pid, name) {
				t.Error("the guard must hold the file, leaderrun has closed it")
			}
			if begun {
				l.do("begin", 1, far())
				child := l.want(exec.Started).pid
				f.ready()
				if holds(child, name) {
					t.Error("the child holds the guard's file")
				}
			}
			l.signal(unix.SIGKILL)
			c := l.crashReport()
			if begun && f.living() {
				t.Error("handed back with a process of the tree left")
			}
			if c.Begun != begun || c.Token != 1 || c.Crash != "secret1" || len(c.Files) != 1 || c.Files[0] != "the lock" {
				t.Errorf("report %+v, want term 1, begun %v, its secret and file", c, begun)
			}
			if c.PID != l.guard || c.Stdout != "/dev/null" {
				t.Errorf("report of process %d with stdout %s, want of the guard %d without one", c.PID, c.Stdout, l.guard)
			}
		})
	}
}

func TestNoReport(t *testing.T) {
	l := play(t)
	name := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.do("arm", 1, far(), name)
	if l.next(); !holds(l.guard, name) {
		t.Error("the guard does not hold the file")
	}
	l.do("disarm", 1)
	eventually(t, "the file to be closed", func() bool { return !holds(l.guard, name) })
	l.signal(unix.SIGKILL)
	l.noReport()
}

// A guard that is stopped far from its deadline is noticed by the answer that does not come. ARCHITECTURE.md G5.
func TestStalled(t *testing.T) {
	t.Parallel()
	l := play(t)
	f := newTree(t)
	d := in(4*time.Second, 20*time.Second, 30*time.Second)
	l.run(d, f.script("echo ready >&9; sleep 1000")...)
	f.ready()
	kill(l.guard, unix.SIGSTOP)
	stopped(t, l.guard)
	before := boottime.Now()
	next := in(4*time.Second, 20*time.Second, 30*time.Second)
	l.do("extend", 1, next)
	e := l.want(exec.Stalled)
	if took := e.at.Sub(before); took < 500*time.Millisecond || took > 3*time.Second {
		t.Errorf("noticed after %v, want about 1s", took)
	}
	if e := l.want(exec.Acked); e.end != next.End {
		t.Errorf("acked %+v, want the extension", e)
	}
}

// Kill, and a second child in the same term.
func TestKillAndBeginAgain(t *testing.T) {
	l := play(t)
	f := newTree(t)
	l.run(far(), f.stubborn()...)
	f.ready()
	l.do("kill", 1)
	if e := l.want(exec.Exited); e.status.Signal() != unix.SIGKILL {
		t.Errorf("exited %+v, want by SIGKILL", e)
	}
	l.want(exec.Gone)
	if f.living() {
		t.Error("Gone came while a process of the tree was left")
	}
	l.do("begin", 1, far())
	l.want(exec.Started)
	f.ready()
	l.do("disarm", 1) // with a tree: it is killed
	l.want(exec.Exited)
	l.want(exec.Gone)
	f.gone()
	l.do("kill", 1) // nothing to do, no answer
	l.do("arm", 2, far())
	l.do("kill", 2)
	if e := l.want(exec.Gone); e.token != 2 {
		t.Errorf("gone %+v, want term 2", e)
	}
}

// What the child leaves behind is gone before Gone, and at once.
func TestLeftBehind(t *testing.T) {
	l := play(t)
	f := newTree(t)
	l.run(far(), f.script(`trap "" TERM; sleep 1000 & ( (exec setsid sleep 1000) & ) ; exit 5`)...)
	exited := l.want(exec.Exited)
	if exited.status.ExitStatus() != 5 {
		t.Errorf("exited %+v, want status 5", exited)
	}
	gone := l.want(exec.Gone)
	if f.living() {
		t.Error("Gone came while a process of the tree was left")
	}
	if took := gone.at.Sub(exited.at); took > 250*time.Millisecond {
		t.Errorf("it took %v to get rid of what was left", took)
	}
}

func TestClose(t *testing.T) {
	l := play(t)
	f := newTree(t)
	l.run(far(), f.stubborn()...)
	f.ready()
	l.do("close")
	if f.living() {
		t.Error("Close returned while a process of the tree was left")
	}
	if alive(l.guard) {
		t.Error("Close returned while the guard was there")
	}
	l.do("leaks")
	l.noReport()
}

func TestOneGuard(t *testing.T) {
	l := play(t)
	if answer := l.try("start"); !strings.HasPrefix(answer, "error") {
		t.Errorf("a second Start = %s, want an error", answer)
	}
}

// holds reports whether a process has a file open.
func holds(pid int, name string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if link, _ := os.Readlink(filepath.Join(dir, e.Name())); link == name {
			return true
		}
	}
	return false
}

//go:build linux

package exec_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/boottime"
	"github.com/leaderrun/leaderrun/exec"
)

func TestRun(t *testing.T) {
	l := play(t)
	f := newTree(t)
	started := l.run(far(), f.script("echo ready >&9; exit 7")...)
	f.ready()
	exited := l.want(exec.Exited)
	if exited.pid != started.pid || !exited.status.Exited() || exited.status.ExitStatus() != 7 {
		t.Fatalf("exited %+v, want status 7 of %d", exited, started.pid)
	}
	l.want(exec.Gone)
	l.do("disarm", 1)
	l.do("close")
	l.want(exec.GuardDied)
	l.noReport()
}

// A crash of leaderrun, or of the guard.
func TestKilled(t *testing.T) {
	const prompt = 250 * time.Millisecond
	for _, c := range []struct {
		name string
		do   func(l *leaderrun)
	}{
		{"leaderrun", func(l *leaderrun) { l.signal(unix.SIGKILL) }},
		{"guard", func(l *leaderrun) { kill(l.guard, unix.SIGKILL) }},
		{"leaderrun with the guard stopped", func(l *leaderrun) {
			kill(l.guard, unix.SIGSTOP)
			stopped(t, l.guard)
			l.signal(unix.SIGKILL)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := play(t)
			f := newTree(t)
			child := l.run(far(), f.stubborn()...)
			f.ready()
			kill(child.pid, unix.SIGSTOP)
			stopped(t, child.pid)
			start := boottime.Now()
			c.do(l)
			if took := f.gone().Sub(start); took > prompt {
				t.Errorf("the tree was gone after %v, want at most %v", took, prompt)
			} else {
				t.Logf("gone after %v", took)
			}
		})
	}
}

// Both at one stroke: the child dies at once, and Sweep finds the rest.
func TestBothKilled(t *testing.T) {
	for _, first := range []string{"leaderrun", "guard"} {
		t.Run(first+" first", func(t *testing.T) {
			l := play(t)
			f := newTree(t)
			mark := strings.ReplaceAll(t.TempDir(), "/", "-")
			l.do("prepare", f.stubborn())
			l.do("arm", 1, far())
			l.do("begin", 1, far(), "TEST_MARK="+mark+"/1")
			child := l.want(exec.Started).pid
			f.ready()
			if first == "guard" {
				kill(l.guard, unix.SIGKILL)
				l.signal(unix.SIGKILL)
			} else {
				l.signal(unix.SIGKILL)
				kill(l.guard, unix.SIGKILL)
			}
			eventually(t, "the child's death", func() bool { return !alive(child) })
			swept, err := exec.Sweep(t.Context(), "TEST_MARK", mark+"/", mark+"/2")
			if err != nil {
				t.Errorf("Sweep = %v", err)
			}
			if f.living() {
				t.Errorf("a process of the tree is left after %+v", swept)
			}
		})
	}
}

// A dead guard: leaderrun does its work and says so.
func TestGuardDies(t *testing.T) {
	l := play(t)
	f := newTree(t)
	child := l.run(far(), f.stubborn()...)
	f.ready()
	kill(l.guard, unix.SIGKILL)
	exited := l.want(exec.Exited)
	if exited.pid != child.pid || exited.status.Signal() != unix.SIGKILL {
		t.Errorf("exited %+v, want SIGKILL of %d", exited, child.pid)
	}
	l.want(exec.Gone)
	l.want(exec.GuardDied)
	if f.living() {
		t.Error("Gone came while a process of the tree was left")
	}
	if answer := l.try("begin", 1, far()); answer != "error "+exec.ErrGuardGone.Error() {
		t.Errorf("Begin = %s, want ErrGuardGone", answer)
	}

	l.do("start")
	l.run(far(), "/bin/true")
	l.want(exec.Exited)
	l.want(exec.Gone)
}

// Stopped for longer than the term: each of our processes, and both. The tree is gone by End, and a leaderrun that was
// stopped is awake again.
func TestStopped(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(l *leaderrun)
		by   func(d exec.Deadline) boottime.Time
	}{
		{"leaderrun", func(l *leaderrun) { l.signal(unix.SIGSTOP) }, func(d exec.Deadline) boottime.Time { return d.Kill }},
		{"guard", func(l *leaderrun) { kill(l.guard, unix.SIGSTOP) }, func(d exec.Deadline) boottime.Time { return d.Kill }},
		{"both", func(l *leaderrun) { l.signal(unix.SIGSTOP); kill(l.guard, unix.SIGSTOP) },
			func(d exec.Deadline) boottime.Time { return d.Kill }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := play(t)
			f := newTree(t)
			d := in(1500*time.Millisecond, 2*time.Second, 4*time.Second)
			l.run(d, f.stubborn()...)
			f.ready()
			c.do(l)
			gone := f.gone()
			if gone.Before(d.Kill) {
				t.Errorf("the tree was gone %v before KILL was due", d.Kill.Sub(gone))
			}
			if late := gone.Sub(c.by(d)); late > 500*time.Millisecond {
				t.Errorf("the tree was gone %v after KILL was due", late)
			}
			if !gone.Before(d.End) {
				t.Errorf("the tree was gone %v after the end of the term", gone.Sub(d.End))
			}
			l.want(exec.Lapsed)
			l.want(exec.Exited)
			l.want(exec.Gone)
			l.do("disarm", 1)
			if status := l.quit("exit", "0"); status != 0 {
				t.Errorf("leaderrun ended with %#x, want 0", status)
			}
		})
	}
}

//go:build linux

package exec_test

import (
	"bytes"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/exec"
)

// terminal is a pseudo-terminal whose session leader is leaderrun.
type terminal struct {
	master, slave *os.File
	mu            sync.Mutex
	seen          bytes.Buffer
}

func newTerminal(t *testing.T) (*terminal, option) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal to be had: %v", err)
	}
	master := os.NewFile(uintptr(fd), "ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{master: master, slave: slave}
	var done sync.WaitGroup
	done.Go(func() {
		var b [4096]byte
		for {
			n, err := master.Read(b[:])
			if err != nil && !strings.Contains(err.Error(), "input/output") {
				return
			}
			term.mu.Lock()
			term.seen.Write(b[:n])
			term.mu.Unlock()
			if err != nil {
				time.Sleep(time.Millisecond)
			}
		}
	})
	t.Cleanup(func() { master.Close(); slave.Close(); done.Wait() })
	return term, func(cmd *osexec.Cmd) {
		cmd.Stdin, cmd.Stdout = slave, slave
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	}
}

// counter says each signal that it gets, and the number of each at "USR2".
const counter = `for s in INT TERM HUP QUIT USR1; do trap "echo $s >&9" $s; done
echo ready >&9
while :; do sleep 0.01; done`

// The child, which shares leaderrun's group, gets each signal exactly once: ARCHITECTURE.md G10.
func TestSentinel(t *testing.T) {
	term, onTerminal := newTerminal(t)
	l := play(t, onTerminal)
	l.do("watch")
	f := newTree(t)
	child := l.run(far(), f.script(counter)...)
	f.ready()
	if pgid, _ := unix.Getpgid(child.pid); pgid != l.cmd.Process.Pid {
		t.Fatalf("the child is in group %d, want leaderrun's %d", pgid, l.cmd.Process.Pid)
	}
	eventually(t, "the sentinel", func() bool { return sentinelOf(l) != 0 })
	l.do("signal", 1, int(unix.SIGUSR1)) // a round trip, and the sentinel has had its time
	if line := f.line(); line != "USR1" {
		t.Fatalf("the child got %s, want USR1", line)
	}
	press := func(key string) func() { return func() { _, _ = term.master.WriteString(key) } }
	send := func(s unix.Signal) func() { return func() { l.signal(s) } }
	sendGroup := func(s unix.Signal) func() { return func() { kill(-l.cmd.Process.Pid, s) } }
	for _, c := range []struct {
		name  string
		do    func()
		want  string
		group bool
	}{
		{"Ctrl-C", press("\x03"), "INT", true},
		{"Ctrl-C again", press("\x03"), "INT", true},
		{"kill -INT leaderrun", send(unix.SIGINT), "INT", false},
		{"kill -INT leaderrun again", send(unix.SIGINT), "INT", false},
		{"Ctrl-C after it", press("\x03"), "INT", true},
		{`Ctrl-\`, press("\x1c"), "QUIT", true},
		{"kill leaderrun", send(unix.SIGTERM), "TERM", false},
		{"kill %1", sendGroup(unix.SIGTERM), "TERM", true},
		{"kill -HUP leaderrun", send(unix.SIGHUP), "HUP", false},
		{"HUP to the group", sendGroup(unix.SIGHUP), "HUP", true},
		{"kill -USR1 leaderrun", send(unix.SIGUSR1), "USR1", false},
	} {
		c.do()
		var num int
		var group bool
		if _, err := fmt.Sscanf(l.said(), "signal %d %v", &num, &group); err != nil {
			t.Fatal(err)
		}
		if group != c.group {
			t.Errorf("%s: signal %d to the group is %v, want %v", c.name, num, group, c.group)
		}
		if line := f.line(); line != c.want {
			t.Errorf("%s: the child got %s, want %s", c.name, line, c.want)
		}
	}
	l.do("signal", 1, int(unix.SIGUSR1)) // nothing came twice
	if line := f.line(); line != "USR1" {
		t.Errorf("the child got %s as well", line)
	}
	sentinel := sentinelOf(l)
	if status := l.quit("exit", "0"); status != 0 {
		t.Errorf("leaderrun ended with %#x, want 0", status)
	}
	if alive(sentinel) {
		t.Error("the sentinel is left")
	}
}

// Without the sentinel the keyboard's signals are still not doubled.
func TestSentinelDies(t *testing.T) {
	term, onTerminal := newTerminal(t)
	l := play(t, onTerminal)
	l.do("watch")
	eventually(t, "the sentinel", func() bool { return sentinelOf(l) != 0 })
	f := newTree(t)
	l.run(far(), f.script(counter)...)
	f.ready()
	kill(sentinelOf(l), unix.SIGKILL)
	eventually(t, "the sentinel's end", func() bool { return sentinelOf(l) == 0 })
	_, _ = term.master.WriteString("\x03")
	if said, want := l.said(), fmt.Sprintf("signal %d true", unix.SIGINT); said != want {
		t.Errorf("Ctrl-C: %s, want %s", said, want)
	}
	if line := f.line(); line != "INT" {
		t.Errorf("the child got %s, want INT", line)
	}
	l.signal(unix.SIGTERM)
	if line := f.line(); line != "TERM" {
		t.Errorf("the child got %s, want TERM", line)
	}
}

// The death of the guard does not take the sentinel along, and does not wait for it.
func TestSentinelOutlivesGuard(t *testing.T) {
	_, onTerminal := newTerminal(t)
	l := play(t, onTerminal)
	l.do("watch")
	eventually(t, "the sentinel", func() bool { return sentinelOf(l) != 0 })
	sentinel := sentinelOf(l)
	f := newTree(t)
	l.run(far(), f.stubborn()...)
	f.ready()
	kill(l.guard, unix.SIGKILL)
	l.want(exec.Exited)
	l.want(exec.Gone)
	if f.living() {
		t.Error("Gone came while a process of the tree was left")
	}
	l.want(exec.GuardDied)
	if !alive(sentinel) {
		t.Error("the sentinel was killed")
	}
}

// Ctrl-Z stops leaderrun and child together, and the sentinel not; the guard neither. The deadline holds.
func TestCtrlZ(t *testing.T) {
	t.Parallel()
	term, onTerminal := newTerminal(t)
	// A process group whose members' parents are all outside the session is orphaned, and ignores Ctrl-Z: a shell in
	// between keeps it from being one.
	shell := func(cmd *osexec.Cmd) {
		cmd.Args = []string{"sh", "-c", "set -m; " + cmd.Path + "; sleep 1000"}
		cmd.Path = "/bin/sh"
	}
	l := play(t, onTerminal, shell)
	l.do("watch")
	f := newTree(t)
	d := in(2*time.Second, 3*time.Second, 6*time.Second)
	child := l.run(d, f.script("echo ready >&9; exec sleep 1000")...)
	f.ready()
	_, _ = term.master.WriteString("\x1a")
	stopped(t, child.pid)
	l.want(exec.Lapsed) // leaderrun was continued, by its own timer
	if e := l.want(exec.Exited); e.status.Signal() != unix.SIGTERM {
		t.Errorf("exited %+v, want by SIGTERM", e)
	}
	l.want(exec.Gone)
}

// Without a terminal there is no sentinel, and each signal is leaderrun's alone. What is ignored is not watched.
func TestSignalsWithoutTerminal(t *testing.T) {
	l := play(t, func(cmd *osexec.Cmd) {
		cmd.Args = []string{"sh", "-c", `trap "" HUP; exec ` + cmd.Path}
		cmd.Path = "/bin/sh"
	})
	l.do("watch")
	f := newTree(t)
	l.run(far(), f.script(counter)...)
	f.ready()
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2} {
		l.signal(s)
		if s == unix.SIGHUP {
			continue
		}
		if said, want := l.said(), fmt.Sprintf("signal %d false", s); said != want {
			t.Errorf("%s, want %s", said, want)
		}
	}
	if sentinelOf(l) != 0 {
		t.Error("there is a sentinel without a terminal")
	}
}

func TestDieBy(t *testing.T) {
	for sig, harmless := range map[unix.Signal]bool{
		unix.SIGINT: true, unix.SIGTERM: true, unix.SIGHUP: true, unix.SIGKILL: true, unix.SIGUSR1: true, unix.SIGPIPE: true,
		unix.SIGALRM: true, unix.SIGSEGV: false, unix.SIGQUIT: false, unix.SIGABRT: false,
	} {
		for _, watch := range []bool{false, true} {
			l := play(t)
			if watch {
				l.do("watch")
			}
			status := l.quit("die", fmt.Sprint(int(sig)))
			switch {
			case harmless && status.Signal() != sig:
				t.Errorf("DieBy(%v) ended with %#x, want by the signal", sig, status)
			case !harmless && status.ExitStatus() != 128+int(sig):
				t.Errorf("DieBy(%v) ended with %#x, want status %d", sig, status, 128+int(sig))
			}
		}
	}
}

// said is the next thing that leaderrun says beside events and answers.
func (l *leaderrun) said() string {
	l.t.Helper()
	for {
		select {
		case line := <-l.answers:
			return line
		default:
		}
		line := l.line()
		if e, ok := parse(line); ok {
			l.events = append(l.events, e)
			continue
		}
		return line
	}
}

// sentinelOf finds it among leaderrun's children.
func sentinelOf(l *leaderrun) int {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		var pid, parent int
		var name, state string
		if _, err := fmt.Sscan(string(text), &pid, &name, &state, &parent); err != nil {
			continue
		}
		if name == "(lr-sentinel)" && parent == l.cmd.Process.Pid && state != "Z" {
			return pid
		}
	}
	return 0
}
